"""What differs between jobs, as text for an agent: settings, packages, data, code, metrics."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trackside.errors import TracksideError
from trackside.texts.shown_names import shown_name
from trackside.texts.terminal_text import one_line
from trackside.texts.truncation import shortened
from trackside.views.comparison.compare import looked_at
from trackside.views.job_setup.code_diff import code_diff
from trackside.views.job_setup.made_of import DATA, Made, differences, made_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from trackside.jobs.job_service import JobReader

MOST_METRICS = 12
_MOST_DIFFERENCES = 30
_MOST_CODE_LINES = 24
_MOST_VALUE = 80


def compared_lines(jobs: "JobReader", names: Sequence[str]) -> Iterator[str]:
    looked = [looked_at(name, jobs, "", False) for name in names]
    yield f"jobs: {' | '.join(map(shown_name, names))}"
    yield f"status: {' | '.join(each['status'] for each in looked)}"
    yield from _metrics(looked)
    made = [made_of(jobs, name) for name in names]
    changed = [*(_of_two(*made) if len(made) == 2 else _of_many(made))]
    yield from changed[:_MOST_DIFFERENCES]
    if len(changed) > _MOST_DIFFERENCES:
        yield f"… {len(changed) - _MOST_DIFFERENCES} more differences"
    if len(names) == 2:
        yield from _code(jobs, *names)
    if not changed:
        yield "No hyperparameter, argument, package, environment variable or data differs."


def _of_two(before: Made, after: Made) -> Iterator[str]:
    for (kind, name), old, new in differences(before, after):
        yield f"{kind} {one_line(name)}: {_short(old)} | {_short(new)}"


def _of_many(made: Sequence[Made]) -> Iterator[str]:
    keys = dict.fromkeys(key for each in made for key in each.values if key[0] != DATA)
    for key in keys:
        is_recorded = all(each.has(key[0]) for each in made)
        if is_recorded and len({each.values.get(key) for each in made}) > 1:
            shown = " | ".join(_short(each.shown(key) or "") for each in made)
            yield f"{key[0]} {one_line(key[1])}: {shown}"


def _code(jobs: "JobReader", first: str, second: str) -> Iterator[str]:
    """Changed lines of the stored code; nothing if it cannot be read."""
    try:
        files = code_diff(jobs, first, second)
    except (TracksideError, OSError):
        return
    left = _MOST_CODE_LINES
    for file in files:
        yield f"code {one_line(file.path)} {file.status}"
        for hunk in file.hunks:
            for sign, line in hunk.lines:
                if sign != " " and left > 0:
                    left -= 1
                    yield f"  {sign}{shortened(line.rstrip(), 2 * _MOST_VALUE)}"


def _metrics(looked: "Sequence[Mapping[str, Any]]") -> Iterator[str]:
    names = dict.fromkeys(name for each in looked for name in each["metrics"])
    for name in [*names][:MOST_METRICS]:
        shown = " | ".join(_metric(each, name) for each in looked)
        yield f"{one_line(name)} last (best): {shown}"


def _metric(looked: "Mapping[str, Any]", name: str) -> str:
    figures = looked["metrics"].get(name)
    if figures is None:
        return "-"
    best = "" if figures["best"] is None else f" ({figures['best']:.4g} at {figures['best_step']})"
    return f"{figures['last']:.4g}{best}"


def _short(value: str) -> str:
    return shortened(one_line(value), _MOST_VALUE) or "-"
