"""`trackside issues`: what is wrong, grouped over jobs, and what people have said about it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.tables import Cell, print_table, print_text
from trackside.cli.text import as_json
from trackside.sdk.known_jobs import known_jobs
from trackside.texts.quantities import duration
from trackside.texts.shown_names import shown_name
from trackside.texts.terminal_text import one_line
from trackside.texts.truncation import shortened

if TYPE_CHECKING:
    from trackside.remote.remote_jobs import RemoteJobs

_NEEDED = ("regressed", "open")
_STYLES = {"regressed": "bold red", "open": "red", "muted": "yellow", "fixed": "green"}
_MOST_JOBS = 10
_MOST_SUSPECTS = 3
_MOST_VALUE = 60

Issue = Mapping[str, Any]
"""As the page's API has it."""


@click.command(short_help="Show what is wrong, grouped over jobs, and what may have caused it.")
@click.argument("id", metavar="[ID]", required=False)
@click.option("--all", "is_all", is_flag=True, help="Also issues that are fixed or muted.")
@click.option(
    "--fixed",
    "state",
    flag_value="fixed",
    help="Call ID fixed: a later job that shows it makes it regressed.",
)
@click.option(
    "--mute",
    "more_jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Hide ID until N more jobs show it.",
)
@click.option("--open", "state", flag_value="open", help="Call ID open again.")
@click.option("--json", is_flag=True, help="Print JSON.")
def issues(
    id: str | None, is_all: bool, state: str | None, more_jobs: int | None, json: bool
) -> None:
    """Show what is wrong, one line for each problem, whichever jobs show it.

    An issue is a cause at a layer, or a failure at a line of code. With ID, or the beginning of it,
    everything about one: what to try, which jobs show it, and what changed between the last healthy
    job of the same script and the first sick one, the likeliest cause first.

    \b
    Examples:
      trackside issues
      trackside issues 1-3181
      trackside issues 1-3181 --fixed
      trackside issues 1-3181 --mute 10
    """
    if state is not None and more_jobs is not None:
        raise click.UsageError("Give one of --fixed, --mute and --open.")
    state = "muted" if more_jobs is not None else state
    if state is not None and id is None:
        raise click.UsageError("Name the issue by its ID. `trackside issues` lists all.")
    source = _source()
    if id is None:
        _print_all(source.overview(), is_all=is_all, json=json)
        return
    issue = source.find(id) if state is None else source.set_state(id, state, more_jobs or 1)
    if json:
        print(as_json(issue))
    elif state is None:
        _print_one(issue)
    else:
        print_text(f"{issue['id']} is {_standing(issue)}.")


class _OfThisMachine:
    def __init__(self) -> None:
        from trackside.views.problems.issues import Issues

        self._issues = Issues(known_jobs())

    def overview(self) -> dict[str, Any]:
        return self._issues.overview().to_json()

    def find(self, id: str) -> Issue:
        return self._issues.find(id).to_json()

    def set_state(self, id: str, state: str, more_jobs: int) -> Issue:
        return self._issues.set_state(id, state, more_jobs=more_jobs).to_json()


class _OfServer:
    """The server groups its jobs, and keeps the states."""

    def __init__(self, jobs: "RemoteJobs") -> None:
        self._jobs = jobs

    def overview(self) -> dict[str, Any]:
        return self._jobs.issues()

    def find(self, id: str) -> Issue:
        [issue] = self._jobs.issues(id)["issues"]
        return dict(issue)

    def set_state(self, id: str, state: str, more_jobs: int) -> Issue:
        return self._jobs.set_issue(id, state, more_jobs)


def _source() -> _OfThisMachine | _OfServer:
    known = known_jobs()
    if not known.is_at_server:
        return _OfThisMachine()
    from trackside.remote.remote_jobs import RemoteJobs

    assert isinstance(known, RemoteJobs)
    return _OfServer(known)


