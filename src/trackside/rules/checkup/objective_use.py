"""Rules about what is minimised: what gradients flow into that should be fixed, which way a term
goes, and what is compared with itself.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trackside.capture.reading.anatomy import ObjectiveFacts, OptimizerFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.reading_results import remarks, sign
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, FEW_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, Series, VitalSigns

_MOST = 0.5
"""Share of the ends: a few may be cut off by a limit of time, after which there is a next state."""
_OF_AMOUNTS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div")
_LATE = 3
"""Losses of each kind that must agree: rivals take turns in being ahead."""
_ROUNDED = 1e-6
"""A loss of two equal tensors, but for rounding."""


@dataclass
class AdvantageTrained(VitalsRule):
    """The policy's loss trains the critic, through advantages that are not detached.

    Fires when over at least `num_backwards` backwards log probabilities of actions were multiplied
    by something that gradients flow into as well. A factor of one number, as the temperature of an
    entropy, is left out, and so are the probabilities themselves.
    """

    kind = Kind.MISTAKE
    is_independent = True
    leaves_training_loss = True
    advice = (
        "Detach them: advantage = returns - value.detach(). The critic learns from its own loss; "
        "the policy's would teach it to make advantages large."
    )

    num_backwards: int = parameter(FEW_BATCHES, "Backwards before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        count = _objective(vitals).num_weights_trained
        if count >= self.num_backwards:
            yield Sign(
                0,
                f"Log probabilities of actions are multiplied by something that is trained with "
                f"them, in {count} of the first backwards.",
                value=float(count),
                threshold=float(self.num_backwards),
            )


@dataclass
class TeacherTrained(VitalsRule):
    """The target of a divergence is trained towards the prediction.

    Fires when the target of kl_div is computed with gradients by a model that has no other loss,
    and that changes: a teacher that follows its student.
    """

    kind = Kind.MISTAKE
    is_independent = True
    leaves_training_loss = True
    advice = (
        "Compute the target within torch.no_grad(), or detach it, and leave the teacher's "
        "parameters out of the optimizer."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        name = _objective(vitals).target_trained
        if name:
            yield Sign(
                0,
                f"Gradients of kl_div flow into the model that computes its target, and {name} "
                "changes: the target moves towards the prediction.",
                tensor=name,
            )


@dataclass
class DeviationNotTaken(VitalsRule):
    """Noise is scaled by a log-variance or by a variance, where a standard deviation is meant.

    Fires when noise is multiplied by a tensor and added to a mean, and the same loss adds the
    exponential of that tensor to the square of that mean, as a divergence from a normal
    distribution does: so it is the logarithm of a variance; or when that exponential itself
    multiplies the noise.
    """

    kind = Kind.MISTAKE
    is_independent = True
    leaves_training_loss = True
    advice = "Write mean + noise * torch.exp(0.5 * logvar)."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        what = _objective(vitals).raw_spread
        if what:
            known = {"logarithm": "the logarithm of a variance", "variance": "a variance"}
            yield Sign(
                0, f"Noise is multiplied by {known.get(what, what)}, not by a standard deviation."
            )


@dataclass
class DivergenceRaised(VitalsRule):
    """The divergence of a latent distribution from its prior is made larger.

    Fires when a loss contains the sum of a log-variance, its exponential and the square of a mean,
    and in each of at least `num_backwards` backwards its gradient with respect to the variance is
    negative: the sign of the divergence is wrong, and the loss has no lower bound.
    """

    kind = Kind.MISTAKE
    advice = "Write -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(), and add it to the loss."

    num_backwards: int = parameter(FEW_BATCHES, "Backwards before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        facts = _objective(vitals)
        count = facts.num_divergences_raised
        if count >= self.num_backwards and not facts.num_divergences_lowered:
            yield Sign(
                0,
                f"The first {count} backwards make the divergence from the prior larger.",
                value=float(count),
                threshold=float(self.num_backwards),
            )


@dataclass
class EntropyLowered(VitalsRule):
    """A policy's entropy is lowered where a bonus should raise it.

    Fires when in each of at least `num_backwards` backwards of a policy the gradient of the loss
    with respect to the distribution's entropy is positive. The entropy is that of a distribution of
    torch's, or sum(p * log p) beside log probabilities of the same scores that are weighed, where
    the script has a variable for a reward, a return or an advantage.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = "Subtract the entropy from the loss: loss = policy_loss - 0.01 * entropy."

    num_backwards: int = parameter(ENOUGH_BATCHES, "Backwards before the rule may fire.")

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        facts = _objective(vitals)
        if facts.num_entropies_lowered >= self.num_backwards and not facts.num_entropies_raised:
            yield Sign(
                0,
                f"The loss grows with the policy's entropy, in {facts.num_entropies_lowered} of "
                "the first backwards: exploration is punished.",
                value=float(facts.num_entropies_lowered),
                threshold=float(self.num_backwards),
            )


