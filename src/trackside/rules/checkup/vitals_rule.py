"""What rules on vitals have in common: they judge the course of the run, and report each thing
once. Also the numbers that several of them use."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import field, replace

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.vital_signs import VitalSigns

FIGURES = (
    Need("losses"),
    Need("gradients", reductions=("abs_mean", "l2"), is_optional=True),
    Need("weights", reductions=("l2", "max", "min"), is_optional=True),
)
"""Vitals come by themselves."""


SHORT_RUN = 50
"""Steps after which what goes wrong at the start shows: a spike of the first updates is over."""
ENOUGH_BATCHES = 10
"""Batches before a property of all of them is no coincidence."""
FEW_BATCHES = 3
"""Batches whose median no single odd one decides."""
SMALL_BATCH = 4
"""Samples: statistics over fewer say little."""
HALVED = 0.5
"""A loss that fell by more has learnt something, whatever else is unusual."""
LEARNT_WELL = 0.9
"""A loss that fell by more has learnt nearly everything."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Something that is not as it should be, and since which step."""

    step: int
    message: str
    tensor: str = ""
    value: float | None = None
    threshold: float | None = None
    advice: str = ""
    """Instead of the rule's own."""
    worker: str = ""
    """The rank that it is about, where ranks are compared."""


@dataclass
class VitalsRule(TensorRule):
    """Subclasses return what they see in the run so far; each tensor is reported once."""

    _reported: set[str] = field(default_factory=set, init=False)

    @abstractmethod
    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        """All that is wrong as of now, by what is known up to now."""

    def needs(self) -> tuple[Need, ...]:
        return FIGURES

    def missing(self, evidence: Evidence) -> str:
        return missing_vitals(evidence)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        return list(self._new(evidence))

    def _new(self, evidence: Evidence) -> Iterator[Finding]:
        for sign in self.judge(evidence.vitals):
            if sign.tensor not in self._reported:
                self._reported.add(sign.tensor)
                finding = self.found(
                    evidence,
                    sign.step,
                    sign.message,
                    tensor=sign.tensor,
                    value=sign.value,
                    threshold=sign.threshold,
                )
                yield replace(
                    finding,
                    advice=sign.advice or finding.advice,
                    worker=sign.worker or finding.worker,
                )


def missing_vitals(evidence: Evidence) -> str:
    """Why there is nothing to judge; "" when there is."""
    if evidence.vitals.anatomy.models:
        return ""
    return (
        "No vitals are saved. They are taken of every PyTorch training that is captured, unless "
        "the hook's `vitals` is off."
    )
