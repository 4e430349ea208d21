"""`trackside server`: serves this machine's jobs to AWS clients."""

import ipaddress
import json
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from trackside.cli.access import DEFAULT_LISTEN, joined_keys
from trackside.containers import image_table
from trackside.containers.engine_client import Engine, EngineError, find_engine
from trackside.errors import (
    InvalidSetting,
    MissingExtra,
    ServerRefused,
    StorageError,
    StoreUnreachable,
)
from trackside.files import disk_space, durable
from trackside.jobs.placement_traits import caution_of
from trackside.jobs.team_database import open_database
from trackside.page.path_prefix import checked_prefix
from trackside.placement.choose import UnknownPlacement, placement_class
from trackside.records.spec import DOCKER
from trackside.settings import Settings, environment, keep_files_private, run_embedded
from trackside.storage.credentials import keep_to_configured_store, keep_to_embedded_buckets
from trackside.storage.locate import locate
from trackside.supervisor.user_check import check_users
from trackside.system import control_group
from trackside.system.run_as import RunAs
from trackside.texts.storage_schemes import OBJECT_STORES

if TYPE_CHECKING:
    from trackside.api.keys import AccessKeys

logger = logging.getLogger(__name__)

DEFAULT_DRAIN_SECONDS = 30.0
TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
_LOG_LINE = "%(asctime)s %(levelname)s %(name)s %(message)s"


@click.command(short_help="Run and show jobs for a team, over the AWS API.")
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    metavar="HOST:PORT",
    show_default=True,
    help="Where to listen; an address that other machines reach needs access keys.",
)
@click.option(
    "--advertise",
    metavar="HOST[:PORT]|URL",
    help="Where jobs reach this server, also those on other machines. Default: as --listen says, "
    "and 127.0.0.1 if that is all addresses.",
)
@click.option(
    "--database",
    metavar="URL",
    help="postgresql://…, for several servers that share jobs. [TRACKSIDE_DATABASE]",
)
@click.option(
    "--storage",
    metavar="URI",
    help="s3://BUCKET[/PREFIX], the object store of a team. [TRACKSIDE_STORAGE]",
)
@click.option(
    "--run-as",
    multiple=True,
    metavar="[LABEL=]USER",
    help="User that runs scripts, of one access key or of all. Needs root. [TRACKSIDE_RUN_AS]",
)
@click.option(
    "--sandbox",
    type=click.Choice(["process", "docker"]),
    help="docker runs every job in a container, of the image that it names. [TRACKSIDE_SANDBOX]",
)
@click.option(
    "--on",
    "placement",
    metavar="PLACEMENT",
    help="slurm, slurm:USER@LOGIN, ray, ray:HOST:PORT or, as an experiment, kubernetes[:CONTEXT]"
    " runs every job on that cluster."
    " [TRACKSIDE_PLACEMENT]",
)
@click.option(
    "--path-prefix",
    metavar="PATH",
    help="What a reverse proxy has before /ui, the page's path. [TRACKSIDE_PATH_PREFIX]",
)
@click.option(
    "--page-login",
    type=click.Choice(["others", "always"]),
    help="always: this machine's user has to log in to the page, too. [TRACKSIDE_PAGE_LOGIN]",
)
@click.option("--quiet", is_flag=True, help="Do not log requests.")
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default=TEXT,
    show_default=True,
    help="Format of the log on standard error.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=DEFAULT_DRAIN_SECONDS,
    show_default=True,
    help="How long open requests may take after a stop signal.",
)
def server(
    listen: str,
    advertise: str | None,
    database: str | None,
    storage: str | None,
    run_as: tuple[str, ...],
    sandbox: str | None,
    placement: str | None,
    path_prefix: str | None,
    page_login: str | None,
    quiet: bool,
    log_format: str,
    drain_seconds: float,
) -> None:
    """Serve the jobs of this machine to boto3, the AWS CLI and SageMaker's SDKs.

    It runs until SIGTERM or Ctrl-C; open requests are finished first, unless it gets a second
    signal. Jobs continue without it.

    \b
    Examples:
      trackside server
      eval "$(trackside env)" && aws sagemaker list-training-jobs
      trackside server --listen 0.0.0.0:7007 --advertise trackside.example.com
      trackside server --database postgresql://db/trackside --storage s3://bucket
      trackside server --run-as team=alice --run-as trackside-jobs
      trackside server --sandbox docker
    """
    host, port = parsed(listen)
    keep_files_private()
    run_embedded()
    given = {
        "TRACKSIDE_DATABASE": database,
        "TRACKSIDE_STORAGE": storage,
        "TRACKSIDE_RUN_AS": ",".join(run_as),
        "TRACKSIDE_SANDBOX": sandbox,
        "TRACKSIDE_PLACEMENT": placement,
        "TRACKSIDE_PATH_PREFIX": path_prefix,
        "TRACKSIDE_PAGE_LOGIN": page_login,
    }
    chosen = {name: value for name, value in given.items() if value}
    settings = Settings.load({**environment(), **chosen}).embedded
    prefix = checked_prefix(settings.path_prefix, "TRACKSIDE_PATH_PREFIX")
    settings = replace(settings, path_prefix=prefix)
    check_users(settings)
    _check_engine(settings)
    try:
        from trackside.api.server import listen as bind
        from trackside.api.server import make_server
        from trackside.api.services import Services
    except ImportError as error:
        raise MissingExtra("`trackside server`", error.name or "uvicorn", "server") from None
    write_log(log_format, requests=not quiet)
    if settings.database:
        with closing(open_database(settings)) as shared:
            shared.wait_until_there()
    keys = joined_keys(settings)
    _check_access(host, keys)
    _warn_of_shared_user(settings, keys)
    with _listening(bind, host, port) as listener:
        port = listener.getsockname()[1]
        url = url_for(host, port)
        public_url = advertised(advertise, port) if advertise else url
        _settle_storage(settings, url, public_url)
        settings.layout.server.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        _keep(settings.layout.server.address, {"url": url})
        _keep_own_key(settings, keys)
        _warn_of_full_disk(settings)
        _say_what_is_enforced()
        print(f"Listening at {url}", flush=True)
        print(f"  {url}{settings.path_prefix}/ui/   is the page", flush=True)
        print('  eval "$(trackside env)"   sets up AWS clients in a shell', flush=True)
        with (
            keys.kept_current(),
            Services(settings, keys, environment(), url=public_url) as services,
        ):
            make_server(services.app, drain_seconds=drain_seconds).run(sockets=[listener])


