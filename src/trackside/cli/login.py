"""`trackside login`: use the jobs of a server from now on."""

import sys
from contextlib import suppress

import click

from trackside.errors import KeyRefused
from trackside.files import damaged_files
from trackside.profiles import (
    DEFAULT_PROFILE,
    Key,
    Server,
    checked_url,
    chosen_server,
    no_key,
    own_key,
    read_profiles,
    write_profiles,
)
from trackside.settings import Settings, environment

_NOBODY = Key("nobody", "nobody")
"""To check whether a server responds at all: it rejects this key."""


@click.command(short_help="Use the jobs of a server from now on.")
@click.argument("url", required=False)
@click.option("--browser", is_flag=True, help="Print a link that logs a browser in to its page.")
def login(url: str | None, browser: bool) -> None:
    """Use the jobs of a server instead of this machine's, until `trackside logout`.

    Asks for an access key, unless TRACKSIDE_ACCESS_KEY_ID and TRACKSIDE_SECRET_ACCESS_KEY are set
    or the server is this machine's own; checks it, and stores it in a file that only you can read.
    With several servers each has a profile: `trackside --profile NAME` chooses one.

    With --browser it prints a link to the server's page, which logs in once, within five minutes;
    without URL, that of the server that is used at present.

    \b
    Examples:
      trackside login https://train.example.com
      trackside --profile ci login http://10.0.0.7:7007
      trackside login --browser
    """
    settings = Settings.load()
    if url:
        server = _stored(checked_url(url, "URL"), settings)
    elif browser:
        server = _present(settings)
    else:
        raise click.UsageError("Give the URL of a server, or --browser for the present one.")
    if browser:
        from trackside.cli.page_link import page_link

        print("Open this in a browser, within five minutes; it logs in once:")
        print(page_link(server))


def _stored(url: str, settings: Settings) -> Server:
    name = settings.profile or DEFAULT_PROFILE
    server = Server(url, _key(url, settings))
    _try(server, settings)
    write_profiles(settings.home, {**read_profiles(settings.home), name: server})
    print(f"Jobs are those of {url} now. `trackside {_option(name)}logout` ends that.")
    return server


def _present(settings: Settings) -> Server:
    """The configured one, else this machine's own."""
    server = chosen_server(environment(), settings.home)
    if server is not None:
        return server
    address = damaged_files.read_object(settings.layout.server.address) or {}
    url = str(address.get("url", ""))
    if not url:
        raise click.UsageError(
            "No server is configured: give its URL. `trackside ui` opens the page on this "
            "machine's jobs without one."
        )
    return Server(url, own_key(settings.home, url))


def _key(url: str, settings: Settings) -> Key:
    known = {**environment(), "TRACKSIDE_URL": url, "TRACKSIDE_PROFILE": ""}
    found = chosen_server(known, settings.home)
    if found is not None and found.key is not None:
        return found.key
    with suppress(KeyRefused):
        _try(Server(url, _NOBODY), settings)
    print(f"{url} answers. `trackside keys create LABEL` on its machine makes a key.")
    try:
        return Key(click.prompt("Access key"), click.prompt("Secret", hide_input=True))
    except click.Abort:
        if sys.stdin.isatty():
            raise KeyboardInterrupt from None
        raise KeyRefused(no_key(url)) from None  # no terminal to type it at


def _try(server: Server, settings: Settings) -> None:
    """Raises for a wrong address or key."""
    from trackside.remote.remote_jobs import RemoteJobs

    RemoteJobs(server, settings).list(limit=1)


def _option(profile: str) -> str:
    return "" if profile == DEFAULT_PROFILE else f"--profile {profile} "