def _print_all(overview: Mapping[str, Any], *, is_all: bool, json: bool) -> None:
    found: Sequence[Issue] = overview["issues"]
    shown = [each for each in found if is_all or each["state"] in _NEEDED]
    if json:
        print(as_json({**overview, "issues": shown}))
        return
    if shown:
        rows = [[*_cells(each)] for each in shown]
        print_table(("ID", "STATE", "ISSUE"), rows)
        print()
    print_text(overview["sentence"])
    if hidden := len(found) - len(shown):
        print_text(f"{hidden} more fixed or muted: trackside issues --all")


def _cells(issue: Issue) -> Iterator[Cell]:
    yield Cell(issue["id"])
    yield Cell(issue["state"], _STYLES[issue["state"]])
    suspects = "; ".join(map(_changed, issue["suspects"][:_MOST_SUSPECTS]))
    yield Cell(f"{issue['title']}. Changed: {suspects}" if suspects else issue["title"])


def _changed(suspect: Mapping[str, str]) -> str:
    name = suspect["name"] if suspect["kind"] == "code" else f"{suspect['kind']} {suspect['name']}"
    if suspect["kind"] == "code":
        return name
    return f"{name} {_value(suspect['before'])} → {_value(suspect['after'])}"


def _value(text: str) -> str:
    return shortened(one_line(text), _MOST_VALUE) or "none"


def _print_one(issue: Issue) -> None:
    print_text(f"{issue['title']}.")
    print()
    print_table(("", ""), [[Cell(name, "bold"), Cell(text)] for name, text in _facts(issue)])
    if issue["suspects"]:
        print()
        print_text(
            f"Changed between {shown_name(issue['healthy'])}, the last healthy job, and "
            f"{shown_name(issue['sick'])}; the likeliest cause first:"
        )
        rows = [
            [Cell(each["kind"]), Cell(each["name"]), *map(_cell, (each["before"], each["after"]))]
            for each in issue["suspects"]
        ]
        print_table(("KIND", "NAME", "BEFORE", "AFTER"), rows)


def _cell(text: str) -> Cell:
    return Cell(shortened(one_line(text), 200))


def _facts(issue: Issue) -> Iterator[tuple[str, str]]:
    yield "id", issue["id"]
    yield "state", _standing(issue)
    yield "cause", issue["cause"]
    yield "found", issue["message"]
    for name, text in (
        ("try", issue["advice"]),
        ("layer", issue["place"]),
        ("line", issue["line"]),
    ):
        if text:
            yield name, text
    yield "first seen", _seen(issue["first"])
    yield "last seen", _seen(issue["last"])
    names = ", ".join(map(shown_name, issue["jobs"][:_MOST_JOBS]))
    more = f" and {issue['num_jobs'] - _MOST_JOBS:,} more"
    yield "jobs", names + (more if issue["num_jobs"] > _MOST_JOBS else "")
    yield "trained for", duration(issue["seconds"])
    if not issue["healthy"]:
        yield "compared with", "no earlier job of this script was healthy and watched by rules"


def _standing(issue: Issue) -> str:
    said, state = issue["said"], issue["state"]
    if said is None:
        return str(state)
    when = f"{datetime.fromtimestamp(said['time']):%Y-%m-%d %H:%M}"
    who = f"called {said['state']} by {said['by']} on {when}"
    if issue["mute"]:
        return f"muted until {issue['mute']['more_jobs']:,} more jobs show it ({who})"
    return f"{state} ({who})"


def _seen(sighting: Mapping[str, Any]) -> str:
    when = f"{datetime.fromtimestamp(sighting['time']):%Y-%m-%d %H:%M}"
    step = "" if sighting["step"] is None else f", step {sighting['step']:,}"
    tensor = f", {one_line(sighting['tensor'])}" if sighting["tensor"] else ""
    return f"{when} in {sighting['shown']}{step}{tensor}"
