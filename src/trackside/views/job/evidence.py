"""What shows that a finding is right: curves, vitals, a heat map, and the place in the log.

By what the rule's class declares (`rests_on`, in the catalog), else by the tensor's name. Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from trackside.capture.trial_layout import VITALS
from trackside.quick_dataclass import dataclass
from trackside.records.death import Cause, Death
from trackside.records.finding import Finding
from trackside.rules import catalog

MOST_CURVES = 6
MOST_VITALS = 6
_ACTIVATION = "activation/"
_GRADIENT = "gradient/"
_MACHINE = "machine"
MEMORY = ("script/memory_bytes", "memory/used_percent")
TEXTS = "texts"
"""What a rule rests on that reads the texts of the first batch."""
_OF_PARAMETER = re.compile(r"[./](weight|bias)$")


@dataclass(frozen=True, slots=True)
class KnownCurve:
    """A curve that the job has."""

    id: str
    name: str
    """Of a vital without `vitals/`; of a machine's figure its tag."""
    kind: str
    """metric, vital or machine."""
    phase: str = ""
    is_loss: bool = False
    mode: str = ""
    """Of a vital: TRAIN, EVAL or PREDICT."""
    host: str = ""
    """Of a machine's figure."""


@dataclass(frozen=True, slots=True)
class HeatRef:
    kind: str
    figure: str


@dataclass(frozen=True, slots=True)
class LogPlace:
    host: str
    time: float


@dataclass(frozen=True, slots=True)
class Evidence:
    curves: tuple[str, ...] = ()
    """Ids, most telling first."""
    vitals: tuple[str, ...] = ()
    heat: HeatRef | None = None
    log: LogPlace | None = None
    texts: bool = False
    """The texts of the first batch show it."""


def curves_of(finding: Finding, known: Sequence[KnownCurve]) -> tuple[str, ...]:
    """Losses, the script's own before the hook's, or the machine's figures for what the machine
    does; first what it names itself."""
    named = [each for each in known if each.kind == "metric" and each.name == finding.tensor]
    figures = [each for each in known if each.kind == _MACHINE]
    of_machine = [
        each
        for wanted in _rests_on(finding)
        if wanted.startswith(f"{_MACHINE}:")
        for each in figures
        if fnmatchcase(each.name, wanted.partition(":")[2])
    ]
    losses = sorted(
        (each for each in known if each.is_loss), key=lambda each: each.kind != "metric"
    )
    others = of_machine if finding.is_profiler else [*losses, *of_machine]
    return _ids([*named, *others], MOST_CURVES)


def memory_curves(death: Death, known: Sequence[KnownCurve]) -> tuple[str, ...]:
    """Of a script that died for lack of memory: what it used, and its machine."""
    if death.cause is not Cause.OUT_OF_MEMORY:
        return ()
    figures = [each for each in known if each.kind == _MACHINE and death.host in ("", each.host)]
    return _ids([each for tag in MEMORY for each in figures if each.name == tag], MOST_CURVES)


def vitals_of(finding: Finding, known: Sequence[KnownCurve]) -> tuple[str, ...]:
    """Those that the rule declares, at batches of the finding's mode first; of a vital of every
    layer, the finding's layer first."""
    vitals = [each for each in known if each.kind == "vital"]
    vitals.sort(key=lambda each: each.mode != (finding.mode or "TRAIN"))
    layer = layer_of(finding.tensor)
    found: list[KnownCurve] = []
    for wanted in _rests_on(finding):
        matching = [each for each in vitals if fnmatchcase(each.name, wanted)]
        matching.sort(key=lambda each: not (layer and layer in each.name))
        found += matching
    found += [each for each in vitals if layer and f"{_ACTIVATION}{layer}/" in each.name]
    return _ids(found, MOST_VITALS)


def heat_of(finding: Finding, figures: Mapping[str, Sequence[str]]) -> HeatRef | None:
    """`figures` are those that the job has, by kind; None if none of them shows the finding."""
    for wanted in _rests_on(finding):
        kind, colon, figure = wanted.partition(":")
        if colon and figures.get(kind):
            return HeatRef(kind, figure if figure in figures[kind] else figures[kind][0])
    kind = _kind_of(finding.tensor)
    return HeatRef(kind, figures[kind][0]) if figures.get(kind) else None


def texts_of(finding: Finding) -> bool:
    """Whether it is about what a language model is trained on."""
    return TEXTS in _rests_on(finding)


def layer_of(tensor: str) -> str:
    """`fc1` of `gradient/fc1.weight` or `vitals/activation/fc1/std`; "" without a tensor."""
    name = tensor.removeprefix(VITALS)
    if name.startswith(_ACTIVATION):
        return name.removeprefix(_ACTIVATION).rpartition("/")[0]
    return _OF_PARAMETER.sub("", name.removeprefix(_GRADIENT))


def _kind_of(tensor: str) -> str:
    if tensor.startswith(_GRADIENT):
        return "gradients"
    ending = _OF_PARAMETER.search(tensor)
    if ending is None:
        return ""
    return "biases" if ending[1] == "bias" else "weights"


def _rests_on(finding: Finding) -> tuple[str, ...]:
    entry = catalog.entries().get(finding.rule)
    return () if entry is None else entry.rests_on


def _ids(found: Iterable[KnownCurve], most: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.id for each in found))[:most]
