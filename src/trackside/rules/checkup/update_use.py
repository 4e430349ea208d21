"""Rules about gradients and updates that come to nothing: cleared, kept small, or rounded away."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trackside.capture.reading.anatomy import Anatomy, ParameterFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.reading_results import remarks, sign
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, HALVED, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import EPSILON, FAIR_STEPS, VitalSigns

_SHORT = ("float16", "bfloat16")

_STILL = 0.5
"""Of the training: a weight that changed before, and not for as long, may be held on purpose."""
_MOST_UPDATES = 0.8
"""Share of updates: the first and the last of an epoch may differ."""
_SMALLEST_FLOAT16 = 6e-8
"""The smallest number above zero."""
_SCORED = 0.1
"""log_prob calls over samples: a policy asks for one each."""
_MOST_BACKWARDS = 0.9
"""Share of backwards: with the right sign about none are reversed, with the wrong one about all."""
_ABOVE_EPS = 10.0
"""Times Adam's eps: of smaller gradients it makes updates that are far below the rate."""


_QUIET = 0.25
"""Of all steps, without an update at the end: gradients for an analysis take fewer."""
_NEARLY = 0.9
"""Of the steps since the last update: backwards without a step. With others, some were left out
before, too."""


@dataclass
class AccumulationCleared(VitalsRule):
    """Gradients of several batches are computed for one update, but only the last are used.

    Fires when in most of at least `num_updates` updates of the only optimizer, gradients were
    cleared between its backwards at least `cleared` times. Adversarial examples, for which inputs
    get gradients, do the same on purpose and are not reported.
    """

    kind = Kind.MISTAKE
    rests_on = ("cleared_backwards",)
    leaves_training_loss = True
    advice = "Call optimizer.zero_grad() only after optimizer.step(), not for each small batch."

    num_updates: int = parameter(5, "Updates before the rule may fire.", at_least=1)
    cleared: int = parameter(2, "How often gradients are cleared before one update.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        cleared = vitals.vital("cleared_backwards")
        if len(cleared) < self.num_updates or len(vitals.anatomy.optimizers) != 1:
            return
        if np.any(vitals.vital("input/is_trained").values > 0):
            return
        if float(np.mean(cleared.values >= self.cleared)) > _MOST_UPDATES:
            yield Sign(
                int(cleared.steps[0]),
                f"For one update gradients are computed {cleared.median + 1:.0f} times and cleared "
                f"{cleared.median:.0f} times: only those of the last batch are used.",
                value=cleared.median,
                threshold=self.cleared,
            )


@dataclass
class AccumulationInverted(VitalsRule):
    """The optimizer steps on all batches but every k-th, instead of on every k-th.

    Fires when the only optimizer makes updates of one backward each and, after the same number of
    them each time, one of two backwards, at least `num_times` times, while each backward has a new
    batch of the loader. A second backward of the same batch now and then, as of a penalty, and
    trainings with a GradScaler, which leaves steps out, are not reported.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    explains = ("LearningRateTooLow",)
    advice = (
        "Turn the condition around: if (i + 1) % k == 0: optimizer.step(); optimizer.zero_grad(). "
        "`if i % k` is true on all other batches."
    )

    num_times: int = parameter(10, "Updates of two backwards.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy, rhythm = vitals.anatomy, vitals.anatomy.rhythm
        if rhythm is None or len(anatomy.optimizers) != 1 or anatomy.grad_scaler is not None:
            return
        gaps = {int(gap): count for gap, count in (rhythm.gaps or {}).items()}
        usual = max(gaps, key=lambda gap: gaps[gap], default=0)
        num_updates = rhythm.num_single + rhythm.num_double
        if rhythm.num_double < self.num_times or not usual or rhythm.num_other:
            return
        is_regular = gaps[usual] > _MOST_UPDATES * rhythm.num_double
        num_batches = sum(loader.num_trained for loader in anatomy.loaders)
        if is_regular and num_batches > (num_updates + anatomy.num_backwards) / 2:
            yield Sign(
                0,
                f"Of every {usual + 2} batches, {usual + 1} are followed by an update, and the "
                f"gradients of one wait for the next: {num_updates} updates for "
                f"{anatomy.num_backwards} backwards.",
                value=float(num_updates),
                threshold=anatomy.num_backwards / (usual + 2),
            )


@dataclass
class WeightsUntied(VitalsRule):
    """An output layer begins as a copy of the embedding, and is trained apart from it.

    Fires when a weight had at the start the very values of an embedding, in other memory, both are
    trained and have gradients, and after at least `num_steps` optimizer steps their norms differ.
    """

    kind = Kind.CAUSE
    rests_on = ("weights:l2",)
    leaves_training_loss = True
    advice = (
        "To tie the two, assign the parameter itself: head.weight = embedding.weight, after every "
        "deepcopy, load or move that makes new tensors. weight.data = ... and copy_() copy the "
        "values once."
    )

    num_steps: int = parameter(10, "Optimizer steps before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.num_updates < self.num_steps:
            return
        by_name = {each.name: each for each in vitals.anatomy.parameters}
        for each in vitals.anatomy.parameters:
            table = by_name.get(each.copied_from or "")
            if table is None or not (_learns(each) and _learns(table)):
                continue
            ends = [vitals.figure(p.name, "l2") for p in (each, table)]
            if all(map(len, ends)) and ends[0].values[-1] != ends[1].values[-1]:
                yield Sign(
                    each.first_gradient_step or 0,
                    f"{each.name} begins with the values of {table.name} and is another tensor: "
                    f"their norms are {ends[0].values[-1]:.4g} and {ends[1].values[-1]:.4g} now.",
                    tensor=each.name,
                )


@dataclass
class WarmUpNeverEnds(VitalsRule):
    """The learning rate is still warming up when training ends.

    Fires when at the end of at least 100 steps a scheduler has raised the rate from step to step,
    and the rate has reached less than `share` of the optimizer's initial rate, or of OneCycleLR's
    max_lr.
    """

    kind = Kind.MISTAKE
    rests_on = ("learning_rate/*",)
    advice = (
        "Warm up over a few percent of all steps, counted in the unit in which scheduler.step() is "
        "called (batches or epochs)."
    )

    share: float = parameter(
        0.3, "Share of the rate that should be reached.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if (
            not vitals.is_all
            or vitals.last_step < FAIR_STEPS
            or len(vitals.anatomy.optimizers) != 1
        ):
            return
        rate = vitals.vital("learning_rate/0")
        group = next(iter(vitals.anatomy.optimizers[0].groups), {})
        wanted = float(group.get("max_lr") or group.get("initial_lr") or 0.0)
        if len(rate) < ENOUGH_BATCHES or not vitals.anatomy.schedulers:
            return
        rises = bool(np.all(np.diff(rate.values) >= 0)) and rate.values[-1] > rate.values[0]
        reached = float(rate.values[-1])
        if rises and reached < self.share * wanted:
            yield Sign(
                int(rate.steps[0]),
                f"The learning rate has risen to {reached:.3g} at the end, {reached / wanted:.1%} "
                f"of {wanted:.3g}: the warm-up is longer than the training.",
                value=reached,
                threshold=self.share * wanted,
            )


@dataclass
class LowPrecisionWeights(VitalsRule):
    """Weights are stored in 16 bits, too few for their updates.

    Fires when parameters in an optimizer are float16 and the loss becomes NaN or infinite; or when
    they are float16 or bfloat16 and nothing is learnt, while the checked updates changed less than
    `moved` of them; or when updates leave `lost` of them exactly as they were, and after at least
    100 steps the loss has not fallen to half.
    """

    kind = Kind.CAUSE
    rests_on = ("update_ratio", "weights:l2")
    advice = (
        "Keep the weights in float32 and compute in 16 bits with torch.autocast, and a GradScaler "
        "for float16: model.half() is for inference. Adam's eps of 1e-8 is 0 in float16."
    )

    moved: float = parameter(
        1e-4, "Total change of the weights, relative to their norm.", at_least=0
    )
    lost: float = parameter(
        0.7, "Share of the weights that an update leaves as they were.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        short = [p for p in vitals.anatomy.parameters if p.is_trained and p.dtype in _SHORT]
        if not short:
            return
        is_lost = math.isfinite(vitals.ends_at) and any(p.dtype == "float16" for p in short)
        same = vitals.vital("update_lost_share")
        is_rounded = len(same) >= ENOUGH_BATCHES and same.median > self.lost
        is_slow = vitals.is_settled and vitals.last_step >= FAIR_STEPS and vitals.fall < HALVED
        is_still = vitals.is_stuck and vitals.moved < self.moved
        if is_lost or is_still or (is_rounded and is_slow):
            what = "updates are rounded away"
            if is_lost:
                what = "the loss is no longer finite"
            elif is_rounded:
                what = f"an update leaves {same.median:.0%} of a weight as it was, by rounding"
            yield Sign(
                int(vitals.ends_at) if is_lost else 0,
                f"{len(short)} parameters are trained in {short[0].dtype}, and {what}.",
                tensor=short[0].name,
                value=float(len(short)),
            )


@dataclass
class UpdateLost(VitalsRule):
    """A weight has gradients and an optimizer that steps, but never changes.

    Fires for a weight of two or more axes, in float32 or float64, whose norm, minimum and maximum
    are the same at all of at least `num_saved` saved steps, or at the last ones, for half of the
    training or more, while its optimizer has made as many updates, its rate was above 0 and its
    gradients were not zero. By rate and gradients, the weight
    should have moved by at least `moved` of its norm: less may be lost by rounding. Not reported:
    frozen weights, lookup tables, trainings with a GradScaler, which leaves updates out, and
    optimizers other than those like SGD and like Adam.
    """

    kind = Kind.CAUSE
    rests_on = ("update_ratio", "gradient_norm", "weights:l2")
    is_independent = True
    advice = (
        "Compare the weight before and after optimizer.step(). Usual reasons: an update of a copy "
        "(reshape, contiguous, to or clone of a weight that is not contiguous in memory: make it "
        "so before the optimizer is created), weights that are loaded again in each step, and a "
        "model that is copied from another one after each update."
    )

    num_saved: int = parameter(10, "Saved steps at which the weight is the same.", at_least=2)
    moved: float = parameter(
        0.05, "Expected movement in all updates, relative to the weight's norm.", at_least=0
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.anatomy.grad_scaler is not None or math.isfinite(vitals.ends_at):
            return
        for each in vitals.anatomy.parameters:
            since = _last_change(vitals, each.name)
            saved = vitals.figure(each.name, "l2").since(since)
            if not _is_plain_weight(each, vitals.anatomy) or len(saved) < self.num_saved:
                continue
            if since > 0 and saved.span < _STILL * vitals.last_step:
                continue
            if since > 0 and (each.first_gradient_step or 0) >= since:
                continue  # another weight has taken its place, and is not the one that is saved
            moved = _expected_movement(each, vitals, self.num_saved, since)
            if moved >= self.moved:
                yield Sign(
                    int(saved.steps[0]),
                    f"{each.name} has gradients and a learning rate above 0, and is the same at "
                    f"{len(saved)} saved steps, from step {saved.steps[0]} on. The updates should "
                    f"have moved it by up to {moved:.2g} of its norm.",
                    tensor=each.name,
                    value=0.0,
                    threshold=self.moved,
                )


@dataclass
class UpdatesStop(VitalsRule):
    """The weights change at first and then no more, while training goes on.

    Fires after at least 100 steps when for `share` of them, and at `num_saved` saved steps or more,
    no weight of the only optimizer has changed, and as large a share of the backwards in training
    mode had no step of the optimizer. Gradients that are accumulated count for their step. Also
    fires at the end when the optimizer made its last step at least 100 steps and a quarter of the
    training before, and nearly all backwards without a step came since. Not reported: gradients for
    an input, weights in 16 bits and trainings with a GradScaler.
    """

    kind = Kind.CAUSE
    rests_on = ("update_ratio", "weights:l2")
    is_independent = True
    advice = (
        "Check under which condition optimizer.step() is called, and at which indentation. If the "
        "step is compiled, run it once without torch.compile and compare the weights."
    )

    num_saved: int = parameter(12, "Saved steps without a change.", at_least=1)
    share: float = parameter(0.5, "Share of the steps without a change.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not _has_plain_updates(vitals) or vitals.last_step < FAIR_STEPS:
            return
        if _ends_early(vitals):
            last = vitals.anatomy.optimizers[0].last_step
            yield Sign(
                last + 1,
                f"The optimizer made its last step at step {last} of {vitals.last_step}, while "
                "gradients were computed to the end.",
                value=(vitals.last_step - last) / vitals.last_step,
                threshold=_QUIET,
            )
            return
        if _share_without_step(vitals.anatomy) < self.share:
            return
        names = [each.name for each in vitals.anatomy.parameters if each.is_trained]
        last = max((_last_change(vitals, name) for name in names), default=-1)
        # Biases are usually not saved.
        saved = max((len(vitals.figure(name, "l2").since(last + 1)) for name in names), default=0)
        quiet = vitals.last_step - last
        if last >= 0 and saved >= self.num_saved and quiet >= self.share * vitals.last_step:
            yield Sign(
                last,
                f"No weight has changed since step {last}, in {quiet} of {vitals.last_step} steps. "
                f"The optimizer made {vitals.anatomy.num_optimizer_steps} steps for "
                f"{vitals.anatomy.num_backwards} backwards.",
                value=quiet / vitals.last_step,
                threshold=self.share,
            )


@dataclass
class ClippedAfterStep(VitalsRule):
    """Gradients are clipped when there is nothing to clip.

    Fires when nearly all of at least `num_calls` calls of clip_grad_norm_ came when no backward had
    run since the last step of the only optimizer: after optimizer.step(), which has used the
    gradients, or before backward(), when they are cleared.
    """

    kind = Kind.MISTAKE
    rests_on = ("gradient_norm", "gradient_norm_unclipped")
    advice = "Call clip_grad_norm_ after loss.backward() and before optimizer.step()."

    num_calls: int = parameter(10, "Such calls before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        late, total = anatomy.num_clipped_late, anatomy.num_clipped_late + anatomy.num_clipped
        if len(anatomy.optimizers) != 1 or late < self.num_calls:
            return
        if late > _MOST_BACKWARDS * total:
            yield Sign(
                0,
                f"{late} of {total} calls of clip_grad_norm_ came when no backward had run since "
                "the last optimizer.step(): what the optimizer uses is not clipped.",
                value=float(late),
                threshold=self.num_calls,
            )


@dataclass
class ScaleNotRemoved(VitalsRule):
    """A GradScaler scales the loss, and the optimizer uses the scaled gradients.

    Fires when a GradScaler has scaled at least `num_losses` losses, the optimizers have made as
    many steps, and neither `step` nor `unscale_` of the scaler was ever called, nor `get_scale`, by
    which a script may divide itself.
    """

    kind = Kind.MISTAKE
    rests_on = ("grad_scale", "gradient_norm")
    advice = (
        "Call scaler.step(optimizer) and scaler.update() instead of optimizer.step(): the first "
        "divides the gradients by the scale, and leaves out updates that overflow."
    )

    num_losses: int = parameter(10, "Scaled losses before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if anatomy.is_ever_unscaled or anatomy.num_scaled < self.num_losses:
            return
        if anatomy.num_optimizer_steps >= self.num_losses:
            scale = f" by {anatomy.grad_scale:g}" if anatomy.grad_scale else ""
            yield Sign(
                0,
                f"{anatomy.grad_scaler} scaled {anatomy.num_scaled} losses{scale}, and the "
                f"optimizer made {anatomy.num_optimizer_steps} steps without scaler.step(): with "
                "gradients that are larger by that factor.",
                value=float(anatomy.num_scaled),
                threshold=self.num_losses,
            )


@dataclass
class GradientUnderflow(VitalsRule):
    """Gradients are computed in float16 without loss scaling and become zero.

    Fires when autocast uses float16, there is no GradScaler, and a weight's gradient was exactly
    zero at `num_steps` saved steps or more, at least half of all, although it was not zero at other
    steps or other weights have a gradient.
    """

    kind = Kind.CAUSE
    rests_on = ("gradient_norm", "gradients:l2")
    advice = (
        "Use torch.amp.GradScaler with float16: scaler.scale(loss).backward(), scaler.step, "
        "scaler.update; or autocast to bfloat16, which needs no scaler."
    )

    num_steps: int = parameter(5, "Saved steps with a gradient of zero.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.anatomy.autocast != "float16" or vitals.anatomy.grad_scaler is not None:
            return
        saved = {name: vitals.figure(name, "l2") for name in vitals.tensors("l2", gradients=True)}
        for name, norm in saved.items():
            parameter_name = name.removeprefix("gradient/")
            zeros = int(np.count_nonzero(norm.values == 0))
            if zeros >= max(self.num_steps, len(norm) / 2) and (
                parameter_name not in vitals.anatomy.tables
            ):
                yield Sign(
                    int(norm.steps[0]),
                    f"The gradient of {parameter_name} is exactly zero at {zeros} of {len(norm)} "
                    f"steps: in float16 what is below {_SMALLEST_FLOAT16:.0e} is zero.",
                    tensor=parameter_name,
                    value=0.0,
                    threshold=_SMALLEST_FLOAT16,
                )
                return


@dataclass
class Float16Overflow(VitalsRule):
    """Numbers become too large for float16.

    Fires when autocast uses float16 without a GradScaler, which would leave such updates out, and a
    gradient or the loss becomes infinite or NaN after it was finite, while updates were below
    `ratio` of the weights' norm.
    """

    kind = Kind.CAUSE
    rests_on = ("gradient_norm", "update_ratio", "gradients:l2")
    advice = (
        "Autocast to bfloat16, which has the range of float32; or keep the layer that overflows in "
        "float32 (torch.autocast(..., enabled=False)), and use a GradScaler, which leaves out "
        "updates that are not finite. The largest float16 is 65504."
    )

    ratio: float = parameter(0.1, "Norm of an update, relative to the weights' norm.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if vitals.anatomy.autocast != "float16" or vitals.anatomy.grad_scaler is not None:
            return
        norm = vitals.vital("gradient_norm")
        bad = np.flatnonzero(~np.isfinite(norm.values))
        step = min(vitals.ends_at, float(norm.steps[bad[0]]) if len(bad) else math.inf)
        update = vitals.vital("update_ratio")
        before = update.where(update.steps < step).values
        if math.isfinite(step) and not np.any(before > self.ratio):
            largest = float(norm.where(norm.steps < step).values.max(initial=0.0))
            yield Sign(
                int(step),
                f"In float16 the loss or its gradients are no longer finite at step {step:.0f}; "
                f"before, the gradient norm was at most {largest:.3g}, and updates were small.",
                value=largest,
                threshold=self.ratio,
            )


@dataclass
class SampleCutsGraph(VitalsRule):
    """A sample is drawn where gradients cannot pass, and they have no other path.

    Fires when sample() was called at least `num_samples` times on distributions whose parameters
    the model computes, and log_prob, which a policy would use, hardly ever.
    """

    kind = Kind.MISTAKE
    advice = (
        "Use rsample() instead of sample(), or mu + sigma * torch.randn_like(sigma): then "
        "gradients reach the layers that compute mu and sigma."
    )

    num_samples: int = parameter(20, "Calls of sample().", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        cut, scored = vitals.anatomy.num_cut_samples, vitals.anatomy.num_scored_samples
        if cut >= self.num_samples and scored < _SCORED * cut and vitals.num_updates:
            yield Sign(
                0,
                f"sample() was called {cut} times on distributions that the model computes: no "
                "gradient passes through the samples to the distributions' parameters.",
                value=float(cut),
                threshold=self.num_samples,
            )


@dataclass
class PolicyGradientReversed(VitalsRule):
    """A policy gradient makes good actions less likely.

    Fires when in most of at least `num_backwards` backwards the gradient of the actions' log
    probabilities rises with a variable that the script calls reward, return or advantage, and the
    optimizer descends. Variables with other names, such as a cost, are not checked. Also fires when
    the script computes an advantage as value less return, or returns from the rewards before each
    step and not after it, and actions become likelier with them.
    """

    kind = Kind.MISTAKE
    advice = (
        "Negate it: loss = -(log_prob * advantage).mean(), because optimizers minimize. If lower "
        "is better, call the variable cost. Add up returns from the last reward to the first."
    )

    num_backwards: int = parameter(10, "Checked backwards before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        policy = vitals.anatomy.policy
        groups = [group for each in vitals.anatomy.optimizers for group in each.groups]
        if policy is None or any(group.get("maximize") for group in groups):
            return
        known = policy.num_encouraged + policy.num_discouraged
        if known >= self.num_backwards and policy.num_encouraged > _MOST_BACKWARDS * known:
            for remark in remarks(vitals, self):
                seen = f"Actions become likelier the higher `{policy.weight}` is."
                yield sign(remark, seen)
        if known >= self.num_backwards and policy.num_discouraged > _MOST_BACKWARDS * known:
            yield Sign(
                0,
                f"In {policy.num_discouraged} of {known} backwards a descent step makes actions "
                f"rarer the higher `{policy.weight}` is.",
                value=policy.num_discouraged / known,
                threshold=_MOST_BACKWARDS,
            )


def _learns(each: ParameterFacts) -> bool:
    return each.is_trained and each.ever_had_gradient


def _has_plain_updates(vitals: VitalSigns) -> bool:
    """One model and one optimizer, which are expected to change all along."""
    anatomy = vitals.anatomy
    return (
        len(anatomy.models) == len(anatomy.optimizers) == 1
        and anatomy.grad_scaler is None
        and not math.isfinite(vitals.ends_at)
        and not any(each.dtype in _SHORT for each in anatomy.parameters)
        and not np.any(vitals.vital("input/is_trained").values > 0)
    )


def _last_change(vitals: VitalSigns, name: str) -> int:
    """The last saved step at which a figure of the weight is another one; -1 if none is."""
    last = -1
    for figure in (vitals.figure(name, each) for each in ("l2", "min", "max")):
        changes = np.flatnonzero(np.diff(figure.values))
        if len(changes):
            last = max(last, int(figure.steps[changes[-1] + 1]))
    return last


def _ends_early(vitals: VitalSigns) -> bool:
    """Whether steps stop long before backwards do, and were regular until then."""
    (optimizer,) = vitals.anatomy.optimizers
    quiet = vitals.last_step - optimizer.last_step
    if not vitals.is_all or not optimizer.last_step or vitals.anatomy.first_step:
        return False
    if quiet < max(FAIR_STEPS, _QUIET * vitals.last_step):
        return False
    num_backwards = sum(each.count for each in vitals.anatomy.backwards if each.training)
    left = _share_without_step(vitals.anatomy) * num_backwards
    return _NEARLY * quiet <= left <= quiet / _NEARLY


def _share_without_step(anatomy: Anatomy) -> float:
    """Of the backwards in training mode: how many its steps do not account for, even if each used
    as many as any of them."""
    num_backwards = sum(each.count for each in anatomy.backwards if each.training)
    (optimizer,) = anatomy.optimizers
    most = max(map(int, optimizer.backwards_per_step or {}), default=1)
    return 1 - optimizer.num_steps * max(1, most) / max(1, num_backwards)


def _is_plain_weight(each: ParameterFacts, anatomy: Anatomy) -> bool:
    """One that each update should change. Vectors and scalars may be held at a bound."""
    return (
        each.is_trained
        and each.ever_had_gradient
        and each.tied_to is None
        and each.dtype not in _SHORT
        and len(each.shape) > 1
        and each.name not in anatomy.tables
    )


def _expected_movement(
    each: ParameterFacts, vitals: VitalSigns, fewest: int, since: int = -1
) -> float:
    """Of a weight that did not move since then, by all updates in the same direction, relative to
    its norm; 0 if it may be right that it did not."""
    optimizer = next((o for o in vitals.anatomy.optimizers if o.index == each.optimizer), None)
    if optimizer is None or each.group is None or optimizer.type == "LBFGS":
        return 0.0  # L-BFGS makes no update where its line search finds nothing
    number = f"{each.group}" if optimizer.index == 0 else f"{optimizer.index}.{each.group}"
    rate = vitals.vital(f"learning_rate/{number}").since(since)
    gradient = vitals.figure(f"gradient/{each.name}", "l2").since(since)
    weight = vitals.figure(each.name, "l2").since(since)
    if optimizer.num_steps < fewest or min(len(gradient), len(rate)) < fewest:
        return 0.0
    last = -1 if each.last_gradient_step is None else each.last_gradient_step
    used = weight.since(rate.steps[0])  # a group may be added late, or get no gradient later on
    if np.count_nonzero(used.steps <= last) < fewest:
        return 0.0
    is_finite = bool(np.all(np.isfinite(gradient.values)))
    if not is_finite or gradient.values.min() <= 0 or rate.values.min() <= 0:
        return 0.0
    # Of all gradients together, as they are after clipping.
    norm = float(np.fmin(gradient.median, vitals.vital("gradient_norm").median))
    update = _update_norm(norm, rate.median, each.numel, optimizer.groups[each.group])
    part = weight.span / max(1, vitals.last_step)
    return update * optimizer.num_steps * min(1.0, part) / max(float(weight.values[0]), EPSILON)


def _update_norm(gradient: float, rate: float, numel: int, group: Mapping[str, Any]) -> float:
    """Of one step: an optimizer that divides by the size of the gradient, as Adam does, moves each
    element by about the rate, unless `eps` is larger than the gradient."""
    eps, size = group.get("eps"), math.sqrt(numel)
    if eps is None and "betas" not in group:
        return rate * gradient
    if not isinstance(eps, int | float) or "betas" not in group:
        return 0.0  # others, as Adafactor and RMSprop, are not reckoned with
    return rate * size if gradient > _ABOVE_EPS * eps * size else 0.0
