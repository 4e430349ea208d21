"""`trackside env`: what a shell must evaluate so that AWS clients find the server."""

import re
from collections.abc import Mapping
from pathlib import Path

import click

from trackside.cli.access import DEFAULT_LISTEN, own_keys
from trackside.clients.environment import SHELLS, Access, changes, restored, sdk_config
from trackside.errors import KeyRefused, ServerUnreachable
from trackside.files import damaged_files, durable
from trackside.files.permissions import make_folder
from trackside.jobs.describe import ROLE_ARN
from trackside.profiles import Key, Server, chosen_server, no_key
from trackside.settings import Settings, environment

DEFAULT_REGION = "us-east-1"
DEFAULT_BUCKET = "trackside"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@click.command(short_help="Print shell commands that point AWS clients at the server.")
@click.option(
    "--region",
    default=DEFAULT_REGION,
    show_default=True,
    metavar="REGION",
    help="Any AWS region; SageMaker's SDK selects images by it.",
)
@click.option(
    "--bucket",
    metavar="NAME",
    help="The SDKs' default bucket; by default that of the server's output.",
)
@click.option(
    "--shell",
    type=click.Choice(tuple(SHELLS)),
    default="posix",
    show_default=True,
    help="Shell syntax; posix is for bash, zsh and similar.",
)
@click.option("--reset", is_flag=True, help="Undo it: restore the shell's variables.")
def env(region: str, bucket: str | None, shell: str, reset: bool) -> None:
    """Print shell commands that point boto3, the AWS CLI and SageMaker's SDKs at the server.

    Programs started in that shell need no change: also their requests to hosts of Amazon go to the
    server of `trackside login` or TRACKSIDE_URL, else to this machine's. In a running notebook, use
    `%load_ext trackside`.

    \b
    Examples:
      trackside env --region eu-central-1
      eval "$(trackside env)"
      trackside env --shell fish | source
      eval "$(trackside env --reset)"
    """
    settings = Settings.load()
    environ = environment()
    if reset:
        forget_access(settings, environ)
        print(SHELLS[shell](restored(environ)), end="")
    else:
        access = make_access(settings, environ, region, bucket)
        print(SHELLS[shell](changes(access, environ)), end="")


def make_access(
    settings: Settings, environ: Mapping[str, str], region: str, bucket: str | None = None
) -> Access:
    """For the server that our own clients use, else for the one last started here."""
    if bucket is not None and not _BUCKET.fullmatch(bucket):
        raise click.BadParameter(
            f"{bucket!r} is not a bucket name: 3 to 63 of a-z, 0-9, '.' and '-'.",
            param_hint="'--bucket'",
        )
    chosen = chosen_server(environ, settings.home)
    server = chosen or _own_server(settings)
    if server.key is None:
        raise KeyRefused(no_key(server.url))
    prefix = ""
    if bucket is None and (chosen or settings.layout.server.address.exists()):
        bucket, prefix = _output_of(server, settings)
    bucket = bucket or DEFAULT_BUCKET  # also of a server that was never started
    config = settings.layout.server.sdk_config(bucket)
    make_folder(config.parent)
    durable.write_bytes(config, sdk_config(bucket, prefix, ROLE_ARN).encode())
    return Access(
        url=server.url,
        key_id=server.key.id,
        secret=server.key.secret,
        region=region,
        sdk_config=config,
    )


def forget_access(settings: Settings, environ: dict[str, str]) -> None:
    """Remove the file that `make_access` wrote for this environment; never one of the user."""
    config = Path(environ.get("SAGEMAKER_USER_CONFIG_OVERRIDE", ""))
    if config.parent == settings.layout.server.root:
        config.unlink(missing_ok=True)


def _output_of(server: Server, settings: Settings) -> tuple[str, str]:
    """Bucket and prefix of the output of the server's jobs; it may be started later."""
    from trackside.remote.remote_reader import RemoteReader

    try:
        output = RemoteReader(server, settings).default_output()
    except ServerUnreachable:
        output = ""
    scheme, _, path = output.partition("://")
    bucket, _, prefix = path.partition("/")
    if scheme != "s3" or not _BUCKET.fullmatch(bucket):
        return DEFAULT_BUCKET, ""
    return bucket, prefix.strip("/")


def _own_server(settings: Settings) -> Server:
    keys = own_keys(settings)
    key = keys.own_key()
    address = damaged_files.read_object(settings.layout.server.address) or {}
    url = address.get("url") or f"http://{DEFAULT_LISTEN}"
    return Server(url, Key(key.id, keys.secret_of(key.id) or ""))
