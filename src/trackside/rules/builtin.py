"""What a built-in rule is: parameters as fields, what it needs saved, and a check of new evidence.

`catalog.py` knows them all, the evaluator runs them; `custom` is for rules of users.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Generic, TypeVar

from trackside.records.finding import Finding
from trackside.rules.needs import Need as Need
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.evidence import Evidence
from trackside.storage.locate import Location

E = TypeVar("E")


class BuiltInRule(ABC, Generic[E]):
    """Subclasses are dataclasses with `parameter` fields. The docstring is its documentation:
    the first line for lists, the rest for its page. One instance watches one job."""

    advice: ClassVar[str] = ""
    """What to try, for the findings."""
    kind: ClassVar[Kind] = Kind.OTHER
    explains: ClassVar[tuple[str, ...]] = ()
    """Names of rules whose findings are consequences of this one's, beyond those that its kind
    explains."""
    leaves_training_loss: ClassVar[bool] = False
    """It does not change the training loss. So it explains only what `explains` names, and is no
    consequence of anything that spoils that loss."""
    is_independent: ClassVar[bool] = False
    """A mistake of its own, whatever else is wrong: no consequence, unless another rule's
    `explains` names it."""
    explains_failure: ClassVar[bool] = False
    """Its finding is why the job failed: the failure is no problem besides it."""
    ranks_before_if_at_start: ClassVar[str] = ""
    """The name of the rule that it comes before when found at step 0."""
    rests_on: ClassVar[tuple[str, ...]] = ()
    """What shows its finding best, besides the loss: names of vitals (`*` is any name), heat maps
    ("gradients:l2": a kind of tensors and its figure) and figures of the machine ("machine:TAG").
    """

    @classmethod
    def name(cls) -> str:
        """What `rule_to_invoke` calls it."""
        return cls.__name__

    @abstractmethod
    def check(self, evidence: E) -> Iterable[Finding]:
        """Judge what is new. Called repeatedly while the job runs, and once when all of it
        has been read (`evidence.is_all`). State is the rule's own."""

    def missing(self, evidence: E) -> str:
        """Why it could not judge anything, with the way out; "" when it could."""
        return ""

    def files(self, evidence: E) -> Mapping[str, bytes]:
        """What it leaves below `rule-output/<configuration>/` of the job, by name, at the end."""
        return {}


class TensorRule(BuiltInRule[Evidence]):
    """Watches what the hook saved."""

    is_of_worker: ClassVar[bool] = True
    """What one worker saved is judged by itself. Otherwise only the first one's is checked."""

    def check_before_start(self, place: Location) -> Iterable[Finding]:
        """Judge a job that has saved no tensor yet, by what else is at the trial's place. Called
        now and then until there is one."""
        return ()

    def needs(self) -> tuple[Need, ...]:
        """What must be saved for it; depends on the parameters."""
        return ()

    def judges_losses(self) -> bool:
        """And nothing else: then curves of the script's own do where no hook is there."""
        return False

    def missing(self, evidence: Evidence) -> str:
        problems = [
            evidence.missing(need.selection, need.reductions)
            for need in self.needs()
            if not need.is_optional
        ]
        return " ".join(filter(None, problems))

    def found(
        self,
        evidence: Evidence,
        step: int,
        message: str,
        *,
        tensor: str = "",
        subject: str = "",
        value: float | None = None,
        threshold: float | None = None,
    ) -> Finding:
        """A finding of this rule at a step of the trial. `each_worker` adds at which worker."""
        return Finding(
            rule=self.name(),
            step=step,
            mode=evidence.mode(step).name,
            tensor=tensor,
            subject=subject,
            value=value,
            threshold=threshold,
            message=message,
            advice=self.advice,
        )
