"""`trackside keys`: manages who may call the server, and what they may do."""

import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackside.cli import text
from trackside.cli.access import access_keys
from trackside.cli.tables import Cell, print_table
from trackside.cli.text import as_json, duration
from trackside.errors import MissingExtra
from trackside.jobs.owner_limit import Limit
from trackside.settings import Settings, environment

if TYPE_CHECKING:
    from trackside.api.keys import AccessKey

RIGHTS = ("read", "submit", "admin")
COLUMNS = ("KEY", "RIGHTS", "AGE", "ENDS IN", "LIMIT", "QUOTA", "USED", "LABEL")
DEFAULT_OVERLAP_HOURS = 24.0


@click.group
def keys() -> None:
    """Access keys of this machine's server.

    \b
    Examples:
      trackside keys create ci --rights submit
      trackside keys list
      trackside keys quota TSABC 200GB
      trackside keys limit TSABC cores=8,gpus=2
      trackside keys rotate TSABC --overlap 48
      trackside keys revoke TSABC
      trackside keys team-key /etc/trackside/team.key
    """


@keys.command
@click.argument("label")
@click.option("--rights", type=click.Choice(RIGHTS), default="submit", show_default=True)
@click.option(
    "--limit",
    metavar="LIMIT",
    help="What its jobs may use at a time, as jobs=2,cores=8,gpus=1; a plain number limits jobs.",
)
@click.option(
    "--quota",
    metavar="SIZE",
    help="How much its jobs may store on the server's disk, such as 200GB; by default unlimited.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def create(label: str, rights: str, limit: str | None, quota: str | None, json: bool) -> None:
    """Create a key. Its secret is shown only once.

    read sees everything. submit also creates jobs, changes and deletes its own, and writes to
    buckets. admin also changes and deletes the jobs of others. LABEL is the owner of the jobs: keys
    with the same label are one owner.

    \b
    Example:
      trackside keys create ci --rights submit --limit 2
      trackside keys create bob --limit cores=8,gpus=2
      trackside keys create alice --quota 200GB
    """
    quota_bytes = None if quota is None else _parsed_quota(quota, "--quota")
    most = Limit() if limit is None else Limit.parse(limit)
    found = access_keys(Settings.load())
    others = [key.id for key in found.all() if key.label == label]
    from trackside.api.keys import Rights  # available, now that the extra is known to be installed

    made, secret = found.create(
        label,
        Rights(rights),
        limit=most.jobs,
        limit_cores=most.cores,
        limit_gpus=most.gpus,
        quota_bytes=quota_bytes,
    )
    _print_secret(made.id, secret, json)
    if others:
        print(
            f"Note: {' and '.join(others)} is called {label!r} too, and both are one owner: each "
            "may change the jobs of the other.",
            file=sys.stderr,
        )


@keys.command(name="list")
@click.option("--json", is_flag=True, help="Print JSON.")
def list_keys(json: bool) -> None:
    """List keys, oldest first. Secrets are never shown.

    USED is what the jobs of a label with a quota store on this machine's disk.

    \b
    Example:
      trackside keys list --json
    """
    found = access_keys(Settings.load())
    quotas = found.quotas()
    used = _used_by(quotas)
    records = [_record(key, quotas, used) for key in found.all()]
    if json:
        print(as_json(records))
    elif not records:
        print("No keys. `trackside keys create LABEL` makes one.")
    else:
        rows = [_row(record, time.time()) for record in records]
        print_table(COLUMNS, rows, numbers=("QUOTA", "USED"))


@keys.command(short_help="Set how much the jobs of a key may store.")
@click.argument("key")
@click.argument("size")
def quota(key: str, size: str) -> None:
    """Set how much the jobs of this key's label may store on the server's disk.

    SIZE is a number of MB, GB or TB, or none. Beyond it the oldest finished jobs of the label are
    removed, as by TRACKSIDE_KEEP; `trackside gc --dry-run` shows which.

    \b
    Examples:
      trackside keys quota TSABC 200GB
      trackside keys quota TSABC none
    """
    quota_bytes = _parsed_quota(size, "SIZE")
    label = access_keys(Settings.load()).set_quota(key, quota_bytes)
    if quota_bytes is None:
        print(f"{label} has no quota")
        return
    used = _used_by([label])[label]
    print(f"{label} may keep {text.size(quota_bytes)}, and keeps {text.size(used)}")
    if used > quota_bytes:
        print(
            f"Note: {text.size(used - quota_bytes)} of ended jobs go within minutes, the oldest "
            "first, if a server runs here.",
            file=sys.stderr,
        )


@keys.command(short_help="Set how much the jobs of a key may use at a time.")
@click.argument("key")
@click.argument("limit")
def limit(key: str, limit: str) -> None:
    """Set how much the jobs of this key's label may use of the server's machine at a time.

    LIMIT is jobs=NUMBER, cores=NUMBER and gpus=NUMBER, separated by commas, or none. What is not
    named is unlimited. Running jobs continue; jobs beyond the limit wait, and jobs of others pass
    them.

    \b
    Examples:
      trackside keys limit TSABC cores=8,gpus=2
      trackside keys limit TSABC none
    """
    most = Limit.parse(limit, "LIMIT")
    label = access_keys(Settings.load()).set_limit(key, most)
    print(f"{label} has the limit {most}" if most != Limit() else f"{label} has no limit")


@keys.command(short_help="Replace a key by a new one.")
@click.argument("key")
@click.option(
    "--overlap",
    type=click.FloatRange(0),
    default=DEFAULT_OVERLAP_HOURS,
    show_default=True,
    metavar="HOURS",
    help="How long the old key stays valid.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def rotate(key: str, overlap: float, json: bool) -> None:
    """Create a key with the same rights; the old one expires after the overlap.

    \b
    Example:
      trackside keys rotate TSABC --overlap 48
    """
    made, secret = access_keys(Settings.load()).rotate(key, overlap * 3600)
    _print_secret(made.id, secret, json)


@keys.command
@click.argument("key")
def revoke(key: str) -> None:
    """Revoke a key at once.

    \b
    Example:
      trackside keys revoke TSABC
    """
    access_keys(Settings.load()).revoke(key)
    print(f"Revoked {key}")


@keys.command(name="team-key", short_help="Create the key that a team's servers share.")
@click.argument("file", type=click.Path(path_type=Path))
def team_key(file: Path) -> None:
    """Create the key that encrypts a team's access keys in its database.

    Give each server of the team a copy of FILE that only the server's user can read, and name it in
    TRACKSIDE_TEAM_KEY_FILE. A key created at one server is then valid at all of them.

    \b
    Example:
      trackside keys team-key /etc/trackside/team.key
    """
    try:
        from trackside.api.encryption import make_team_key
    except ImportError as error:
        raise MissingExtra("A team's key", error.name or "cryptography", "server") from None
    make_team_key(file)
    print(f"Made {file}. Set TRACKSIDE_TEAM_KEY_FILE={file} for every server, each with a copy.")


def _parsed_quota(text: str, option: str) -> int | None:
    from trackside.jobs.retention import parse_quota  # not needed for a listing

    return parse_quota(text, option)


def _print_secret(key_id: str, secret: str, json: bool) -> None:
    if json:
        print(as_json({"id": key_id, "secret": secret}))
    else:
        print(f"export AWS_ACCESS_KEY_ID={key_id}")
        print(f"export AWS_SECRET_ACCESS_KEY={secret}")


def _used_by(labels: Collection[str]) -> dict[str, int]:
    """Walks through the jobs of these owners; imports nothing if there are none."""
    if not labels:
        return {}
    from trackside.jobs.jobs import Jobs

    return Jobs(Settings.load().embedded, environment()).disk.used_by(labels)


def _record(key: "AccessKey", quotas: Mapping[str, int], used: Mapping[str, int]) -> dict[str, Any]:
    """As displayed: with the quota in effect for its label, and without its secret."""
    record = {name: value for name, value in asdict(key).items() if name != "sealed"}
    return {**record, "quota_bytes": quotas.get(key.label), "used_bytes": used.get(key.label)}


def _row(key: dict[str, Any], now: float) -> list[Cell]:
    ends = key["expires"]
    left = "" if ends is None else "over" if ends <= now else duration(ends - now)
    age = duration(now - key["created"])
    limit = str(Limit(key["limit"], key["limit_cores"], key["limit_gpus"]))
    sizes = (key["quota_bytes"], key["used_bytes"])
    quota, used = ("" if each is None else text.size(each) for each in sizes)
    texts = [key["id"], str(key["rights"]), age, left, limit, quota, used, key["label"]]
    return [Cell(each) for each in texts]
