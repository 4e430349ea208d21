"""`trackside audit-resume`: whether a script that is stopped and resumed continues where it was."""

import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from trackside.capture.checkpoints.audit_plan import AuditPlan
from trackside.cli.audit_runs import Runs, ScriptRuns, job_runs
from trackside.cli.job_names import job_named
from trackside.cli.text import as_json
from trackside.sdk.known_jobs import known_jobs
from trackside.texts.terminal_text import visible
from trackside.views.job.resume_audit import Audit, Run, audit

_NUM_LOSSES = 5
_OTHER_SEED = 1
"""Of the resumed run, so that what is drawn without a restored state differs."""


@click.command(
    "audit-resume", short_help="Stop and resume a script, and name what was not restored."
)
@click.argument("target", metavar="SCRIPT|JOB")
@click.argument("arguments", metavar="[-- ARGUMENT…]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--at",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Stop at this checkpoint.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Updates to compare, at least.",
)
@click.option(
    "--source-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder to copy and run in; by default the script's.",
)
@click.option("--leave-out", metavar="PATTERN", multiple=True, help="Files not to copy.")
@click.option("--resume-arguments", metavar="TEXT", default="", help="Only for the resumed run.")
@click.option("--python", default=sys.executable, metavar="PROGRAM", help="Runs the script.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the files of the runs here.")
@click.option("--json", is_flag=True, help="Print JSON.")
def audit_resume(
    target: str,
    arguments: tuple[str, ...],
    at: int,
    steps: int,
    source_dir: Path | None,
    leave_out: tuple[str, ...],
    resume_arguments: str,
    python: str,
    keep: Path | None,
    json: bool,
) -> None:
    """Run a script unbroken, and once stopped at a checkpoint that it writes and resumed; compare
    parameters, optimizer, schedule, scaler, random generators and data at the same steps, bit for
    bit, and name what was not restored.

    A script runs in copies of its folder. A job runs again as three jobs, with its stored code and
    checkpoints of their own. The exit code is 1 if the resumed run is not the same.

    \b
    Examples:
      trackside audit-resume train.py
      trackside audit-resume train.py --at 2 -- --epochs 3
      trackside audit-resume train.py --resume-arguments '--resume checkpoints/last.pt'
      trackside audit-resume my-job
    """
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        if Path(target).is_file():
            source = (source_dir or Path(target).parent).resolve()
            name = Path(target).resolve().relative_to(source).as_posix()
            runs: Runs = ScriptRuns(folder, source, (python, name, *arguments), leave_out)
        else:
            jobs = known_jobs()
            runs = job_runs(folder, jobs, job_named(target, jobs))
        found = _audited(runs, at, steps, shlex.split(resume_arguments), is_quiet=json)
    if json:
        print(as_json(found.to_json()))
    else:
        _print(found)
    if not found.is_same:
        sys.exit(1)


def _audited(runs: Runs, at: int, steps: int, more: Sequence[str], *, is_quiet: bool) -> Audit:
    def say(text: str) -> None:
        if not is_quiet:
            print(text, file=sys.stderr)

    say("Running until a checkpoint …")
    plan = AuditPlan(_record(runs, "stopped"), stops_at=at)
    stopped = runs.run("stopped", plan, place="stopped")
    if stopped.ended_by != "seam":
        return audit(Run(), stopped, Run())
    seam = int(stopped.steps[-1]["done"])
    say(f"Stopped after {seam} updates. Running without a break …")
    plan = AuditPlan(_record(runs, "unbroken"), passes=at, fewest=steps)
    unbroken = runs.run("unbroken", plan, place="unbroken")
    left = len(unbroken.steps) - seam
    say(f"Resuming, for {left} updates …")
    plan = AuditPlan(_record(runs, "resumed"), seed=_OTHER_SEED, num_steps=left)
    return audit(unbroken, stopped, runs.run("resumed", plan, place="stopped", more=more))


def _record(runs: Runs, name: str) -> Path:
    path = runs.folder / f"{name}.jsonl"
    path.unlink(missing_ok=True)
    return path


def _print(found: Audit) -> None:
    print(f"Stopped after {found.seam} updates, and compared {found.num_compared} after it.")
    for each in found.differences:
        print(visible(f"\n{each.part.upper()} (step {each.step}): {each.message}"))
        print(visible(f"    Try: {each.advice}"))
    pairs = [f"{a:.4g}, {b:.4g}" for a, b in found.losses if a is not None and b is not None]
    if found.is_same:
        print("\nThe resumed run is the same, bit for bit: parameters, optimizer, rates, data.")
    elif pairs:
        print("\nLoss, unbroken and resumed: " + "; ".join(pairs[:_NUM_LOSSES]))
    for note in found.notes:
        print(visible(f"\nNote: {note}"))
