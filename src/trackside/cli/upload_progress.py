"""Progress of a job's uploads to a server, on a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from trackside.profiles import chosen_server
from trackside.records.hosts import Progress
from trackside.settings import Settings, environment


@contextmanager
def upload_shown() -> Iterator[None]:
    """Inside, a bar while files are uploaded; none where jobs run here, or without a terminal."""
    if not sys.stderr.isatty() or chosen_server(environment(), Settings.load().home) is None:
        yield
        return
    from trackside.cli.bars import live_bars
    from trackside.jobs.channel_upload import watched

    progress = Progress()

    token = watched.set(progress)
    try:
        with live_bars(lambda: {"": {"progress": asdict(progress)}}, stderr=True):
            yield
    finally:
        watched.reset(token)