@dataclass
class RatioAlwaysOne(VitalsRule):
    """The ratio of new to old probabilities is 1 also after the policy has changed.

    Fires when over at least `num_backwards` backwards on advantages that the backward before used
    already, all ratios were exactly 1: the old log probabilities are computed anew each time, so
    that nothing is clipped.
    """

    kind = Kind.MISTAKE
    is_independent = True
    leaves_training_loss = True
    advice = (
        "Compute the old log probabilities once, when the actions are drawn, without gradients, "
        "and keep them for all epochs on these actions."
    )

    num_backwards: int = parameter(ENOUGH_BATCHES, "Backwards before the rule may fire.")

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        facts = _objective(vitals)
        if facts.num_repeated >= self.num_backwards and (
            facts.num_repeated == facts.num_repeated_alike
        ):
            yield Sign(
                0,
                f"In {facts.num_repeated} backwards on actions that were trained on before, the "
                "ratio of new to old probabilities was 1 for all of them.",
                value=1.0,
                threshold=1.0,
            )


@dataclass
class EpisodeEndIgnored(VitalsRule):
    """Targets of temporal differences contain the value of a state after the end of an episode.

    Fires when at least `num_ends` targets are of samples that end an episode, by the script's names
    for rewards and ends, and more than half of them differ from an earlier one with the same
    reward: without a next state, the reward alone is the target. Also fires after `num_ends`
    optimizer steps when the script reads the flag of an end beside the reward, and never uses it.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = "Write reward + gamma * (1 - done) * next_value."

    num_ends: int = parameter(ENOUGH_BATCHES, "Such targets before the rule may fire.")

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        facts = _objective(vitals)
        if vitals.num_updates >= self.num_ends:
            for remark in remarks(vitals, self):
                yield sign(remark, f"There were {vitals.num_updates} updates.")
        if facts.num_ends >= self.num_ends and facts.num_ends_changed > _MOST * facts.num_ends:
            yield Sign(
                0,
                f"Of {facts.num_ends} targets at the end of an episode {facts.num_ends_changed} "
                "changed while their reward did not: they contain the value of a next state.",
                value=float(facts.num_ends_changed),
                threshold=_MOST * facts.num_ends,
            )


@dataclass
class TargetIsOwnOutput(VitalsRule):
    """The target of the loss is the prediction itself.

    Fires when in each of at least `num_batches` batches, from the first, the only loss of its step
    is zero but for rounding, though predictions differ between samples.
    """

    kind = Kind.MISTAKE
    rests_on = ("loss_value", "loss_input/sample_std")
    advice = (
        "Compare the prediction with something else: the teacher's output, the data, a target "
        "network. The same model gives the same output, detached or not."
    )

    num_batches: int = parameter(5, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        # A model that is called again without gradients makes the rest of its step an evaluation.
        trains = len(vitals.vital("loss_value")) > 0
        value = vitals.vital("loss_value", training=trains)
        spread = vitals.vital("loss_input/sample_std", training=trains)
        terms = vitals.series_by_name("loss_term/")
        losses = [each for each in vitals.anatomy.losses if each.function in _OF_AMOUNTS]
        is_alone = len(losses) == 1 and all(name.startswith("0.") for name in terms)
        if not is_alone or vitals.is_of_policy or len(value) < self.num_batches or not len(spread):
            return
        if np.abs(value.values).max() < _ROUNDED and spread.values.min() > _ROUNDED:
            loss = losses[0]
            yield Sign(
                int(value.steps[0]),
                f"{loss.name} is {value.values[0]:.1g} from the first of {len(value)} batches on: "
                "prediction and target are the same.",
                tensor=f"{loss.name}_input_1",
                value=float(np.abs(value.values).max()),
                threshold=_ROUNDED,
            )


@dataclass
class PairedWithItself(VitalsRule):
    """In a contrastive loss each sample is compared with itself.

    Fires when a loss over classes gets as many scores as samples, the likenesses of the samples
    with one another (each score equals its mirror), in each of at least `num_batches` batches, and

    - the right answer of each sample is that sample: the labels are wrong, or the two views equal;
    - or it is another one, and the sample itself, which is always the most alike, is not left out.
    """

    kind = Kind.MISTAKE
    is_independent = True
    leaves_training_loss = True
    rests_on = ("likeness/is_mirrored", "likeness/on_diagonal", "likeness/is_own_highest")
    advice = (
        "With both views in one batch of 2N, row i belongs to (i + N) % 2N, and the diagonal is "
        "set to -inf. With two batches of N, augment each sample twice, independently."
    )

    num_batches: int = parameter(ENOUGH_BATCHES, "Batches before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        mirrored = vitals.vital("likeness/is_mirrored")
        if len(mirrored) < self.num_batches or mirrored.values.min() != 1:
            return
        own = vitals.vital("likeness/on_diagonal").values
        highest = vitals.vital("likeness/is_own_highest").values
        if own.min() == 1:
            what = "and the right answer of each is the sample itself"
        elif own.max() == 0 and highest.min() == 1:
            what = "and each sample's likeness to itself is among the wrong answers"
        else:
            return
        yield Sign(
            int(mirrored.steps[0]),
            f"Scores are the likenesses of a batch's samples with one another, {what}.",
            tensor=f"{vitals.anatomy.losses[0].name}_input_0" if vitals.anatomy.losses else "",
        )


@dataclass
class GeneratorLabelsSwapped(VitalsRule):
    """A generator is trained to be recognised.

    Fires when, with two models and two optimizers, the binary losses of a round, in which both are
    updated, sum to less than log 2 late in at least 100 steps, each of them at its largest. Of one
    sample, being called real and being called fake cost 2 log 2 together at least: so both give it
    the same label.
    """

    kind = Kind.MISTAKE
    rests_on = ("loss_term/*",)
    leaves_training_loss = True
    advice = (
        "The generator's loss gives its samples the label of real ones, the discriminator's loss "
        "that of fakes."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        is_pair = len(anatomy.models) == 2 == len(anatomy.optimizers)
        terms = vitals.series_by_name("loss_term/")
        if not vitals.is_settled or vitals.last_step < FAIR_STEPS or not is_pair:
            return
        if not all(name.partition(".")[2].startswith("binary_cross_entropy") for name in terms):
            return
        parts = _parts_of_round(terms, _steps_of_round(anatomy.optimizers))
        if not all(parts) or (len(parts) == 1 and len(terms) < 2):
            return
        total = _last_sum(parts)
        if total < np.log(2):
            yield Sign(
                0,
                f"The losses of generator and discriminator sum to {total:.2g} at the end: they "
                "agree, where they should be opposed.",
                value=float(total),
                threshold=float(np.log(2)),
            )


def _steps_of_round(optimizers: Sequence[OptimizerFacts]) -> int:
    """Steps of training in which each optimizer makes an update: a model's call may begin one, and
    so each backward has its own."""
    first = min(optimizers, key=lambda each: each.num_steps)
    return max(1, round((first.last_step + 1) / max(1, first.num_steps)))


def _parts_of_round(terms: Mapping[str, Series], length: int) -> list[dict[int, float]]:
    """The sum of the losses of each step, by the step's place in its round."""
    found: list[dict[int, float]] = [{} for _ in range(length)]
    for series in terms.values():
        for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
            part = found[step % length]
            part[step] = part.get(step, 0.0) + value
    return found


def _last_sum(parts: Sequence[Mapping[int, float]]) -> float:
    """Of the largest late losses of each part. Steps are sampled: where the interval is a multiple
    of the round, some parts are last seen early, and only what was seen before that is compared."""
    until = min(max(each) for each in parts)
    if until < FAIR_STEPS:
        return np.inf
    total = 0.0
    for each in parts:
        steps = sorted(step for step in each if step <= until + len(parts))
        total += max(each[step] for step in steps[-_LATE:])
    return total


def _objective(vitals: VitalSigns) -> ObjectiveFacts:
    return vitals.anatomy.objective or ObjectiveFacts()
