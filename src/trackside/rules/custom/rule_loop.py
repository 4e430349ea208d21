"""Runs a custom rule over the steps of a trial.

The caller decides in which process, and how long it may take.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trackside.capture.dtypes import Array
from trackside.capture.exceptions import (
    NoMoreData,
    RuleEvaluationConditionMet,
    SMDebugError,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from trackside.capture.modes import ModeKeys
from trackside.capture.trial import Trial
from trackside.records.finding import Finding
from trackside.rules.custom import rule_source
from trackside.rules.onsets import HEALTHY_CHECKS
from trackside.rules.parameters import other_trials

_PASSED_OVER = (StepUnavailable, TensorUnavailable, TensorUnavailableForStep)

Answer = Finding | str | bool | None
"""The rule's result for one step; None when it had nothing to check."""


class CustomJudge:
    """`rule` is a class of smdebug's form or a function `check(step, tensors)`."""

    def __init__(
        self,
        rule: Callable[..., Any],
        name: str,
        texts: Mapping[str, str],
        trial: Trial,
        open_trial: Callable[[str], Trial],
    ) -> None:
        """`open_trial` opens the trials for comparison that the parameters name."""
        self.is_at_end = False
        """The rule wants to see no more."""
        self._name = name
        self._trial = trial
        self._num_checks = 0
        self._last_bad: dict[tuple[str, ...], int] = {}
        """Location of a finding to the last check at which it was there."""
        self._start = _limit(texts, "start_step", 0)
        self._end = _limit(texts, "end_step", sys.maxsize)
        others = [open_trial(uri) for uri in other_trials(texts)]
        if isinstance(rule, type):
            given = {"base_trial": trial, "other_trials": others or None, "action_str": None}
            self._ask = self._by_class(rule(**rule_source.arguments(rule, given, texts)))
        else:
            given = {"step": None, "tensors": None, "other_trials": others}
            self._ask = self._by_function(rule, rule_source.arguments(rule, given, texts))

    def wants(self, step: int) -> bool:
        """Whether to invoke the rule: a step with vitals only has nothing for it."""
        is_within = self._start <= step < self._end and not self.is_at_end
        return is_within and not self._trial.step_table.is_aside(step)

    def finding(self, step: int) -> Finding | None:
        """When a condition starts, as in built-in rules: one that comes and goes is one finding."""
        answer = self._ask(step)
        if answer is None:
            return None
        self._num_checks += 1
        if not answer:
            return None
        finding = answer if isinstance(answer, Finding) else self._finding_of(step, answer)
        place = (finding.rule, finding.mode, finding.worker, finding.tensor, finding.subject)
        before, self._last_bad[place] = self._last_bad.get(place), self._num_checks
        if before is not None and self._num_checks - before <= HEALTHY_CHECKS:
            return None
        return finding

    def _finding_of(self, step: int, answer: str | bool) -> Finding:
        text = answer if isinstance(answer, str) else "The condition is met from here on."
        mode = self._trial.mode(step)
        mode_name = "" if mode is None else mode.name
        return Finding(rule=self._name, message=text, step=step, mode=mode_name)

    def _by_function(
        self, rule: Callable[..., Any], arguments: dict[str, Any]
    ) -> Callable[[int], Answer]:
        def ask(step: int) -> Answer:
            tensors = StepTensors(self._trial, step)
            answer: Answer = rule(**{**arguments, "step": step, "tensors": tensors})
            return answer if answer is not None else False

        return ask

    def _by_class(self, rule: Any) -> Callable[[int], Answer]:
        def ask(step: int) -> Answer:
            try:
                rule.invoke(step)
            except _PASSED_OVER:
                return None
            except NoMoreData:
                self.is_at_end = True
            except RuleEvaluationConditionMet as met:
                self.is_at_end = met.end_of_rule
                return True
            return False

        return ask


def _limit(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, "")
    return int(text) if text not in ("", "None") else default


class StepTensors(Mapping[str, Array]):
    """Maps names to values. A tensor saved as reductions only has no value: use `reduction`."""

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
        """Names that match the pattern."""
        return self._trial.tensor_names(step=self.step, regex=pattern)

    def collection(self, name: str) -> list[str]:
        """Names of a collection's tensors at this step."""
        return self._trial.tensor_names(step=self.step, collection=name)

    def reduction(self, name: str, reduction: str, *, abs: bool = False) -> float:
        """A stored reduction of a tensor ("mean", "l2"), or the same computed from its value."""
        tensor = self._trial.tensor(name)
        return float(tensor.reduction_value(self.step, reduction, abs=abs))
