"""The base class of rules written for smdebug, and the loop that runs one over a trial."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from trackside.capture.exceptions import (
    NoMoreProfilerData,
    RuleEvaluationConditionMet,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from trackside.capture.reading.tensor import Tensor
from trackside.capture.refreshing import no_refresh
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
        """Require a tensor, or all that match the pattern; `TensorUnavailable` for one that was
        never saved.
        """
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
        """Wait for the steps and read each value; a missing one skips the rule's invocation."""
        for trial, wanted in self._wanted.items():
            trial.wait_for_steps(sorted({step for steps in wanted.values() for step in steps}))
            for name, steps in wanted.items():
                for step in steps:
                    trial.tensor(name).value(step)

    def clear(self) -> None:
        for wanted in self._wanted.values():
            wanted.clear()


class Rule(ABC):
    """A condition on a trial. A subclass implements `invoke_at_step`.

    All forms of the constructor in documentation and scripts are accepted: smdebug 1.0.34 made
    `action_str` a required second argument, the documented rules pass none.
    """

    def __init__(
        self,
        base_trial: Trial,
        action_str: str | None = None,
        other_trials: Sequence[Trial] | None = None,
    ) -> None:
        self.base_trial = base_trial
        self.other_trials = other_trials
        self.action_str = action_str
        self.trials = [base_trial, *(other_trials or ())]
        self.req_tensors = RequiredTensors(base_trial, other_trials)
        self.rule_name = type(self).__name__
        self.logger = logging.getLogger(f"{__name__}.{self.rule_name}")
        if action_str:
            self.logger.warning(
                "Actions are a job's to take: %r does nothing when the rule is invoked by hand.",
                action_str,
            )
        self.report: dict[str, Any] = {
            "RuleTriggered": 0,
            "Violations": 0,
            "Details": {},
            "Datapoints": 0,
            "RuleParameters": "",
        }

    def set_required_tensors(self, step: int) -> None:  # noqa: B027 optional, unlike the next
        """Declare with `self.req_tensors.add(...)` what `invoke_at_step` will read."""

    @abstractmethod
    def invoke_at_step(self, step: int) -> bool:
        """Whether the condition is met at this global step."""

    def invoke(self, step: int) -> None:
        """Wait for the step and check it; `RuleEvaluationConditionMet` when the rule fires."""
        self.base_trial.wait_for_steps([step])
        with no_refresh(self.trials):
            self.req_tensors.clear()
            self.set_required_tensors(step)
            self.req_tensors.fetch()
            fires = self.invoke_at_step(step)
        if fires:
            raise RuleEvaluationConditionMet(self.rule_name, step)


def invoke_rule(
    rule_obj: Rule,
    start_step: int | None = 0,
    end_step: int | None = None,
    raise_eval_cond: bool = False,
) -> None:
    """Invoke the rule from `start_step` up to `end_step` (exclusive). Steps and tensors that were
    not saved are skipped. `NoMoreData` is raised when the job has ended.
    """
    step = start_step or 0
    while end_step is None or step < end_step:
        try:
            rule_obj.invoke(step)
        except (StepUnavailable, TensorUnavailable, TensorUnavailableForStep) as missing:
            rule_obj.logger.debug("%s", missing)
        except RuleEvaluationConditionMet as met:
            if raise_eval_cond:
                raise
            rule_obj.logger.info("%s", met)
            if met.end_of_rule:
                return
        except NoMoreProfilerData:
            return
        step += 1
