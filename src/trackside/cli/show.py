"""`trackside show`: everything about one job on one screen."""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from trackside.cli import job_facts
from trackside.cli.job_names import job_argument
from trackside.cli.styled_text import Text
from trackside.cli.table_layout import LEAST_TEXT, broken
from trackside.cli.tables import Cell, print_table, print_text, status_style
from trackside.cli.terminal import Terminal, is_unicode
from trackside.cli.text import as_json, duration, size
from trackside.files.damaged_files import counted
from trackside.jobs.described_locations import curves_uri
from trackside.records.death import Cause
from trackside.records.journal import UNDELIVERED
from trackside.records.layout import WORKING_FOLDER
from trackside.records.rule_status import in_short
from trackside.records.status import Secondary, Status
from trackside.sdk.known_jobs import known_reader
from trackside.texts.shown_names import shown_name
from trackside.texts.terminal_text import one_line, visible
from trackside.views.job.deaths import death_in_words, death_of, earlier_deaths, tail_of
from trackside.views.job.failure_reason import in_short as failure_in_short
from trackside.views.job_setup.repeat_command import Repeated, repeated

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

_LABEL = 17
"""Columns for the labels."""
MOST_LINES = 20
"""Of the log of a host that died."""
LAGGING_SECONDS = 60
"""A folder with files pending longer than this counts as lagging."""


@click.command(short_help="Show one job: its status, why it failed, where its files are.")
@job_argument()
@click.option("--json", is_flag=True, help="Print JSON.")
def show(job: str, json: bool) -> None:
    """Show one job: its settings, its status, why it failed, where its files are, and the command
    that runs it again with the same code.

    \b
    Examples:
      trackside show last
      trackside show train-2026-11-15-22-50-46-123 --json | jq .SecondaryStatus
    """
    known = known_reader()
    described = known.describe(job)
    if json:
        print(as_json(described))
        return
    reported = described["Trackside"].get("tags")
    tags = known.tags(job) if reported is None else reported  # not returned by an older server
    terminal = Terminal.of_stdout()
    terminal.print_wrapped(_title(described))
    if reason := described.get("FailureReason"):
        terminal.print_wrapped(Text(visible(reason), "red"))
    _print_death(terminal, described)
    for trouble in _troubles(described):
        terminal.print_wrapped(Text(visible(trouble), "bold red"))
    print()
    if facts := [*job_facts.asked(described, tags)]:
        _print_facts(terminal, facts)
        print()
    print_table(("STATUS", "SINCE", "FOR", "MESSAGE"), _statuses(described, time.time()))
    print()
    print_table(("HOST", "PHASE", "EXIT", "NOW"), _hosts(described))
    if rules := [*_rules(described)]:
        print()
        print_table(("RULE", "STATUS", "DETAILS"), rules)
    if syncs := [*_syncs(described, time.time())]:
        print()
        print_table(("FOLDER", "LAST SYNCED", "WAITING", "TO"), syncs, spare=("TO",))
        for trouble in _sync_troubles(described):
            print_text(trouble)
    print()
    _print_facts(terminal, job_facts.places(described))
    waits = _waiting(described, known)
    for reported in (*waits, *_limits(described), *_left_out(described), *_undelivered(described)):
        print_text(reported)
    for where, number in described["Trackside"].get("damaged", {}).items():
        print_text(f"{counted(number, 'record')} skipped in {where}.")
    _print_repeated(terminal, repeated(described, tags, known.settings.output))


def _print_death(terminal: Terminal, described: Mapping[str, Any]) -> None:
    """The cause, the memory of its host where that is the cause, and its last lines."""
    for earlier in earlier_deaths(described):
        where = f" on {earlier.host}" if earlier.host else ""
        print_text(f"Attempt {earlier.attempt} ended: {death_in_words(earlier)}{where}.")
    if (death := death_of(described)) is None:
        return
    where = f" on {death.host}" if death.host else ""
    terminal.print_wrapped(Text(f"Cause: {death_in_words(death)}{where}", "bold red"))
    if death.cause is Cause.OUT_OF_MEMORY:
        from trackside.cli.memory_curve import memory_curve  # needs NumPy

        for line in memory_curve(curves_uri(described), death.host, is_ascii=not is_unicode()):
            terminal.print(line)
    if tail := tail_of(described, death):
        print_text(f"The last lines of {death.host}:")
        for line in tail.splitlines()[-MOST_LINES:]:
            print_text(f"  | {visible(line)}")


def _troubles(described: Mapping[str, Any]) -> Iterator[str]:
    own = described["Trackside"]
    if disk := own.get("disk"):
        yield disk
    if why := own.get("unreachable"):
        yield f"As it was known here last: {why}"


def _waiting(described: Mapping[str, Any], known: "JobReader") -> Iterator[str]:
    if described["SecondaryStatus"] == Secondary.PENDING:
        from trackside.cli.queue import why_waiting  # only for queued jobs

        yield from filter(None, [why_waiting(known, described["TrainingJobName"])])


def _limits(described: Mapping[str, Any]) -> Iterator[str]:
    hosts = described["Trackside"]["hosts"].values()
    return iter(dict.fromkeys(text for host in hosts if (text := host.get("limits"))))


def _undelivered(described: Mapping[str, Any]) -> Iterator[str]:
    for note in described["Trackside"]["notes"]:
        if note.get("what") == UNDELIVERED:
            why = one_line(str(note.get("reason", "")))
            yield f"Not notified: {note.get('target')} of the {note.get('about')}: {why}"


