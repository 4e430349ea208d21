"""`trackside keys`: who may call the server, and what they may do."""

import sys
import time
from dataclasses import asdict
from typing import Any

import click

from trackside.cli.access import access_keys
from trackside.cli.tables import Cell, print_table
from trackside.cli.text import as_json, duration
from trackside.settings import Settings

RIGHTS = ("read", "submit", "admin")
COLUMNS = ("KEY", "RIGHTS", "AGE", "ENDS IN", "LIMIT", "LABEL")
DEFAULT_OVERLAP_HOURS = 24.0


@click.group
def keys() -> None:
    """Access keys of this machine's server.

    \b
    Examples:
      trackside keys create ci --rights submit
      trackside keys list
      trackside keys rotate TSABC --overlap 48
      trackside keys revoke TSABC
    """


@keys.command
@click.argument("label")
@click.option("--rights", type=click.Choice(RIGHTS), default="submit", show_default=True)
@click.option(
    "--limit",
    type=click.IntRange(0),
    metavar="JOBS",
    help="How many of its jobs run at a time; 0 is any number. Else TRACKSIDE_JOBS_PER_KEY.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def create(label: str, rights: str, limit: int | None, json: bool) -> None:
    """Make a key; its secret is shown this once.

    read looks at everything. submit also creates jobs, changes and deletes its own, and writes to
    buckets. admin also changes and deletes the jobs of others. LABEL is the owner of the jobs: keys
    with the same label are one owner.

    \b
    Example:
      trackside keys create ci --rights submit --limit 2
    """
    found = access_keys(Settings.load())
    others = [key.id for key in found.all() if key.label == label]
    from trackside.api.keys import Rights  # there, now that the extra is known to be installed

    made, secret = found.create(label, Rights(rights), limit=limit)
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

    \b
    Example:
      trackside keys list --json
    """
    found = access_keys(Settings.load()).all()
    records = [{k: v for k, v in asdict(key).items() if k != "sealed"} for key in found]
    if json:
        print(as_json(records))
    elif not records:
        print("No keys. `trackside keys create LABEL` makes one.")
    else:
        print_table(COLUMNS, [_row(record, time.time()) for record in records])


@keys.command(short_help="Make a successor of a key.")
@click.argument("key")
@click.option(
    "--overlap",
    type=click.FloatRange(0),
    default=DEFAULT_OVERLAP_HOURS,
    show_default=True,
    metavar="HOURS",
    help="How long the old one is still good.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def rotate(key: str, overlap: float, json: bool) -> None:
    """Make a successor with the same rights; the old key ends after the overlap.

    \b
    Example:
      trackside keys rotate TSABC --overlap 48
    """
    made, secret = access_keys(Settings.load()).rotate(key, overlap * 3600)
    _print_secret(made.id, secret, json)


@keys.command
@click.argument("key")
def revoke(key: str) -> None:
    """End a key at once.

    \b
    Example:
      trackside keys revoke TSABC
    """
    access_keys(Settings.load()).revoke(key)
    print(f"Revoked {key}")


def _print_secret(key_id: str, secret: str, json: bool) -> None:
    if json:
        print(as_json({"id": key_id, "secret": secret}))
    else:
        print(f"export AWS_ACCESS_KEY_ID={key_id}")
        print(f"export AWS_SECRET_ACCESS_KEY={secret}")


def _row(key: dict[str, Any], now: float) -> list[Cell]:
    ends = key["expires"]
    left = "" if ends is None else "over" if ends <= now else duration(ends - now)
    age = duration(now - key["created"])
    limit = "" if key["limit"] is None else str(key["limit"] or "none")
    texts = [key["id"], str(key["rights"]), age, left, limit, key["label"]]
    return [Cell(text) for text in texts]
