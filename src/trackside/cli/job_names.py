"""Job names as typed: the argument that accepts a full name, a prefix or `last`; shell completion;
and suggestions when no job has the name.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trackside.cli.failures import EXPECTED
from trackside.errors import AmbiguousName, InputError, JobNotFound
from trackside.sdk.known_jobs import known_reader
from trackside.texts.shown_names import shown_name, wire_name, with_dashes

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

LAST = "last"
"""The user's newest job."""
MOST_KNOWN = 1000
"""How many jobs are searched, newest first."""
MOST_MEANT = 3

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def job_argument(
    name: str = "job",
    *,
    or_place: bool = False,
    among: Callable[[], "JobReader"] = known_reader,
    **options: Any,
) -> Callable[[Decorated], Decorated]:
    """`click.argument` for a job's name, or several; the command gets them as on the wire.

    With `or_place`, anything with a slash is a location, and so is the name of a folder that no job
    has.
    """

    def resolve(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
        if not given or ctx.resilient_parsing:
            return given
        known = among()
        if isinstance(given, tuple):
            return tuple(_resolved(each, known, or_place=or_place) for each in given)
        return _resolved(given, known, or_place=or_place)

    return click.argument(name, shell_complete=_complete, callback=resolve, **options)


def is_job(parameter: click.Parameter) -> bool:
    return parameter.name in ("job", "jobs")


def job_named(typed: str, known: "JobReader") -> str:
    """The job's name on the wire. A full name takes precedence over `last`, and that over a prefix.

    `JobNotFound`; `AmbiguousName` for the prefix of several.
    """
    if known.exists(whole := wire_name(typed)):
        return whole
    if typed == LAST:
        return _last(known)
    found = [
        name
        for name in known.names_starting(with_dashes(typed))
        if name.startswith(typed) or shown_name(name).startswith(typed)
    ]
    if len(found) > 1:
        raise AmbiguousName(typed, found)
    if not found:
        raise JobNotFound(typed)
    return found[0]


def newest() -> str:
    """Empty when there is none, or jobs cannot be listed."""
    return next(iter(_known(limit=1)), "")


def meant(name: str) -> list[str]:
    """Similar job names, most likely first; empty if jobs cannot be listed."""
    import difflib

    return difflib.get_close_matches(name, _known(), n=MOST_MEANT, cutoff=0.7)


def _resolved(typed: str, known: "JobReader", *, or_place: bool) -> str:
    if or_place and "/" in typed:
        return typed
    if or_place and os.path.isdir(typed) and not known.exists(wire_name(typed)):
        return f"./{typed}"
    return job_named(typed, known)


def _last(known: "JobReader") -> str:
    mine = known.owner
    newest_of_mine = known.list(owner=mine or None, limit=1)
    if not newest_of_mine:
        raise InputError(
            f"There is no last job: none belongs to {mine!r}. `trackside run SCRIPT` starts one."
        )
    return newest_of_mine[0].name


def _complete(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    logging.disable()  # a warning would appear while the user is typing
    return [name for name in _known() if name.startswith(begun)]


def _known(*, limit: int = MOST_KNOWN) -> list[str]:
    """As displayed. Empty when jobs cannot be listed: only for errors and completion."""
    with suppress(*EXPECTED):
        return [shown_name(job.name) for job in known_reader().list(limit=limit)]
    return []
