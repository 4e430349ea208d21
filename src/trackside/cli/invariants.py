"""`trackside invariants`: what held in good jobs of a script and does not hold in this one."""

import sys
from collections.abc import Sequence

import click

from trackside.cli.job_names import job_argument
from trackside.cli.job_trial import is_location, trial_of
from trackside.cli.text import as_json
from trackside.errors import InputError
from trackside.sdk.known_jobs import known_reader
from trackside.texts.shown_names import shown_name
from trackside.texts.terminal_text import visible
from trackside.views.learnt.good_jobs import good_jobs
from trackside.views.learnt.invariants import Broken, check, infer
from trackside.views.learnt.observed_run import observe

_NUM_GOOD = 3
_MOST_SHOWN = 20


@click.command(short_help="Experimental: name what held in good jobs, and not in this one.")
@job_argument(or_place=True)
@click.option(
    "--like",
    metavar="JOB",
    multiple=True,
    help="A good job to learn from; may be repeated. By default the last three of the script that "
    "completed without a finding.",
)
@click.option("--json", is_flag=True, help="Print JSON.")
def invariants(job: str, like: tuple[str, ...], json: bool) -> None:
    """Learn what held in each of the good jobs of a script (facts that are always the same, counts
    that are always or never 0, what happens once per step, figures that always or never change, and
    what is equal across ranks), and name what does not hold in this job. An experiment: no rule
    depends on it.

    The exit code is 1 if something does not hold.

    \b
    Examples:
      trackside invariants last
      trackside invariants train-b --like train-a
    """
    good = list(like)
    if not good and not is_location(job):
        good = good_jobs(known_reader(), job, _NUM_GOOD)
    if not good:
        raise InputError(
            f"Job {shown_name(job)!r} has no good job of the same script before it: one that is "
            "captured, completed and has no finding. Name one by --like."
        )
    learnt = infer([observe(trial_of(name)) for name in good])
    broken = check(learnt, observe(trial_of(job)))
    if json:
        print(as_json(_as_record(good, len(learnt), broken)))
    else:
        _print(good, len(learnt), broken)
    if broken:
        sys.exit(1)


def _as_record(good: Sequence[str], num_learnt: int, broken: Sequence[Broken]) -> dict[str, object]:
    return {
        "like": [shown_name(name) for name in good],
        "num_learnt": num_learnt,
        "broken": [
            {
                "relation": each.invariant.relation,
                "name": each.invariant.name,
                "held": each.invariant.text,
                "found": each.found,
            }
            for each in broken
        ],
    }


def _print(good: Sequence[str], num_learnt: int, broken: Sequence[Broken]) -> None:
    names = ", ".join(map(shown_name, good))
    print(visible(f"{num_learnt} things held in {names}. Of them {len(broken)} do not hold here:"))
    for each in broken[:_MOST_SHOWN]:
        print(visible(f"  {each.invariant.text}; here {each.found}"))
    if len(broken) > _MOST_SHOWN:
        print(f"  … and {len(broken) - _MOST_SHOWN} more; --json shows all")
