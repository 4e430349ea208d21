"""What a rule says it needs at a step, fetched before the rule is asked."""

from collections.abc import Iterable, Sequence

from trackside.capture.exceptions import TensorUnavailable
from trackside.capture.reading.tensor import Tensor
from trackside.capture.trial import Trial


class RequiredTensors:
    """Tensors and their steps, of the rule's own trial unless another is named."""

    def __init__(self, base_trial: Trial, other_trials: Sequence[Trial] | None = None) -> None:
        self.base_trial = base_trial
        self._wanted: dict[Trial, dict[str, list[int]]] = {
            trial: {} for trial in (base_trial, *(other_trials or ()))
        }

    def add(
        self,
        name: str,
        steps: Iterable[int],
        trial: Trial | None = None,
        should_match_regex: bool = False,
    ) -> None:
        """Want a tensor, or all whose names the pattern is found in; `TensorUnavailable` for one
        that was never saved."""
        trial = trial or self.base_trial
        names = trial.tensor_names(regex=name) if should_match_regex else [name]
        wanted = list(steps)
        for each in names:
            if not trial.has_tensor(each):
                raise TensorUnavailable(each)
            self._wanted[trial].setdefault(each, []).extend(wanted)

    def get(self, trial: Trial | None = None) -> list[Tensor]:
        trial = trial or self.base_trial
        return [trial.tensor(name) for name in self._wanted[trial]]

    def get_names(self, trial: Trial | None = None) -> list[str]:
        return list(self._wanted[trial or self.base_trial])

    def get_tensor_steps(self, name: str, trial: Trial | None = None) -> list[int]:
        return self._wanted[trial or self.base_trial][name]

    def fetch(self) -> None:
        """Wait for the steps and read each value: what is missing skips the rule's invocation."""
        for trial, wanted in self._wanted.items():
            trial.wait_for_steps(sorted({step for steps in wanted.values() for step in steps}))
            for name, steps in wanted.items():
                for step in steps:
                    trial.tensor(name).value(step)

    def clear(self) -> None:
        for wanted in self._wanted.values():
            wanted.clear()
