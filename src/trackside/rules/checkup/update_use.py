"""Rules about gradients and updates that come to nothing: cleared, kept small, or rounded away."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trackside.capture.reading.anatomy import Anatomy, ParameterFacts
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import EPSILON, FAIR_STEPS, VitalSigns

_SHORT = ("float16", "bfloat16")

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


@dataclass
class AccumulationCleared(VitalsRule):
    """Gradients of several batches are computed for one update, but only the last are used.

    Fires when in most of at least `num_updates` updates of the only optimizer, gradients were
    cleared between its backwards at least `cleared` times. Adversarial examples, for which inputs
    get gradients, do the same on purpose and are not reported.
    """

    kind = Kind.MISTAKE
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
class WarmUpNeverEnds(VitalsRule):
    """The learning rate is still warming up when training ends.

    Fires when at the end of at least 100 steps a scheduler has raised the rate from step to step,
    and the rate has reached less than `share` of the optimizer's initial rate, or of OneCycleLR's
    max_lr.
    """

    kind = Kind.MISTAKE
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
    `moved` of them.
    """

    kind = Kind.CAUSE
    advice = (
        "Keep the weights in float32 and compute in 16 bits with torch.autocast, and a GradScaler "
        "for float16: model.half() is for inference. Adam's eps of 1e-8 is 0 in float16."
    )

    moved: float = parameter(
        1e-4, "Total change of the weights, relative to their norm.", at_least=0
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        short = [p for p in vitals.anatomy.parameters if p.is_trained and p.dtype in _SHORT]
        if not short:
            return
        is_lost = math.isfinite(vitals.ends_at) and any(p.dtype == "float16" for p in short)
        if is_lost or (vitals.is_stuck and vitals.moved < self.moved):
            what = "the loss is no longer finite" if is_lost else "updates are rounded away"
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
    are the same at all of at least `num_saved` saved steps, while its optimizer has made as many
    updates, its rate was above 0 and its gradients were not zero. By rate and gradients, the weight
    should have moved by at least `moved` of its norm: less may be lost by rounding. Not reported:
    frozen weights, lookup tables, trainings with a GradScaler, which leaves updates out, and
    optimizers other than those like SGD and like Adam.
    """

    kind = Kind.CAUSE
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
            if _is_plain_weight(each, vitals.anatomy) and self._is_unchanged(each.name, vitals):
                moved = _expected_movement(each, vitals, self.num_saved)
                if moved >= self.moved:
                    yield Sign(
                        int(vitals.figure(each.name, "l2").steps[0]),
                        f"{each.name} has gradients and a learning rate above 0, and is the same "
                        f"at all {len(vitals.figure(each.name, 'l2'))} saved steps. The updates "
                        f"should have moved it by up to {moved:.2g} of its norm.",
                        tensor=each.name,
                        value=0.0,
                        threshold=self.moved,
                    )

    def _is_unchanged(self, name: str, vitals: VitalSigns) -> bool:
        saved = vitals.figure(name, "l2")
        return len(saved) >= self.num_saved and vitals.is_weight_unchanged(name)


@dataclass
class UpdatesStop(VitalsRule):
    """The weights change at first and then no more, while training goes on.

    Fires after at least 100 steps when for `share` of them, and at `num_saved` saved steps or more,
    no weight of the only optimizer has changed, and as large a share of the backwards in training
    mode had no step of the optimizer. Gradients that are accumulated count for their step. Not
    reported: gradients for an input, weights in 16 bits and trainings with a GradScaler.
    """

    kind = Kind.CAUSE
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
class GradientUnderflow(VitalsRule):
    """Gradients are computed in float16 without loss scaling and become zero.

    Fires when autocast uses float16, there is no GradScaler, and a weight's gradient was exactly
    zero at `num_steps` saved steps or more, at least half of all, although it was not zero at other
    steps or other weights have a gradient.
    """

    kind = Kind.CAUSE
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
    optimizer descends. Variables with other names, such as a cost, are not checked.
    """

    kind = Kind.MISTAKE
    advice = (
        "Negate it: loss = -(log_prob * advantage).mean(), because optimizers minimize. If lower "
        "is better, call the variable cost."
    )

    num_backwards: int = parameter(10, "Checked backwards before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        policy = vitals.anatomy.policy
        groups = [group for each in vitals.anatomy.optimizers for group in each.groups]
        if policy is None or any(group.get("maximize") for group in groups):
            return
        known = policy.num_encouraged + policy.num_discouraged
        if known >= self.num_backwards and policy.num_discouraged > _MOST_BACKWARDS * known:
            yield Sign(
                0,
                f"In {policy.num_discouraged} of {known} backwards a descent step makes actions "
                f"rarer the higher `{policy.weight}` is.",
                value=policy.num_discouraged / known,
                threshold=_MOST_BACKWARDS,
            )


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


def _expected_movement(each: ParameterFacts, vitals: VitalSigns, fewest: int) -> float:
    """Of a weight that did not move, by all updates in the same direction, relative to its norm; 0
    if it may be right that it did not."""
    optimizer = next((o for o in vitals.anatomy.optimizers if o.index == each.optimizer), None)
    if optimizer is None or each.group is None or optimizer.type == "LBFGS":
        return 0.0  # L-BFGS makes no update where its line search finds nothing
    number = f"{each.group}" if optimizer.index == 0 else f"{optimizer.index}.{each.group}"
    rate = vitals.vital(f"learning_rate/{number}")
    gradient = vitals.figure(f"gradient/{each.name}", "l2")
    weight = vitals.figure(each.name, "l2")
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
    return update * optimizer.num_steps / max(float(weight.values[0]), EPSILON)


def _update_norm(gradient: float, rate: float, numel: int, group: Mapping[str, Any]) -> float:
    """Of one step: an optimizer that divides by the size of the gradient, as Adam does, moves each
    element by about the rate, unless `eps` is larger than the gradient."""
    eps, size = group.get("eps"), math.sqrt(numel)
    if eps is None and "betas" not in group:
        return rate * gradient
    if not isinstance(eps, int | float) or "betas" not in group:
        return 0.0  # others, as Adafactor and RMSprop, are not reckoned with
    return rate * size if gradient > _ABOVE_EPS * eps * size else 0.0