def _check_engine(settings: Settings) -> None:
    """Every job would fail without one; and a row for processes would never apply."""
    try:
        placement_class(settings.placement)
    except UnknownPlacement as error:
        raise InvalidSetting(f"TRACKSIDE_PLACEMENT = {settings.placement!r} {error}.") from None
    if caution := caution_of(settings.placement):
        logger.warning("%s", caution)
    rows = image_table.parse(settings.images)
    if settings.sandbox != DOCKER:
        return
    if programs := [f"{row.pattern}={row.program}" for row in rows if row.program]:
        raise InvalidSetting(
            f"TRACKSIDE_IMAGES names interpreters ({', '.join(programs)}), and --sandbox docker "
            "runs every job in a container. Name images instead, as in '*=docker:my-training', or "
            "leave --sandbox out: rows with docker: then still run in containers."
        )
    try:
        Engine(find_engine(environment())).call("GET", "/version")
    except EngineError as error:
        raise ServerRefused(f"--sandbox docker runs jobs in containers. {error}") from error


def _listening(bind: Callable[[str, int], socket], host: str, port: int) -> socket:
    try:
        return bind(host, port)
    except OSError as error:
        raise ServerRefused(
            f"Nobody can listen at '{host}:{port}': {error.strerror or error}. Another server may "
            "be there already; --listen HOST:PORT takes another address, port 0 any free one."
        ) from error


def parsed(listen: str, option: str = "--listen") -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"{option} {listen!r} is not of the form HOST:PORT.")
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