def _title(described: Mapping[str, Any]) -> Text:
    status = described["TrainingJobStatus"]
    shown = Text(shown_name(described["TrainingJobName"]), "bold")
    finer = described["SecondaryStatus"]
    return shown.append("  ").append(finer, status_style(status))


def _statuses(described: Mapping[str, Any], now: float) -> list[list[Cell]]:
    rows = []
    for entry in described["SecondaryStatusTransitions"]:
        start = entry["StartTime"].timestamp()
        ended = entry["EndTime"].timestamp() if "EndTime" in entry else now
        lasted = "" if Secondary(entry["Status"]).is_final else duration(ended - start)
        message = Cell(entry["StatusMessage"])
        rows.append(
            [Cell(entry["Status"]), Cell(_clock(entry["StartTime"])), Cell(lasted), message]
        )
    return rows


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def _hosts(described: Mapping[str, Any]) -> list[list[Cell]]:
    rows = []
    for name, host in described["Trackside"]["hosts"].items():
        code = host["exit_code"]
        style = "red" if code or host["failure"] or host["lost"] else ""
        exit_text = "" if code is None else str(code)
        note = one_line(failure_in_short(host["failure"] or host["lost"]))
        note = note or progress_text(host["progress"])
        if host["capture"]:
            note = f"{note} CAPTURE: {one_line(host['capture'])}".strip()
        rows.append([Cell(name), Cell(host["phase"]), Cell(exit_text, style), Cell(note)])
    return rows


def progress_text(progress: Mapping[str, Any]) -> str:
    """`training: 3 of 7 files, 1.2 of 4.0 GB`; empty when nothing is being moved."""
    if not progress["num_files"]:
        return ""
    files = f"{progress['done_files']} of {progress['num_files']} files"
    done = f"{size(progress['done_bytes'])} of {size(progress['size_bytes'])}"
    return f"{progress['what']}: {files}, {done}"


def _rules(described: Mapping[str, Any]) -> Iterator[list[Cell]]:
    for member in ("DebugRuleEvaluationStatuses", "ProfilerRuleEvaluationStatuses"):
        for rule in described.get(member, ()):
            status = rule["RuleEvaluationStatus"]
            style = {"IssuesFound": "bold red", "Error": "red"}.get(status, "")
            shown = one_line(in_short(rule.get("StatusDetails", "")))
            yield [Cell(rule["RuleConfigurationName"]), Cell(status, style), Cell(shown)]


def _syncs(described: Mapping[str, Any], now: float) -> Iterator[list[Cell]]:
    """One row per folder and host; a lagging one is highlighted.

    Once the job has ended, only folders that are incomplete.
    """
    is_over = Status(described["TrainingJobStatus"]).is_final
    of_hosts = described["Trackside"]["syncs"]
    for host, folders in of_hosts.items():
        for folder, sync in folders.items():
            if is_over and not sync["pending_files"] and not sync["error"]:
                continue
            age = now - sync["last"] if sync["last"] else None
            is_lagging = sync["error"] or (
                not is_over and sync["pending_files"] and (age is None or age > LAGGING_SECONDS)
            )
            when = "never" if age is None else f"{duration(age)} ago"
            files = "1 file" if sync["pending_files"] == 1 else f"{sync['pending_files']} files"
            waiting = f"{files}, {size(sync['pending_bytes'])}"
            style = "bold red" if is_lagging else ""
            yield [
                Cell(_folder(host, folder, of_hosts)),
                Cell(f"{when}, LAGGING" if is_lagging else when, style),
                Cell(waiting if sync["pending_files"] or sync["error"] else "", style),
                Cell(sync["to"]),
            ]


def _sync_troubles(described: Mapping[str, Any]) -> Iterator[str]:
    of_hosts = described["Trackside"]["syncs"]
    for host, folders in of_hosts.items():
        for folder, sync in folders.items():
            if sync["error"]:
                yield f"{_folder(host, folder, of_hosts)}: {one_line(sync['error'])}"


def _left_out(described: Mapping[str, Any]) -> Iterator[str]:
    of_hosts = described["Trackside"]["syncs"]
    for host, folders in of_hosts.items():
        for left in folders.get(WORKING_FOLDER, {}).get("left_out", ()):
            files = "1 file" if left["num_files"] == 1 else f"{left['num_files']:,} files"
            such_as = "" if left["num_files"] == 1 else "such as "
            yield (
                f"Not kept of {_folder(host, WORKING_FOLDER, of_hosts)}: {files} {left['why']}, "
                f"{size(left['size_bytes'])} ({such_as}{one_line(left['example'])})"
            )


def _folder(host: str, folder: str, of_hosts: Mapping[str, Any]) -> str:
    return f"{host} {folder}" if len(of_hosts) > 1 else folder


def _print_facts(terminal: Terminal, facts: Iterable[tuple[str, str]]) -> None:
    """Long values continue below themselves; words are not broken, so that they can be copied."""
    above = ""
    for label, value in facts:
        shown = "" if label == above else label
        above = label
        room = max(terminal.width - _LABEL, LEAST_TEXT)
        first, *more = broken(visible(value), room, in_words=False) or [""]
        terminal.print(f"{shown:<{_LABEL}}{first}".rstrip())
        for line in more:
            terminal.print(" " * _LABEL + line)


def _print_repeated(terminal: Terminal, again: Repeated) -> None:
    if again.words:
        print()
        besides = f" (but for {', '.join(again.left_out)})" if again.left_out else ""
        print_text(f"To run it again{besides}:")
        terminal.print(f"  {visible(again.command)}")
