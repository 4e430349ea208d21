"""Names of jobs as they are typed: the argument that takes one, its completion by the shell, and
what was meant when none has the name."""

import difflib
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

from trackside.cli.failures import EXPECTED
from trackside.sdk.known_jobs import known_jobs

MOST_KNOWN = 1000
"""How many jobs are looked at, newest first."""
MOST_MEANT = 3

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def job_argument(name: str = "job", **options: Any) -> Callable[[Decorated], Decorated]:
    """`click.argument` for a job's name, or several."""
    return click.argument(name, shell_complete=_complete, **options)


def is_job(parameter: click.Parameter) -> bool:
    return parameter.name in ("job", "jobs")


def newest() -> str:
    """ "" when there is none, or none can be listed."""
    return next(iter(_known(limit=1)), "")


def meant(name: str) -> list[str]:
    """Names of jobs that look like it, the likeliest first; none where none can be listed."""
    known = _known()
    begins = [each for each in known if name and each.startswith(name)]
    near = difflib.get_close_matches(name, known, n=MOST_MEANT, cutoff=0.7)
    return list(dict.fromkeys([*begins, *near]))[:MOST_MEANT]


def _complete(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    logging.disable()  # a warning would stand in the middle of what is being typed
    return [name for name in _known() if name.startswith(begun)]


def _known(*, limit: int = MOST_KNOWN) -> list[str]:
    """Empty when the jobs cannot be listed: this only helps with an error, or with typing."""
    with suppress(*EXPECTED):
        return [job.name for job in known_jobs().list(limit=limit)]
    return []
