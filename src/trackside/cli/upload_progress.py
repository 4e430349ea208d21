"""What a job takes along to a server, shown at a terminal while it is on its way."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from trackside.profiles import chosen_server
from trackside.records.hosts import Progress
from trackside.settings import Settings, environment


@contextmanager
def upload_shown() -> Iterator[None]:
    """Inside, a bar while files are brought; none where jobs run here, or nobody looks."""
    if not sys.stderr.isatty() or chosen_server(environment(), Settings.load().home) is None:
        yield
        return
    from rich.console import Console, Group
    from rich.live import Live

    from trackside.cli.wait_for_job import bars
    from trackside.remote.upload_inputs import watched

    progress = Progress()

    def drawn() -> Group:
        return Group(*bars({"": {"progress": asdict(progress)}}))

    token = watched.set(progress)
    try:
        with Live(get_renderable=drawn, console=Console(stderr=True), transient=True):
            yield
    finally:
        watched.reset(token)
