"""`trackside placements`: where jobs can run, what is free there, and why not."""

from typing import Any

import click

from trackside.cli.tables import Cell, print_table
from trackside.cli.text import as_json
from trackside.placement.choose import (
    PLACEMENTS,
    UnknownPlacement,
    placement_class,
    placement_named,
)
from trackside.placement.placement import PlacementAway
from trackside.settings import Settings


@click.command(short_help="List where jobs can run, and what is free there.")
@click.argument("names", metavar="[PLACEMENT]…", nargs=-1)
@click.option("--json", is_flag=True, help="Print them as JSON.")
def placements(names: tuple[str, ...], json: bool) -> None:
    """List where jobs can run, what is free there, and why not.

    Without PLACEMENT: this machine, the engines that it can ask, and the one that
    TRACKSIDE_PLACEMENT names. `trackside run --on PLACEMENT` runs a job there.

    \b
    Examples:
      trackside placements
      trackside placements slurm:me@login.example.com ray://head.example.com:10001
    """
    found = [_look(name) for name in names or _known()]
    if json:
        return print(as_json(found))
    rows = [
        [
            Cell("" if number else each["placement"]),
            Cell("" if number else each["state"]),
            Cell(line),
        ]
        for each in found
        for number, line in enumerate(each["offers"] or [each["why"]])
    ]
    print_table(("PLACEMENT", "STATE", "WHAT THERE IS"), rows)


def _known() -> list[str]:
    present = [name for name in PLACEMENTS if placement_class(name).is_here()]
    return [*dict.fromkeys([*present, Settings.load().placement])]


def _look(name: str) -> dict[str, Any]:
    try:
        offers = placement_named(name).offers()
    except UnknownPlacement as error:
        raise click.BadParameter(f"{name!r} {error}", param_hint="PLACEMENT") from None
    except PlacementAway as error:
        return _row(name, "away", str(error))
    except ValueError as error:
        return _row(name, "not here", str(error))
    return _row(name, "ready", "", offers)


def _row(name: str, state: str, why: str, offers: list[str] | None = None) -> dict[str, Any]:
    return {"placement": name, "state": state, "why": why, "offers": offers or []}
