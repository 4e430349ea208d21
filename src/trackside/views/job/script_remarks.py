"""What reading a job's script shows: `trackside check` over the code that was stored with it.

A diagnosis by what was seen at run time gets the line of the script where reading agrees. What
reading alone found is a possible mistake.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from trackside.check.check import Found, check_program
from trackside.check.program import program_of
from trackside.errors import TracksideError
from trackside.texts.truncation import shortened
from trackside.views.job_setup.code_files import contents_of
from trackside.views.job_setup.repeat_command import plain

if TYPE_CHECKING:
    from trackside.rules.checkup.diagnosis import Diagnosis

_MOST_LINE = 200
_MOST_KNOWN = 256
_MOST_UNCONFIRMED = 20
_COMMENT = re.compile(r"\s#[^'\"]*$")
"""At the end of a line; one with a quote in it may be part of a text."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """The line of a script at which reading it finds a rule's fault."""

    place: str
    """`train.py:31`."""
    group: str
    """Its file and text, which stay the same when lines above it are added."""


@dataclass(frozen=True, slots=True)
class ScriptRemark:
    rule: str
    line: CodeLine
    message: str
    advice: str


Lines = Mapping[str, CodeLine]
"""By rule: the first of each."""
_known: dict[tuple[str, ...], tuple[ScriptRemark, ...]] = {}
"""By home, name and creation of a job: a view of a running job is made every second, and stored
code does not change."""
_lock = Lock()


def remarks_on(described: Mapping[str, Any], home: Path) -> tuple[ScriptRemark, ...]:
    """Empty if no script was stored, or if it cannot be read: jobs run other programs, too."""
    script = plain(described, "sagemaker_program")
    if not script.endswith(".py"):
        return ()
    key = (str(home), described["TrainingJobName"], str(described.get("CreationTime")))
    if key not in _known:
        try:
            texts = {path: each.text.text for path, each in contents_of(described, home).items()}
            found = _checked(script, tuple(sorted(texts.items())))
        except (TracksideError, OSError, ValueError, SyntaxError, RecursionError):
            return ()
        with _lock:
            if len(_known) >= _MOST_KNOWN:
                del _known[next(iter(_known))]
            _known[key] = found
    return _known.get(key, ())


def lines_of(described: Mapping[str, Any], home: Path) -> Lines:
    return lines_by_rule(remarks_on(described, home))


def lines_by_rule(remarks: Iterable[ScriptRemark]) -> Lines:
    found: dict[str, CodeLine] = {}
    for each in remarks:
        found.setdefault(each.rule, each.line)
    return found


def unconfirmed(
    remarks: Iterable[ScriptRemark], causes: Iterable["Diagnosis"]
) -> list[ScriptRemark]:
    """Those that no diagnosis, and nothing that it explains, has named."""
    named = {name for cause in causes for name in (cause.cause, *cause.explains)}
    return [each for each in remarks if each.rule not in named][:_MOST_UNCONFIRMED]


@lru_cache(maxsize=32)
def _checked(script: str, files: tuple[tuple[str, str], ...]) -> tuple[ScriptRemark, ...]:
    """By content: the code of a job does not change, and many jobs have the same."""
    texts = dict(files)
    return tuple(
        ScriptRemark(
            each.rule, _code_line(each, texts.get(each.path, "")), each.message, each.advice
        )
        for each in check_program(program_of(script, texts.get))
    )


def _code_line(found: Found, text: str) -> CodeLine:
    place = shortened(f"{found.path}:{found.line}", _MOST_LINE)
    lines = text.splitlines()
    source = lines[found.line - 1] if 0 < found.line <= len(lines) else ""
    return CodeLine(place, f"{found.path}: {' '.join(_COMMENT.sub('', source).split())}")
