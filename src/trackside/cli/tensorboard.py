"""`trackside tensorboard`: runs TensorBoard on one job or several, live."""

import re
import signal
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from trackside.cli.job_names import job_argument
from trackside.errors import MissingExtra
from trackside.sdk.known_jobs import known_jobs
from trackside.storage.locate import locate
from trackside.texts.shown_names import shown_name
from trackside.texts.terminal_text import visible

if TYPE_CHECKING:
    from trackside.curves.provider import FindLocations, JobCurves
    from trackside.jobs.job_service import JobService

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command(short_help="Show jobs side by side in TensorBoard, live.")
@job_argument("jobs", or_place=True, metavar="JOB...", nargs=-1, required=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="By default 6006, or the next free port.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address to listen on; by default 127.0.0.1.",
)
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option("--mirror", is_flag=True, help="Copy the event files to this disk for TensorBoard.")
def tensorboard(
    jobs: tuple[str, ...], port: int | None, host: str, no_open: bool, mirror: bool
) -> None:
    """Show the curves of jobs side by side in TensorBoard, live. Stop it with Ctrl-C.

    A JOB is a name, or a location with event files (s3://…, a folder). Curves come from the job's
    folder while it runs here and from object storage afterwards, down-sampled with their extremes.

    \b
    Examples:
      trackside tensorboard train-2026-11-15-22-50-46-123
      trackside tensorboard job-a job-b s3://bucket/old/tensorboard-output
    """
    if find_spec("tensorboard") is None:
        raise MissingExtra("trackside tensorboard", "tensorboard", "tensorboard")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options = [f"--host={host}", *([] if port is None else [f"--port={port}"])]
    try:
        for url, of_jobs in _serve(jobs, options, mirror=mirror):
            if host not in LOOPBACK:
                print(f"TensorBoard asks nobody for a password: who reaches {host} sees all of it.")
            for label, page in of_jobs.items():
                print(f"{visible(label)} alone: {page}")
            print(f"TensorBoard is at {url} (Ctrl-C ends it)", flush=True)
            if not no_open:
                webbrowser.open(url)
    except KeyboardInterrupt:
        print()


def _serve(
    names: Sequence[str], options: Sequence[str], *, mirror: bool
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields TensorBoard's address once it responds, and continues until it exits.

    With several jobs each also has its own page, unless TensorBoard reads a copy.
    """
    # Imported here: they need the extra, and half a second.
    from trackside.curves.mirror import Mirror, needs_folder
    from trackside.curves.provider import Library
    from trackside.curves.provider_server import ProviderServer
    from trackside.curves.tensorboard_process import TensorBoardProcess

    known = known_jobs()
    labels = {_label(name): name for name in names}
    # An unknown job is reported before anything starts.
    places = {label: _find(known, name) for label, name in labels.items()}
    with ExitStack() as parts:
        if mirror or any(needs_folder(find()) for find in places.values()):
            folder = Path(parts.enter_context(TemporaryDirectory(prefix="trackside-tensorboard-")))
            copied = Mirror(folder, places)
            copied.refresh()
            parts.enter_context(copied)
            labels = {}
            source = [f"--logdir={folder}", "--reload_interval=1"]
            process = parts.enter_context(TensorBoardProcess([*source, *options]))
            print(f"TensorBoard reads a copy in {folder}, which follows the jobs.", file=sys.stderr)
        else:
            library = Library(lambda name: places.get(name) or _find(known, name), list(labels))
            server = ProviderServer(library)
            source = [f"--grpc_data_provider=127.0.0.1:{server.port}"]
            # TensorBoard takes seconds to start: the curves are read meanwhile.
            process = parts.enter_context(TensorBoardProcess([*source, *options]))
            for label in labels:
                _print_address(library.job(label))
            parts.enter_context(server)
        url = process.url()
        pages = {label: _page_of(url, label) for label in labels}
        yield url, pages if len(pages) > 1 else {}
        process.wait()


def _page_of(url: str, label: str) -> str:
    """Where only the runs of one job are shown. Below `experiment/JOB/`, where its server has them
    too, TensorBoard's page finds none: it asks for those of a default experiment."""
    return f"{url}?runFilter={quote(f'^{re.escape(label)}(/|$)', safe='')}#timeseries"


def _label(name: str) -> str:
    """A location's name among the runs: its last significant part."""
    parts = [part for part in name.rstrip("/").split("/") if part != "tensorboard-output"]
    return shown_name(parts[-1]) or name


def _find(known: "JobService", name: str) -> "FindLocations":
    if "/" in name:
        place = locate(name, home=known.settings.home)
        return lambda: [place]
    known.curve_places(name)
    return partial(known.curve_places, name)


def _print_address(job: "JobCurves") -> None:
    """TensorBoard shows an empty page without an explanation; this prints one."""
    job.refresh()
    if not job.runs():
        where = " or ".join(repr(place) for place in job.locations)
        print(
            f"{visible(job.name)}: no event files yet at {visible(where)}. The page shows them "
            "when they come.",
            file=sys.stderr,
        )