def advertised(given: str, port: int) -> str:
    """The URL of `--advertise`; without a port, the one that is listened to."""
    if "://" in given:
        found = urlsplit(given)
        is_valid = found.scheme in ("http", "https") and bool(found.hostname)
        if not is_valid or found.path.strip("/") or found.query:
            raise click.UsageError(f"--advertise {given!r} is not of the form http(s)://HOST:PORT.")
        return given.rstrip("/")
    host, colon, own_port = given.rpartition(":")
    if not colon or given.endswith("]") or given.count(":") > 1 and not given.startswith("["):
        host, own_port = given, str(port)
    host, number = parsed(f"{host}:{own_port}", option="--advertise")
    if _is_any(host):
        raise click.UsageError(
            f"--advertise {given!r} is every address of this machine. Give the one that jobs reach."
        )
    return url_for(host, number)


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _check_access(host: str, keys: "AccessKeys") -> None:
    """This machine's key is created automatically; other clients need a key created explicitly."""
    if _is_loopback(host):
        keys.own_key()
    elif not keys.all():
        raise ServerRefused(
            f"{host!r} can be reached from other machines, and there is no access key. "
            "Make one with `trackside keys create LABEL`, or listen on 127.0.0.1."
        )


def _warn_of_shared_user(settings: Settings, keys: "AccessKeys") -> None:
    """Clients that may only submit can read, through a script, whatever the server's user can."""
    run_as = RunAs.parse(settings.run_as)
    labels = {key.label for key in keys.all() if key.rights == "submit" and key.is_good}
    exposed = sorted(label for label in labels if not run_as.choose(label).user)
    if exposed:
        logger.warning(
            "scripts of the submit keys %s run as this server's own user: they can read its access "
            "keys (master.key, own_key.json), the jobs of everybody else and the environment of "
            "this process. --run-as USER runs them as another user",
            ", ".join(map(repr, exposed)),
        )


def _keep_own_key(settings: Settings, keys: "AccessKeys") -> None:
    """For our own clients on this machine, which do not have the master key: stored next to it,
    with the same permissions.
    """
    key = keys.own_key()
    record = {"id": key.id, "secret": keys.secret_of(key.id)}
    _keep(settings.layout.server.own_key, record)


def _keep(path: Path, record: Mapping[str, str | None]) -> None:
    """For clients on this machine. Others need no such record, so a full disk is no error."""
    try:
        if not path.exists() or path.read_bytes() != durable.json_bytes(record):
            durable.write_json(path, record, mode=0o600)
    except OSError as error:
        if not disk_space.takes_nothing(error):
            raise
        logger.warning(
            "%s cannot be written, so commands on this machine may not find this server: %s",
            path,
            error.strerror,
        )


def _warn_of_full_disk(settings: Settings) -> None:
    if trouble := disk_space.trouble(settings.home):
        logger.warning(
            "%s What is there can be read; nothing can be stored, and no job started, until that "
            "changes",
            trouble,
        )


def _say_what_is_enforced() -> None:
    """The queue only counts what jobs request; limiting what they use needs control groups."""
    kept = control_group.enforced()
    missing = [name for name, it in (("cores", kept.cpu), ("memory", kept.memory)) if not it]
    if missing:
        logger.warning(
            "%s that jobs ask for: counted, not enforced, as this process can make no control "
            "group for it (a systemd unit needs Delegate=yes and DelegateSubgroup=server)",
            " and ".join(missing),
        )


def _settle_storage(settings: Settings, *own_urls: str) -> None:
    """Sets what `s3://` means from now on, here and in the jobs; and checks a team's store."""
    storage = settings.storage
    if storage and not storage.startswith(OBJECT_STORES):
        raise InvalidSetting(
            f"The storage {storage!r} is not an object store. "
            f"Give {', '.join(OBJECT_STORES)} and a bucket."
        )
    if storage.startswith("s3://"):
        keep_to_configured_store(*own_urls)
    else:
        keep_to_embedded_buckets(*own_urls)
    if storage:
        _check_storage(settings)
    elif settings.database:
        logger.warning(
            "without --storage other servers can list the jobs of this one, but not read them"
        )


def _check_storage(settings: Settings) -> None:
    try:
        location = locate(settings.storage, home=settings.home, hurried=True)
        next(iter(location.store.list(location.key)), None)
    except StoreUnreachable as error:
        logger.warning("the storage %s does not answer yet: %s", settings.storage, error)
    except StorageError as error:
        raise ServerRefused(f"The storage {settings.storage!r} cannot be used: {error}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def write_log(form: str, *, requests: bool) -> None:
    """To standard error, as text or a JSON object per line. Without `requests`, not those."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == JSON else logging.Formatter(_LOG_LINE))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    level = logging.INFO if requests else logging.WARNING
    logging.getLogger("trackside.access").setLevel(level)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
