"""One step of vitals, and its figures."""

import time
from dataclasses import dataclass, field

from trackside.capture.modes import ModeKeys
from trackside.capture.trial_layout import VITALS
from trackside.capture.vitals.losses import LossCall
from trackside.capture.vitals.optimizers import UpdateTotals
from trackside.capture.vitals.pack import Figures, Pack
from trackside.capture.vitals.schedule import Schedule
from trackside.capture.writing.segments import StepRecord

_MOST_TERMS = 4
_CURVES = ("learning_rate/", "gradient_norm", "step_seconds", "samples_per_second", "batch_size")


@dataclass(slots=True)
class Taken:
    figures: Figures = field(default_factory=dict)
    pack: Pack = field(default_factory=Pack)
    totals: UpdateTotals = field(default_factory=UpdateTotals)
    has_loss: bool = False
    """A loss was seen; of further ones of the step only the value is read."""
    num_terms: int = 0

    def see_term(self, call: LossCall) -> None:
        """The value of each loss: their sum may be the objective."""
        if call.value is not None and self.num_terms < _MOST_TERMS:
            name = f"loss_term/{self.num_terms}.{call.function}"
            self.pack.add_named([name], [call.value.clone()])
            self.num_terms += 1

    def read(self) -> Figures:
        """Once the pack is transferred: everything, by name."""
        found = self.figures | self.pack.read()
        return found | self.totals.figures()


@dataclass(slots=True)
class VitalsStep:
    step: int
    mode: ModeKeys
    mode_step: int
    trains: bool
    batch_size: int = 0
    time: float = field(default_factory=time.time)
    """Seconds since the epoch."""
    schedule: Schedule | None = None
    """Set if the step's forward is sampled."""
    taken: Taken | None = None

    def take(self) -> Taken:
        if self.taken is None:
            self.taken = Taken()
        return self.taken

    def record(self, figures: Figures) -> StepRecord:
        scalars = {f"{VITALS}{name}": value for name, value in figures.items()}
        return StepRecord(self.step, self.mode.name, self.mode_step, self.time, scalars=scalars)


class RunningStep:
    """The running step. Created when something is recorded in it: in most steps nothing is."""

    def __init__(self) -> None:
        self.facts: tuple[int, ModeKeys, int, bool, int] | None = None
        """The first fields of the step; None while none runs."""
        self.is_evaluated = False
        """Whether its model was called in evaluation mode, without gradients."""
        self.has_fresh_gradients = False
        """Whether a backward has run since the last step of an optimizer."""
        self.num_updates = 0
        """Steps of optimizers, so far."""
        self.updated_at = 0.0
        """When an optimizer's step last ended, by `time.perf_counter`."""
        self._step: VitalsStep | None = None

    def get(self) -> VitalsStep | None:
        if self._step is None and self.facts is not None:
            self._step = VitalsStep(*self.facts)
        return self._step

    @property
    def current(self) -> VitalsStep | None:
        """It, if something is recorded in it already."""
        return self._step

    def number(self) -> int:
        """Of the step; -1 while none runs."""
        return -1 if self.facts is None else self.facts[0]

    def end(self) -> VitalsStep | None:
        """It, if it was made."""
        step, self._step, self.facts = self._step, None, None
        return step


def curves_of(figures: Figures) -> Figures:
    """Those that are drawn in TensorBoard."""
    return {name: value for name, value in figures.items() if name.startswith(_CURVES)}
