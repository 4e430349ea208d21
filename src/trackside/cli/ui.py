"""`trackside ui`: opens the page, on this machine's jobs or a server's."""

import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from socket import socket
from urllib.parse import quote

import click

from trackside.cli.job_names import job_argument
from trackside.cli.server import url_for
from trackside.errors import MissingExtra, ServerRefused
from trackside.page import ui_address
from trackside.page.path_prefix import checked_prefix
from trackside.profiles import Server, chosen_server
from trackside.settings import Settings, environment, keep_files_private

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command(short_help="Open the page: what is wrong, jobs, curves, logs.")
@job_argument("job", required=False)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="By default 8477, or the next free port.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="An address of this machine that only itself reaches; by default 127.0.0.1.",
)
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option(
    "--path-prefix",
    default="",
    metavar="PATH",
    help="What a reverse proxy on this machine has before /ui.",
)
def ui(job: str | None, port: int | None, host: str, no_open: bool, path_prefix: str) -> None:
    """Open the page on this machine's jobs, or on one JOB. Stop it with Ctrl-C.

    No server is needed. If one is configured (`trackside login`, TRACKSIDE_URL), its page is opened
    instead, by a link that logs in once.

    \b
    Examples:
      trackside ui
      trackside ui last
      trackside ui --no-open --port 8080
    """
    settings = Settings.load()
    prefix = checked_prefix(path_prefix, "--path-prefix")
    fragment = f"#/job/{quote(job, safe='')}" if job else ""
    server = chosen_server(environment(), settings.home)
    if server is not None:
        _open_server(server, job, no_open)
    else:
        _open_here(settings.embedded, fragment, no_open, host, port, prefix)


def _open_server(server: Server, job: str | None, no_open: bool) -> None:
    from trackside.cli.page_link import page_link

    link = page_link(server, job or "")
    print(f"The page of {server.url}, by a link that logs in once, within five minutes:")
    print(link, flush=True)
    if not no_open:
        webbrowser.open(link)


def _open_here(
    settings: Settings, fragment: str, no_open: bool, host: str, port: int | None, prefix: str
) -> None:
    if host not in LOOPBACK:
        raise ServerRefused(
            f"--host {host!r} can be reached by others, and `trackside ui` asks nobody for a "
            "password. `trackside server --listen HOST:PORT` serves the same page to a team, with "
            "access keys."
        )
    _check_packages()
    keep_files_private()
    record = settings.layout.ui
    if found := ui_address.running(record):
        _show(f"{found}{fragment}", no_open, "runs already at")
        return
    with _listening(host, port) as listener:
        url = f"{url_for(host, listener.getsockname()[1])}{prefix}/ui/"
        with ui_address.registered(record, url) as other:
            _show(f"{other or url}{fragment}", no_open, "runs already at" if other else "is at")
            if not other:
                _serve(settings, listener, prefix)


def _check_packages() -> None:
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtra("`trackside ui`", package, "ui")


def _serve(settings: Settings, listener: socket, prefix: str) -> None:
    """Imported here: the address is shown, and the browser opened, meanwhile."""
    from trackside.jobs.jobs import Jobs
    from trackside.page.ui_server import make_server

    jobs = Jobs(settings, environment())
    with suppress(KeyboardInterrupt):  # which ends it
        make_server(jobs, path_prefix=prefix).run(sockets=[listener])


def _show(url: str, no_open: bool, what: str) -> None:
    """The listener takes connections already, so that a browser only waits."""
    print(f"The page {what} {url}", flush=True)
    if what == "is at":
        print("Ctrl-C ends it; jobs go on.", flush=True)
    if not no_open:
        webbrowser.open(url)


def _listening(host: str, port: int | None) -> socket:
    try:
        return ui_address.bound(host, port)
    except OSError as error:
        raise ServerRefused(
            f"Nobody can listen at '{host}:{port}': {error.strerror or error}. Without --port the "
            "next free port is taken."
        ) from error
