"""What capture and trials raise: the tree that scripts written for smdebug catch.

SMDebugError
├── SMDebugTypeError, SMDebugValueError, SMDebugRuntimeError, SMDebugNotImplementedError
│                                   each is also the builtin of that name
├── SMDebugCustomerError            an error in the user's code or input
├── TensorUnavailable               no tensor of this name so far
├── TensorUnavailableForStep        not saved at this step, and it never will be
│   └── ShapeUnavailableForStep
├── StepUnavailable                 the step was passed without being saved
├── StepNotYetAvailable             the step may still come
├── NoMoreData                      the job ended before the step
├── NoMoreProfilerData
├── RuleEvaluationConditionMet      a rule fired
├── InvalidWorker
├── MissingCollectionFiles
├── IndexReaderException
├── InvalidCollectionConfiguration
└── InsufficientInformationForRuleInvocation
"""

from typing import ClassVar

from trackside.capture.modes import ModeKeys
from trackside.errors import TracksideError

__all__ = [
    "IndexReaderException",
    "InsufficientInformationForRuleInvocation",
    "InvalidCollectionConfiguration",
    "InvalidWorker",
    "MissingCollectionFiles",
    "NoMoreData",
    "NoMoreProfilerData",
    "RuleEvaluationConditionMet",
    "SMDebugCustomerError",
    "SMDebugError",
    "SMDebugNotImplementedError",
    "SMDebugRuntimeError",
    "SMDebugTypeError",
    "SMDebugValueError",
    "ShapeUnavailableForStep",
    "StepNotYetAvailable",
    "StepUnavailable",
    "TensorUnavailable",
    "TensorUnavailableForStep",
]


class SMDebugError(TracksideError):
    code: ClassVar[str] = "trial"


class SMDebugTypeError(SMDebugError, TypeError):
    pass


class SMDebugValueError(SMDebugError, ValueError):
    pass


class SMDebugRuntimeError(SMDebugError, RuntimeError):
    pass


class SMDebugNotImplementedError(SMDebugError, NotImplementedError):
    pass


class SMDebugCustomerError(SMDebugError):
    pass


class TensorUnavailable(SMDebugError):
    def __init__(self, tname: str) -> None:
        self.tname = tname
        super().__init__(
            f"No tensor called {tname!r} has been saved so far. "
            "`trial.tensor_names()` lists those that have."
        )


class TensorUnavailableForStep(SMDebugError):
    def __init__(
        self,
        tname: str,
        step: int,
        mode: ModeKeys = ModeKeys.GLOBAL,
        has_reductions: bool = False,
    ) -> None:
        self.tname = tname
        self.step = step
        self.mode = mode
        self.has_reductions = has_reductions
        advice = (
            "Only reductions were saved; read them with `reduction_value` or `reduction_values`."
            if has_reductions
            else "`tensor.steps(mode)` lists the steps it was saved at."
        )
        super().__init__(f"{tname!r} was not saved at step {step} of {mode.name}. {advice}")


class ShapeUnavailableForStep(TensorUnavailableForStep):
    pass


class StepUnavailable(SMDebugError):
    def __init__(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> None:
        self.step = step
        self.mode = mode
        super().__init__(
            f"Step {step} of {mode.name} was not saved. `trial.steps(mode)` lists those that were."
        )


class StepNotYetAvailable(SMDebugError):
    def __init__(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> None:
        self.step = step
        self.mode = mode
        super().__init__(
            f"Step {step} of {mode.name} is not there yet and may still come. "
            "`trial.wait_for_steps([...])` waits for it."
        )


class NoMoreData(SMDebugError):
    def __init__(self, step: int, mode: ModeKeys, last_step: int | None) -> None:
        self.step = step
        self.mode = mode
        self.last_step = last_step
        super().__init__(
            f"The job ended before step {step} of {mode.name}; the last one is {last_step}."
        )


class NoMoreProfilerData(SMDebugError):
    def __init__(self, timestamp: float) -> None:
        self.timestamp = timestamp
        super().__init__(f"The job ended; there is no profiler data after {timestamp}.")


class RuleEvaluationConditionMet(SMDebugError):
    def __init__(self, rule_name: str, step: int, end_of_rule: bool = False) -> None:
        self.rule_name = rule_name
        self.step = step
        self.end_of_rule = end_of_rule
        super().__init__(
            f"Evaluation of the rule {rule_name} at step {step} resulted in the condition being met"
        )


class InvalidWorker(SMDebugError):
    def __init__(self, worker: str) -> None:
        self.worker = worker
        super().__init__(
            f"No worker called {worker!r} wrote this. `trial.workers()` lists those that did."
        )


class MissingCollectionFiles(SMDebugError):
    pass


class IndexReaderException(SMDebugError):
    pass


class InvalidCollectionConfiguration(SMDebugError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"Collection {name!r} has neither patterns nor tensor names. "
            "Give it some with `collection.include(...)`."
        )


class InsufficientInformationForRuleInvocation(SMDebugError):
    pass
