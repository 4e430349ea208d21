"""A rule about several trainings: whether they are the same."""

from collections.abc import Iterable
from dataclasses import field

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.exceptions import SMDebugError
from trackside.capture.reading.step_table import StepState
from trackside.capture.trial import Trial
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import InvalidParameters, parameter
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.open_trial import open_trial
from trackside.rules.tensor.selecting import SelectingRule
from trackside.settings import Settings
from trackside.storage.locate import locate

_RTOL, _ATOL = 1e-5, 1e-8
"""Those of `numpy.allclose`."""
_NUMBERS = "biufc"
"""Kinds of arrays; smdebug saves text too."""


@dataclass
class SimilarAcrossRuns(SelectingRule):
    """Two trainings that should be the same differ.

    Fires when a selected tensor of this trial differs from the one in another trial at the same
    step: not all |this - other| <= 1e-8 + 1e-5 * |other|, or another shape.
    """

    is_of_worker = False

    advice = (
        "Check the first step and tensor that differ. Inputs: seeds of the data loader; weights at "
        "step 0: seeds of the model; later: non-deterministic kernels or another configuration."
    )

    other_trials: tuple[str, ...] = parameter((), "Locations of the trials to compare with.")
    _onsets: Onsets = field(default_factory=Onsets, init=False)
    _opened: dict[str, Trial] = field(default_factory=dict, init=False)
    _waiting: dict[str, list[int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.other_trials:
            raise InvalidParameters(
                ["SimilarAcrossRuns needs other_trials: where the trials to compare with are."]
            )

    def needs(self) -> tuple[Need, ...]:
        return self.selected()

    def missing(self, evidence: Evidence) -> str:
        empty = [path for path in self.other_trials if self._trial(path) is None]
        problems = [f"Nothing is saved in {path!r} to compare with." for path in empty]
        return " ".join(filter(None, [super().missing(evidence), *problems]))

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        for path in self.other_trials:
            waiting = self._waiting.setdefault(path, [])
            waiting.extend(evidence.steps)
            other = self._trial(path)
            if other is None:
                continue
            other.refresh_data()
            while waiting and self._is_there(other, waiting[0]):
                yield from self._compare(evidence, waiting.pop(0), other)

    def _trial(self, path: str) -> Trial | None:
        """None as long as nothing is saved there."""
        if path not in self._opened:
            home = Settings.load().home
            trial = open_trial(locate(path, home=home), home)
            if trial is None:
                return None
            trial.dynamic_refresh = False
            self._opened[path] = trial
        return self._opened[path]

    def _is_there(self, other: Trial, step: int) -> bool:
        return other.has_passed_step(step) is not StepState.NOT_YET_AVAILABLE

    def _compare(self, evidence: Evidence, step: int, other: Trial) -> Iterable[Finding]:
        for name in evidence.names(self.selection):
            ours, theirs = evidence.values(name, step), _value(other, name, step)
            if ours is None or theirs is None:
                continue
            difference = difference_of(ours, theirs)
            if self._onsets.begins(f"{other.path} {name}", difference is not None):
                assert difference is not None
                how = (
                    f"by up to {difference:.3g}"
                    if np.isfinite(difference)
                    else "in more than numbers"
                )
                yield self.found(
                    evidence,
                    step,
                    f"The values differ from those of {other.path!r} {how}, which is not within "
                    f"{_RTOL:g} of their size.",
                    tensor=name,
                    subject=other.path,
                    value=difference,
                    threshold=_RTOL,
                )


def difference_of(ours: Array, theirs: Array) -> float | None:
    """The largest; None when they are the same; infinity when they cannot be subtracted."""
    if ours.shape != theirs.shape or ours.dtype.kind not in _NUMBERS:
        return None if np.array_equal(ours, theirs) else float("inf")
    if np.allclose(ours, theirs, rtol=_RTOL, atol=_ATOL):
        return None
    with np.errstate(all="ignore"):
        return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max())


def _value(trial: Trial, name: str, step: int) -> Array | None:
    try:
        return trial.tensor(name).value(step)
    except SMDebugError:
        return None
