"""Rules about training and evaluation mode, where dropout and batch norm make a difference."""

from collections.abc import Iterable

import numpy as np

from trackside.capture.reading.anatomy import Anatomy, ModuleFacts, ParameterFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, VitalSigns

_SHORT = ("float16", "bfloat16")
_PAIR = 2
"""A layer and its norm."""
_USUAL, _NOW_AND_THEN = 0.75, 0.2
"""Shares of backwards: with one number of forwards before most of them, and a larger one before
few, the larger are evaluations. Otherwise there is no usual number."""


@dataclass
class TrainingInEvaluationMode(VitalsRule):
    """The model is trained in evaluation mode, so its dropout and norms are inactive.

    Fires when a model with dropout, batch norm or a spectral norm has had at least `num_backwards`
    backwards after forwards in evaluation mode, `share` of all. A model of which only parts are in
    that mode is not reported.
    """

    kind = Kind.MISTAKE
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Call model.train() before each epoch of training; model.eval() stays in effect until then."
    )

    num_backwards: int = parameter(20, "Backwards in evaluation mode.", at_least=1)
    share: float = parameter(0.2, "Share of all backwards.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if not _what(vitals):
            return
        wrong = sum(each.count for each in anatomy.backwards if not each.training)
        if wrong >= self.num_backwards and wrong >= self.share * anatomy.num_backwards:
            evaluated = vitals.vital("gradient_norm", training=False)
            step = int(evaluated.steps[0]) if len(evaluated) else 0
            yield Sign(
                step,
                f"{wrong} of {anatomy.num_backwards} backwards came after forwards in evaluation "
                f"mode: {_what(vitals)} had no effect in them.",
                value=float(wrong),
                threshold=self.num_backwards,
            )


@dataclass
class EvaluationInTrainingMode(VitalsRule):
    """The model is evaluated in training mode: dropout is active, and batch norm uses the batch.

    Fires at the end, or after 1000 steps, when the only model of the script has dropout or batch
    norm, is never in evaluation mode, and was called at least `num_forwards` times without
    gradients; or that many times more than usual between two backwards, or after the last one, in
    few places of the run.
    """

    kind = Kind.MISTAKE
    rests_on = ("batch_size",)
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Call model.eval() before evaluating, within torch.no_grad(), and model.train() afterwards."
    )

    num_forwards: int = parameter(2, "Forwards that are not used for training.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if len(anatomy.models) != 1 or not (anatomy.holds_dropout or anatomy.holds_batch_norm):
            return  # of several models one may make samples for another
        if any(not each.training for each in anatomy.forwards) or not anatomy.num_backwards:
            return
        if not vitals.is_settled:
            return  # statistics may be estimated anew, and the evaluation be yet to come
        wrong = anatomy.num_forwards(training=True, grad=False)
        what = "without gradients"
        if wrong < self.num_forwards:
            wrong, what = _unused_forwards(vitals), "that no backward followed"
        if wrong >= self.num_forwards:
            seen = vitals.vital("batch_size", training=False)
            yield Sign(
                int(seen.steps[0]) if len(seen) else 0,
                f"{wrong} forwards {what} ran in training mode and none in evaluation mode: "
                f"{_what(vitals)} worked as in training.",
                value=float(wrong),
                threshold=self.num_forwards,
            )


@dataclass
class DropoutInEvaluation(VitalsRule):
    """Dropout is active in evaluation, because it is not told the mode.

    Fires when torch.nn.functional.dropout, or one of its kind, was called at least `num_calls`
    times without `training` while the model was in evaluation mode, without gradients. A dropout
    that is told training=True, as for the spread of predictions, is active on purpose.
    """

    kind = Kind.MISTAKE
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Pass the mode: F.dropout(x, p, training=self.training). Its default is True, whatever the "
        "model's mode is. Or use nn.Dropout, which follows model.eval()."
    )

    num_calls: int = parameter(2, "Calls in evaluation.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        places = vitals.anatomy.dropped_in_evaluation or {}
        total = sum(places.values())
        if total >= self.num_calls:
            seen = vitals.vital("batch_size", training=False)
            yield Sign(
                int(seen.steps[0]) if len(seen) else 0,
                f"Dropout was active in {total} calls in evaluation mode, at {', '.join(places)}: "
                "it is called without `training`.",
                value=float(total),
                threshold=self.num_calls,
            )


@dataclass
class AutocastWithoutEffect(VitalsRule):
    """Mixed precision is asked for, and every layer computes in full precision.

    Fires when in at least `num_steps` sampled training steps the model or the loss was computed
    under autocast, while no output of a linear or convolutional layer was in 16 bits, and at least
    as many were in more.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    advice = (
        "Call the model inside of `with torch.autocast(...)`, with the device type that it is on; "
        "the loss alone gains nothing. Look for a forward that switches autocast off, and for "
        "inputs in float64."
    )

    num_steps: int = parameter(5, "Sampled training steps under autocast.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        seen = vitals.anatomy.precision
        if seen is None or seen.num_low or min(seen.num_asked, seen.num_full) < self.num_steps:
            return
        if any(each.dtype in _SHORT for each in vitals.anatomy.parameters):
            return  # those are in few bits anyway
        yield Sign(
            0,
            f"autocast was on in {seen.num_asked} checked calls, and all {seen.num_full} outputs "
            "of layers that were checked are in full precision: they are computed outside of it.",
            value=float(seen.num_low),
            threshold=1.0,
        )


@dataclass
class StaleCopyEvaluated(VitalsRule):
    """What is evaluated is a copy of the model that never changes.

    Fires when a model that no optimizer holds, with the parameters' shapes of one that is trained,
    was evaluated at least `num_evaluations` times with updates in between, its weights were the
    same each time, and the trained model itself was never called without gradients. A teacher or a
    reference, which is called in every step or beside the trained model, is not reported.
    """

    kind = Kind.MISTAKE
    explains = ("Overfitting", "EvaluationInputDiffers")
    leaves_training_loss = True
    advice = (
        "Update the average after each optimizer.step(), in place: a.lerp_(p, 0.001), or "
        "AveragedModel.update_parameters(model). An assignment to a loop variable changes nothing. "
        "Otherwise evaluate the model that is trained."
    )

    num_evaluations: int = parameter(3, "Evaluations with the same weights.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        evaluated = vitals.anatomy.evaluated
        if any(each.is_trained for each in evaluated):
            return
        for each in evaluated:
            is_still = each.num_changes == 0 and each.num_evaluations >= self.num_evaluations
            if each.is_copy and is_still:
                seen = vitals.vital("batch_size", training=False)
                yield Sign(
                    int(seen.steps[0]) if len(seen) else 0,
                    f"A copy of the model ({each.type}) was evaluated {each.num_evaluations} times "
                    f"while {vitals.num_updates} updates were made, and its weights never changed.",
                    tensor=each.type,
                    value=0.0,
                    threshold=1.0,
                )


@dataclass
class AverageMisweighted(VitalsRule):
    """An average of the weights is evaluated that hardly follows them, or that is no average.

    Fires after at least 100 updates when a copy of the model, whose weights have changed at least
    `num_changes` times between evaluations, has moved less than `followed` of how far the trained
    model has: then it is nearly the model of the start. Also fires when it was never further behind
    than `behind` of an update, but not equal: the weights of old and new are swapped.
    """

    kind = Kind.CAUSE
    explains = ("Overfitting", "EvaluationInputDiffers", "NothingLearnt")
    leaves_training_loss = True
    advice = (
        "Choose a decay that fits the number of updates: one of 0.999 averages over the last 1000. "
        "In short trainings let it rise, min(decay, (1 + n) / (10 + n)). The old average keeps the "
        "large weight: average = decay * average + (1 - decay) * weight."
    )

    num_changes: int = parameter(3, "Changes of its weights.", at_least=1)
    followed: float = parameter(0.2, "Part of the way that is too little.", at_least=0, at_most=1)
    behind: float = parameter(0.2, "Updates that are too few to be an average.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.num_updates < FAIR_STEPS:
            return
        for each in vitals.anatomy.evaluated:
            if not each.is_copy or each.num_changes < self.num_changes or each.followed is None:
                continue
            if each.followed < self.followed:
                what = (
                    f"it has moved {each.followed:.0%} as far as the trained weights in "
                    f"{vitals.num_updates} updates, and is nearly what it was at the start"
                )
                value, threshold = each.followed, self.followed
            elif each.behind is not None and 0 < each.behind < self.behind:
                what = (
                    f"it is never more than {each.behind:.2g} updates behind the trained weights: "
                    "it is no average of them"
                )
                value, threshold = each.behind, self.behind
            else:
                continue
            yield Sign(
                0,
                f"A copy of the model ({each.type}) that follows it is evaluated, and {what}.",
                tensor=each.type,
                value=value,
                threshold=threshold,
            )


@dataclass
class BatchNormStatistics(VitalsRule):
    """Batch norm evaluates with statistics that are not those of the data.

    Fires when, after at least 100 forwards in training mode, the model is evaluated while more than
    `initial` of a batch norm's running statistics are still their initial values, by its momentum;
    or when each batch has a weight of `last` or more in them, but is not all of them; or when a
    copy of the model is evaluated whose weights follow those that are trained, at least
    `num_changes` times, and whose running statistics never change.
    """

    kind = Kind.CAUSE
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Use the default, momentum=0.1: in PyTorch it is the weight of the new batch. A momentum "
        "of 0.99 or 0.999 in Keras is 0.01 or 0.001 here, and then takes many more steps."
    )

    initial: float = parameter(
        0.5, "Share of the initial values that is too large.", at_least=0, at_most=1
    )
    last: float = parameter(
        0.9, "Weight of the last batch that is too large.", at_least=0, at_most=1
    )
    num_changes: int = parameter(3, "Changes of a copy's weights.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        yield from self._of_copies(vitals)
        anatomy = vitals.anatomy
        num_seen = anatomy.num_forwards(training=True, grad=True)
        is_used = anatomy.num_forwards(training=False, grad=False) > 0
        if not vitals.is_settled or num_seen < FAIR_STEPS or not is_used:
            return
        seen = vitals.vital("batch_size", training=False)
        for module in anatomy.modules:
            if module.momentum is None or not 0 < module.momentum < 1 or not module.training:
                continue
            left = (1 - module.momentum) ** num_seen
            if left > self.initial or module.momentum >= self.last:
                what = (
                    f"{left:.0%} of its running statistics are still the initial values"
                    if left > self.initial
                    else "its running statistics are nearly those of the last batch alone"
                )
                yield Sign(
                    int(seen.steps[0]) if len(seen) else 0,
                    f"{module.name} has a momentum of {module.momentum:g}: after {num_seen} "
                    f"batches {what}.",
                    tensor=module.name,
                    value=module.momentum,
                )
                return

    def _of_copies(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not any("BatchNorm" in each.type and each.training for each in vitals.anatomy.modules):
            return
        for each in vitals.anatomy.evaluated:
            is_fixed = each.has_statistics and not each.num_statistics_changes
            if each.is_copy and is_fixed and each.num_changes >= self.num_changes:
                seen = vitals.vital("batch_size", training=False)
                yield Sign(
                    int(seen.steps[0]) if len(seen) else 0,
                    f"A copy of the model ({each.type}) is evaluated whose weights have changed "
                    f"{each.num_changes} times, and the running statistics of its batch norms "
                    "never.",
                    tensor=each.type,
                    value=float(each.num_changes),
                    advice="Copy the buffers as well: for e, b in zip(average.buffers(), "
                    "model.buffers()): e.copy_(b); or call torch.optim.swa_utils.update_bn.",
                )


@dataclass
class FrozenNormsDrift(VitalsRule):
    """Layers that were trained before are frozen, and their batch norms go on changing.

    Fires at the end of at least 100 steps when a batch norm and the layer before it are frozen,
    after they were trained or loaded from a file, other parts of the model are trained, the batch
    norm is in training mode as all around it, its running statistics have moved by at least `moved`
    deviations since, and the model is evaluated. Whether that does harm is not measured. Not
    reported: norms that alone are in training mode, and statistics that are estimated anew by
    passes without gradients, as for another domain.
    """

    kind = Kind.OUTCOME
    leaves_training_loss = True
    advice = (
        "requires_grad=False does not stop running statistics: call eval() on the frozen part "
        "after each model.train(), or override train() so that it stays in evaluation mode. If the "
        "statistics are to follow other data, leave it."
    )

    moved: float = parameter(
        0.25, "How far statistics have moved, in deviations of a channel.", at_least=0
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        is_evaluated = anatomy.num_forwards(training=False, grad=False) > 0
        if not vitals.is_all or vitals.last_step < FAIR_STEPS or not is_evaluated:
            return
        if anatomy.num_forwards(training=True, grad=False):
            return  # statistics are estimated anew
        norms = [each for each in anatomy.modules if _follows_its_surroundings(anatomy, each)]
        drifting = [each for each in norms if _is_frozen_before(anatomy, each.name)]
        farthest = max((each.statistics_moved or 0.0 for each in drifting), default=0.0)
        if farthest >= self.moved and any(p.is_trained for p in anatomy.parameters):
            yield Sign(
                0,
                f"{len(drifting)} batch norms, {drifting[0].name} first, are in training mode, and "
                "the layers around them are frozen: their running statistics have moved by up to "
                f"{farthest:.2g} deviations, and with them what the frozen layers compute.",
                tensor=drifting[0].name,
                value=farthest,
                threshold=self.moved,
            )


@dataclass
class BatchNormOfOneSample(VitalsRule):
    """Batch norm normalises over a batch of one sample.

    Fires when a model with batch norm in training mode gets batches of one sample, at least `share`
    of all batches.
    """

    kind = Kind.MISTAKE
    rests_on = ("batch_size",)
    explains = ("NothingLearnt",)
    leaves_training_loss = True
    advice = (
        "Use larger batches, or GroupNorm or LayerNorm, which do not depend on the batch; or keep "
        "the batch norm layers in evaluation mode."
    )

    share: float = parameter(0.5, "Share of the batches.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        norms = [m for m in vitals.anatomy.modules if "BatchNorm" in m.type and m.training]
        size = vitals.vital("batch_size")
        if not norms or len(size) < ENOUGH_BATCHES:
            return
        if float(np.mean(size.values == 1)) >= self.share:
            yield Sign(
                int(size.steps[0]),
                f"{len(norms)} batch norm layers train on batches of one sample.",
                tensor=norms[0].name,
                value=1.0,
                threshold=2.0,
            )


def _follows_its_surroundings(anatomy: Anatomy, norm: ModuleFacts) -> bool:
    """Whether it keeps statistics and is in training mode because all around it is: a norm that
    alone is in that mode is there on purpose."""
    if norm.momentum is None or not norm.training:
        return False
    around = norm.name.rpartition(".")[0]
    return all(each.training for each in anatomy.modules if each.name == around)


def _is_frozen_before(anatomy: Anatomy, norm: str) -> bool:
    """Whether its own weights and the layer before it are frozen, and have learnt before."""
    before: ParameterFacts | None = None
    for each in anatomy.parameters:
        if each.name.endswith(f"_{norm}.weight"):
            pair = [p for p in (before, each) if p is not None and not p.requires_grad]
            return len(pair) == _PAIR and (
                _is_loaded(anatomy) or any(p.ever_had_gradient for p in pair)
            )
        before = each if len(each.shape) > 1 else before
    return False


def _is_loaded(anatomy: Anatomy) -> bool:
    return any(
        each.action == "load" and each.what == "model" and each.num_matched
        for each in anatomy.checkpoints
    )


def _what(vitals: VitalSigns) -> str:
    held = (
        ("dropout", vitals.anatomy.holds_dropout),
        ("batch norm", vitals.anatomy.holds_batch_norm),
        ("the iteration of the spectral norm", vitals.anatomy.holds_spectral_norm),
    )
    return " and ".join(name for name, is_held in held if is_held)


def _unused_forwards(vitals: VitalSigns) -> int:
    """Those beyond the usual number before a backward, where that happens now and then; 0 where
    there is nothing usual, as when episodes of many lengths are played."""
    anatomy = vitals.anatomy
    counts = {int(k): n for k, n in (anatomy.forwards_per_backward or {}).items() if int(k)}
    if not counts:
        return 0
    usual = max(counts, key=lambda each: counts[each])
    total = sum(counts.values())
    more = sum(n for each, n in counts.items() if each > usual)
    if counts[usual] < _USUAL * total or more > _NOW_AND_THEN * total:
        return 0
    unused = sum((each - usual) * n for each, n in counts.items() if each > usual)
    last = anatomy.forwards_since_backward
    return unused + (last if vitals.is_all else max(0, last - usual))
