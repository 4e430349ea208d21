"""Rules about models that are called beside the one that is trained, as target networks and
teachers are, and about evaluation that says nothing of it.
"""

import re
from collections.abc import Iterable

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, VitalSigns

_TARGET = re.compile(r"(^|_)(target|tgt)|target($|_|net)", re.IGNORECASE)
_TWO = 2
"""Batches of an evaluation: a single one may be a trial of shapes, or an initialisation by data."""


@dataclass
class TargetNetworkFixed(VitalsRule):
    """A target network is never updated.

    Fires when a model that the script calls a target, and that was a copy of the trained model at
    its first call, is the same at the end of at least `num_calls` calls; before the end, after the
    square of that, since some are updated only every few thousand steps.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = (
        "Copy the trained weights into it every so many steps (load_state_dict), or move it a "
        "little towards them at each step."
    )

    num_calls: int = parameter(64, "Calls of it before the rule may fire.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for each in vitals.anatomy.onlookers:
            is_fixed = each.is_copy and not each.is_changed and not each.is_trained
            enough = self.num_calls if vitals.is_all else self.num_calls**2
            if is_fixed and each.num_checked >= enough and _TARGET.search(each.name):
                yield Sign(
                    0,
                    f"{each.name} was a copy of the trained model at first, and is still the same "
                    f"after {each.num_checked} calls.",
                    tensor=each.name,
                    value=float(each.num_checked),
                    threshold=float(self.num_calls),
                )


@dataclass
class TeacherDropsOut(VitalsRule):
    """A teacher that is not trained has its dropout on.

    Fires when a model that is only called, in at least `num_calls` calls, and never changes is in
    training mode and has dropout, beside kl_div: its targets are noise in part. The noise of a
    teacher that follows its student is often meant.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = "Call teacher.eval() before the training of the student."

    num_calls: int = parameter(64, "Calls of it before the rule may fire.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not any(loss.function == "kl_div" for loss in vitals.anatomy.losses):
            return
        for each in vitals.anatomy.onlookers:
            is_fixed = not each.is_changed and each.num_checked >= self.num_calls
            if is_fixed and each.drops and not each.num_evaluated:
                name = each.name or each.type
                yield Sign(
                    0,
                    f"{name} is not trained and was called {each.num_calls} times in training "
                    "mode: its dropout is on.",
                    tensor=name,
                    value=float(each.num_calls),
                    threshold=float(self.num_calls),
                )


@dataclass
class EvaluatedBeforeTraining(VitalsRule):
    """The model is evaluated before the first step of training, and never again.

    Fires at the end of at least 100 steps, of several passes over a loader, when at least two
    batches were evaluated before them, and none since.
    """

    kind = Kind.OUTCOME
    is_independent = True
    leaves_training_loss = True
    advice = "Evaluate after each epoch, or at the end: call the evaluation inside of the loop."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if not vitals.is_all or vitals.last_step < FAIR_STEPS or anatomy.first_step:
            return
        count = anatomy.num_evaluated_early
        is_since = anatomy.num_forwards(training=False, grad=False) > 0
        passes = max((each.num_passes for each in anatomy.loaders if each.num_trained), default=0)
        if count >= _TWO and not is_since and passes >= _TWO:
            yield Sign(
                0,
                f"{count} batches were evaluated before the first step of training, and none in "
                f"the {vitals.last_step} steps since.",
                value=float(count),
            )
