"""Rules about copies of the weights that the script's text shows to be none, or to be left in."""

from collections.abc import Iterable

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.reading_results import remarks, sign
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, VitalSigns


@dataclass
class CopyNotMade(VitalsRule):
    """What should be a copy of the weights is the weights themselves.

    Fires after at least 10 updates when the script keeps the tensors of a model in a table, without
    copying them, and averages them in place; or gives the model that is trained a second name, as
    of a target network or a teacher, and brings it up to date as if it were another one.
    """

    kind = Kind.MISTAKE
    is_independent = True
    leaves_training_loss = True
    explains = ("BestWeightsNotCopied", "TargetWithGradients", "AverageMisweighted")
    advice = (
        "Copy what is kept: {k: p.detach().clone() for k, p in model.named_parameters()}, or "
        "copy.deepcopy(model) for a target network."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.num_updates >= ENOUGH_BATCHES:
            for remark in remarks(vitals, self):
                yield sign(remark, f"There were {vitals.num_updates} updates.")


@dataclass
class AverageLeftIn(VitalsRule):
    """Averaged weights are put into the model for an evaluation, and training goes on from them.

    Fires after at least 100 steps when the script puts an average of the weights into the model
    that is trained, in the loop that trains it and right before an evaluation, never puts anything
    else in, and the model was evaluated. Slow weights that training is meant to go on from, as
    Lookahead's, are not put in for an evaluation.
    """

    kind = Kind.CAUSE
    is_independent = True
    leaves_training_loss = True
    explains = ("LossJumpsAtResume", "GradientJumpsAtResume")
    advice = (
        "Keep the weights before, {k: v.clone() for k, v in model.state_dict().items()}, and load "
        "them after the evaluation; or evaluate a copy of the model that has the average."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        num_evaluated = sum(each.count for each in vitals.anatomy.forwards if not each.grad)
        if vitals.last_step >= FAIR_STEPS and num_evaluated:
            for remark in remarks(vitals, self):
                yield sign(remark, f"It was evaluated {num_evaluated} times.")
