"""What a rule written as a function looks at: the tensors of one step, read when asked for."""

from collections.abc import Iterator, Mapping

from trackside.capture.dtypes import Array
from trackside.capture.exceptions import SMDebugError
from trackside.capture.modes import ModeKeys
from trackside.capture.trial import Trial


class StepTensors(Mapping[str, Array]):
    """Name to value. Saved as reductions only, a tensor has no value: ask for `reduction`."""

    def __init__(self, trial: Trial, step: int) -> None:
        self._trial = trial
        self._names = {*trial.tensor_names(step=step)}
        self.step = step
        self.mode: str = (trial.mode(step) or ModeKeys.GLOBAL).name

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        try:
            return self._trial.tensor(name).value(self.step)
        except SMDebugError as error:
            raise KeyError(f"{name}: {error}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def matching(self, pattern: str) -> list[str]:
        """Names in which the pattern is found."""
        return self._trial.tensor_names(step=self.step, regex=pattern)

    def collection(self, name: str) -> list[str]:
        """Names of a collection's tensors at this step."""
        return self._trial.tensor_names(step=self.step, collection=name)

    def reduction(self, name: str, reduction: str, *, abs: bool = False) -> float:
        """A stored figure of a tensor ("mean", "l2"), or the same reckoned from its value."""
        tensor = self._trial.tensor(name)
        return float(tensor.reduction_value(self.step, reduction, abs=abs))
