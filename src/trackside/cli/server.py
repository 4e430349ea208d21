"""`trackside server`: this machine's jobs for the clients of AWS."""

import ipaddress

import click

from trackside import durable
from trackside.cli import server_log
from trackside.cli.access import access_keys, own_key
from trackside.errors import MissingExtra, ServerRefused
from trackside.settings import Settings, environment
from trackside.storage.credentials import keep_to_embedded_buckets

DEFAULT_LISTEN = "127.0.0.1:7007"
DEFAULT_DRAIN_SECONDS = 30.0


@click.command
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    metavar="HOST:PORT",
    show_default=True,
    help="Where; an address that other machines reach needs access keys.",
)
@click.option("--quiet", is_flag=True, help="No line for each request.")
@click.option(
    "--log-format",
    type=click.Choice(server_log.FORMATS),
    default=server_log.TEXT,
    show_default=True,
    help="Of the log on standard error.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=DEFAULT_DRAIN_SECONDS,
    show_default=True,
    help="How long requests that were begun have to end.",
)
def server(listen: str, quiet: bool, log_format: str, drain_seconds: float) -> None:
    """Answer boto3, the AWS CLI and SageMaker's SDKs for the jobs of this machine.

    It runs until SIGTERM or Ctrl-C; requests that were begun are answered first, unless it is
    asked again. Jobs go on without it.

    \b
    Examples:
      trackside server
      eval "$(trackside env)" && aws sagemaker list-training-jobs
      trackside server --listen 0.0.0.0:7007 --log-format json
    """
    host, port = parsed(listen)
    settings = Settings.load()
    _check_access(host, settings)
    try:
        from trackside.api.server import listen as bind
        from trackside.api.server import make_server
        from trackside.api.services import Services
    except ImportError as error:
        raise MissingExtra("`trackside server`", error.name or "uvicorn", "server") from None
    server_log.write_log(log_format, requests=not quiet)
    with bind(host, port) as listener:
        url = url_for(host, listener.getsockname()[1])
        keep_to_embedded_buckets(url)
        settings.layout.server.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        durable.write_json(settings.layout.server.address, {"url": url})
        print(f"Listening at {url}", flush=True)
        print('  eval "$(trackside env)"   sets up AWS clients in a shell', flush=True)
        with Services(settings, access_keys(settings), environment(), url=url) as services:
            make_server(services.app, drain_seconds=drain_seconds).run(sockets=[listener])


def parsed(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {listen!r} is not of the form HOST:PORT.")
    return host.strip("[]"), int(port)


def url_for(host: str, port: int) -> str:
    """As clients on this machine write it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"http://{host}:{port}"
    if address.is_unspecified:
        return f"http://{'127.0.0.1' if address.version == 4 else '[::1]'}:{port}"
    return f"http://{f'[{host}]' if address.version == 6 else host}:{port}"


def _check_access(host: str, settings: Settings) -> None:
    """A key for this machine is made by itself; others get in only by keys that somebody made."""
    keys = access_keys(settings)
    if _is_loopback(host):
        own_key(keys)
    elif not keys.all():
        raise ServerRefused(
            f"{host!r} can be reached from other machines, and there is no access key. "
            "Make one with `trackside keys create LABEL`, or listen on 127.0.0.1."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
