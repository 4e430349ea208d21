"""Reads what learnt invariants are about from a trial: anatomy, vitals and the figures of ranks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trackside.capture.reading.rank_figures import WorkerFigures
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import ANATOMY
from trackside.files.json_record import parsed_object
from trackside.rules.saved.vital_signs import VitalSigns
from trackside.views.learnt.invariants import Observed, Value

_LEFT_OUT = re.compile(
    r"^(worker|versions|device|remarks|crash|text|checkpoints|saves|evaluations|first_step)$"
)
"""Of the machine, of texts, or of one run."""
_NOT_COMPARED = re.compile(
    r"seconds|hash|fingerprint|line|file|path|shape|numel|index|copied_from|_step$|_since$|_at$"
)
"""Parts of names: what differs from run to run, and what a user sets."""
_EVENTS = re.compile(r"(num_steps|count|num_clipped|num_trained|num_single)$")
"""Counts of what a loop does at each turn."""
_RANK_FIGURES = ("loss", "gradient_norm", "fingerprint", "num_updates")
_REDUCTIONS = ("l2",)


def observe(trial: Trial) -> Observed:
    """All that is saved of a run that is over."""
    signs = VitalSigns(trial)
    signs.refresh(is_all=True)
    facts: dict[str, Value] = {}
    counts: dict[str, float] = {}
    for name, value in _leaves("", _anatomy(trial)):
        if isinstance(value, bool | str) or value is None:
            facts[name] = value
        else:
            counts[name] = value
    events = {name: int(count) for name, count in counts.items() if _EVENTS.search(name)}
    return Observed(facts, counts, events, dict(_series(signs)), _across(signs.ranks))


def _anatomy(trial: Trial) -> Mapping[str, Any]:
    """Of the first worker."""
    folder = TrialFolder(trial.location)
    for file in folder.list(ANATOMY):
        return parsed_object(folder.read(file.name))
    return {}


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Texts, numbers and truth values, by the names that lead to them."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            is_left_out = _LEFT_OUT.match(key) if not prefix else _NOT_COMPARED.search(key)
            if not is_left_out:
                yield from _leaves(f"{prefix}.{key}" if prefix else key, inner)
    elif isinstance(value, list):
        yield f"{prefix}.length", str(len(value))
        for number, inner in enumerate(value):
            yield from _leaves(f"{prefix}[{_name_of(inner, number)}]", inner)
    else:
        yield prefix, value


def _name_of(value: Any, number: int) -> str:
    """What tells one of a list from the others in each run."""
    if not isinstance(value, Mapping):
        return str(number)
    if "name" in value:
        return str(value["name"])
    told = [f"{key}={value[key]}" for key in ("training", "grad", "function") if key in value]
    return ",".join(told) or str(number)


def _series(signs: VitalSigns) -> Iterator[tuple[str, Sequence[float]]]:
    for name, series in signs.series_by_name("").items():
        if not _NOT_COMPARED.search(name):
            yield name, series.values.tolist()
    for reduction in _REDUCTIONS:
        for gradients in (False, True):
            for name in signs.tensors(reduction, gradients=gradients):
                yield f"{name}:{reduction}", signs.figure(name, reduction).values.tolist()


def _across(ranks: Sequence[WorkerFigures]) -> dict[str, Sequence[Sequence[float]]]:
    """Figures at the samples that all ranks have, of a run of several."""
    if len(ranks) < 2:
        return {}
    shared = sorted(set.intersection(*({*each.samples} for each in ranks)))
    found: dict[str, Sequence[Sequence[float]]] = {}
    for figure in _RANK_FIGURES:
        rows = [[getattr(each.samples[number], figure) for each in ranks] for number in shared]
        found[figure] = [row for row in rows if None not in row]
    shared = sorted(set.intersection(*({*each.hashes} for each in ranks)))
    found["hash of the weights"] = [
        [hash(each.hashes[number]) for each in ranks] for number in shared
    ]
    return found
