"""Rules about sequences: what a model sees of what it is to predict, and which axis is time."""

import math
from collections.abc import Iterable, Iterator

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, VitalSigns

_ALL = 0.999
"""Share of places that is all of them, but for rounding."""
_USUAL_ERRORS = 0.1
"""A model that is wrong more often elsewhere does not read its targets."""
_MORE_ERRORS, _NOISE = 0.03, 5.0
"""By how much errors at the last place exceed the others: in all, and in standard errors."""
_FEWEST_VALUES = 3
"""Different targets: a feature may well agree with yes or no."""
_FEWEST_MASKS = 5
"""Batches whose masks are compared."""
_HARDLY_ANY, _NEARLY_ALL = 0.05, 0.95
"""Shares of padding and of other tokens that an inverted mask leaves out; a mask for another
purpose leaves out about as much of both."""
_RECURRENT = ("RNN", "GRU", "LSTM")


@dataclass
class FutureVisible(VitalsRule):
    """A sequence model sees the tokens that it has to predict.

    Fires when targets are the input tokens shifted by one position, and all attention is without a
    mask, or a recurrent layer is bidirectional. Also fires when in the last half of training the
    model is right nearly everywhere except at the last position, whose target is not among its
    inputs: there it is wrong `times` as often, over at least `num_samples` samples. A model that
    only looks back is best there.
    """

    kind = Kind.MISTAKE
    rests_on = ("tokens/last_accuracy", "tokens/other_accuracy", "tokens/shifted_share")
    explains = ("Overfitting",)
    leaves_training_loss = True
    advice = (
        "Give self-attention a causal mask (nn.Transformer.generate_square_subsequent_mask, "
        "is_causal=True), and use no layer that looks ahead: no bidirectional RNN, no convolution "
        "padded on both sides."
    )

    times: float = parameter(
        4.0, "Error rate at the last position, relative to the others.", at_least=1
    )
    num_samples: int = parameter(50, "Checked last positions before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        shifted = vitals.vital("tokens/shifted_share")
        half = vitals.last_step / 2
        last = vitals.vital("tokens/last_accuracy").since(half)
        other = vitals.vital("tokens/other_accuracy").since(half)
        if len(shifted) < ENOUGH_BATCHES or shifted.median < _ALL:
            return
        if ahead := _looking_ahead(vitals):
            yield Sign(
                int(shifted.steps[0]),
                f"{ahead} sees the whole sequence at once, and the targets are its next tokens: "
                "the model reads what it has to predict.",
                tensor=ahead,
            )
            return
        if vitals.last_step < FAIR_STEPS or not len(last):
            return
        count = vitals.vital("batch_size").median * len(last)
        wrong, usual = 1 - float(last.values.mean()), 1 - float(other.values.mean())
        noise = math.sqrt(max(usual, 1 / count) / count)  # if the last were as any other
        if count < self.num_samples or usual > _USUAL_ERRORS:
            return
        if wrong > self.times * usual and wrong - usual > max(_MORE_ERRORS, _NOISE * noise):
            yield Sign(
                0,
                f"The model predicts the next token correctly at {1 - usual:.1%} of all positions, "
                f"and at {1 - wrong:.1%} of the last positions, where the next token is not among "
                "its inputs: elsewhere it reads what it has to predict.",
                value=wrong / max(usual, 1 / count),
                threshold=self.times,
            )


@dataclass
class TargetIsInput(VitalsRule):
    """A model has to predict its own input.

    Fires when over at least `num_batches` batches the targets of a loss over classes equal the
    input tokens position by position, and the loss falls below `share` of chance, because copying
    is learnt quickly. Also fires when one of several input values is the target itself, in every
    sample. Targets that the model receives to compute the loss are not input.
    """

    kind = Kind.MISTAKE
    rests_on = ("tokens/same_share", "input/holds_target")
    leaves_training_loss = True
    advice = (
        "Shift the targets by one: inputs tokens[:, :-1], targets tokens[:, 1:]. (Models of the "
        "transformers library do this themselves when they get labels.) End the windows of a time "
        "series before the value to predict, and remove the target's column from a table."
    )

    num_batches: int = parameter(10, "Batches before the rule may fire.", at_least=1)
    share: float = parameter(0.1, "Share of the loss of chance.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        yield from self._leaks(vitals)
        same = vitals.vital("tokens/same_share")
        chance = vitals.chance
        if len(same) < self.num_batches or same.values.min() < 1 or chance is None:
            return
        if vitals.is_settled and vitals.late_loss < self.share * chance:
            yield Sign(
                int(same.steps[0]),
                f"In all {len(same)} batches the targets are the model's own input, token by "
                f"token; the loss is {vitals.late_loss:.3g}, as after copying.",
                value=1.0,
                threshold=1.0,
            )

    def _leaks(self, vitals: VitalSigns) -> Iterator[Sign]:
        held = vitals.vital("input/holds_target")
        kinds = vitals.vital("target/num_values"), vitals.vital("labels/num_classes_seen")
        num_values = max((each.median for each in kinds if len(each)), default=0.0)
        if len(held) < self.num_batches or held.values.min() < 1 or num_values < _FEWEST_VALUES:
            return
        yield Sign(
            int(held.steps[0]),
            f"In all {len(held)} batches one of the input values is the target, in every sample.",
            value=1.0,
            threshold=1.0,
        )


@dataclass
class StateOfOtherSamples(VitalsRule):
    """A recurrent layer starts with the state of other, unrelated samples.

    Fires when a layer gets the state that it returned in the previous call, without gradients, and
    batches come from a loader that shuffles. Consecutive pieces of one text are accepted.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    advice = (
        "Start each batch without a state (lstm(x), or zeros), or keep the data in order "
        "(shuffle=False) if the state should be carried over."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        shuffled = [each for each in vitals.anatomy.loaders if each.sampler == "RandomSampler"]
        carrying = [module for module in vitals.anatomy.modules if module.carries_state]
        if shuffled and carrying and len(vitals.anatomy.models) == 1:
            yield Sign(
                0,
                f"{carrying[0].name} ({carrying[0].type}) starts with the state of the previous "
                "batch, and the loader draws its samples at random.",
                tensor=carrying[0].name,
            )


@dataclass
class BatchTakenForTime(VitalsRule):
    """A recurrent or attention layer uses the batch axis as the time axis.

    Fires when such a layer without batch_first gets [batch, time, features], and the loss has one
    target per sample of the batch; or when it gets [batch, features] and nothing is learnt.
    """

    kind = Kind.MISTAKE
    advice = (
        "Create the layer with batch_first=True, or pass [time, batch, features] (x.transpose(0, "
        "1)). A single step needs its own time axis."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loss = next(iter(vitals.anatomy.losses), None)
        if loss is None or len(loss.shapes) != 2 or len(vitals.anatomy.models) != 1:
            return
        target = loss.shapes[1]
        if not target or math.prod(target[1:]) not in (1, loss.shapes[0][-1]) or len(target) > 2:
            return
        for module in vitals.anatomy.modules:
            given = module.given
            if not given or given[0] != target[0] or target[0] < 2:
                continue
            if len(given) == 2:
                is_wrong = vitals.is_stuck  # or one long sequence, with a target at each place
            else:
                is_wrong = not module.batch_first and given[1] not in (1, target[0])
            if is_wrong:
                yield Sign(
                    0,
                    f"{module.name} ({module.type}) was given {list(given)} and treats the first "
                    f"axis as time, and the loss has {target[0]} targets: that axis is the batch.",
                    tensor=module.name,
                )
                return


@dataclass
class PaddingInLoss(VitalsRule):
    """Padding counts in the loss like a token to predict.

    Fires when the most frequent target of a loss over tokens, at least `share` of all targets, is
    the padding_idx of an embedding of as many tokens, and the loss has another ignore_index.
    """

    kind = Kind.MISTAKE
    rests_on = ("labels/largest_share", "labels/most_common")
    explains = ("OneClassPredicted",)
    advice = (
        "Exclude padding: CrossEntropyLoss(ignore_index=...) with the index of the padding token."
    )

    share: float = parameter(0.3, "Share of all targets.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loss = next((each for each in vitals.anatomy.losses if each.num_classes), None)
        paddings = _paddings(vitals, None if loss is None else loss.num_classes)
        common = vitals.vital("labels/most_common")
        share = vitals.vital("labels/largest_share").median
        if not paddings or loss is None or len(common) < ENOUGH_BATCHES or share < self.share:
            return
        padding = int(common.median)
        if padding in paddings and padding != loss.ignored:
            yield Sign(
                int(common.steps[0]),
                f"{share:.0%} of the targets of {loss.name} are {padding}, the padding of an "
                f"embedding, and ignore_index is {loss.ignored}.",
                tensor=f"{loss.name}_input_0",
                value=share,
                threshold=self.share,
            )


@dataclass
class PaddingReadLast(VitalsRule):
    """A recurrent model reads through the padding and has forgotten the text at the end.

    Fires when all sequences end with one token, for at least `share` of their length, a
    unidirectional RNN gets all of it, there is one target per sequence, and nothing is learnt.
    """

    kind = Kind.CAUSE
    rests_on = ("tokens/end_share", "tokens/last")
    advice = (
        "Pack the sequences (nn.utils.rnn.pack_padded_sequence with enforce_sorted=False) and use "
        "h_n, take the output at the last token of each sequence, or pad on the left."
    )

    share: float = parameter(
        0.3, "Share of a sequence that is padding, on average.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        end, last = vitals.vital("tokens/end_share"), vitals.vital("tokens/last")
        loss = next(iter(vitals.anatomy.losses), None)
        if loss is None or len(end) < ENOUGH_BATCHES:
            return
        if not end.median > self.share or not vitals.is_stuck:
            return
        layers = [module for module in vitals.anatomy.modules if module.given]
        readers = [each for each in layers if each.type in _RECURRENT and not each.looks_ahead]
        if len(loss.shapes) != 2 or len(loss.shapes[1]) > 2 or len(readers) < len(layers):
            return
        target, count = loss.shapes[1], loss.shapes[0][0]
        if readers and target[0] == count and count in readers[0].given[:2]:
            yield Sign(
                int(end.steps[0]),
                f"{end.median:.0%} of each sequence, at its end, is token {last.median:.0f}, and "
                f"{readers[0].name} ({readers[0].type}) reads all of it.",
                tensor=readers[0].name,
                value=end.median,
                threshold=self.share,
            )


@dataclass
class PaddingMaskInverted(VitalsRule):
    """Attention ignores the text and reads the padding.

    Fires when key_padding_mask is True for nearly all tokens except the one at the end of
    sequences, and for hardly any of those.
    """

    kind = Kind.MISTAKE
    rests_on = ("tokens/end_masked", "tokens/other_masked")
    advice = (
        "key_padding_mask is True where there is padding: tokens == padding, not !=. (The "
        "attention_mask of Hugging Face's tokenizers is the opposite.)"
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        end, other = vitals.vital("tokens/end_masked"), vitals.vital("tokens/other_masked")
        if len(end) < _FEWEST_MASKS:
            return
        if end.median < _HARDLY_ANY and other.median > _NEARLY_ALL:
            yield Sign(
                int(end.steps[0]),
                f"key_padding_mask leaves out {other.median:.0%} of the tokens, and "
                f"{end.median:.0%} of those that sequences end with.",
                value=other.median,
                threshold=_NEARLY_ALL,
            )


def _looking_ahead(vitals: VitalSigns) -> str:
    """The first layer that does, of a model with one input of tokens; "" where one is masked, or
    the tokens are two, of which one may well be seen whole."""
    layers = [module for module in vitals.anatomy.modules if module.given]
    attention = [module for module in layers if "Attention" in module.type]
    if vitals.vital("tokens/num_inputs").median != 1 or len(vitals.anatomy.models) != 1:
        return ""
    if attention and not all(module.looks_ahead for module in attention):
        return ""
    return next((module.name for module in layers if module.looks_ahead), "")


def _paddings(vitals: VitalSigns, num_tokens: int | None) -> set[int]:
    """Of embeddings of that many tokens."""
    anatomy = vitals.anatomy
    sizes = {p.name: p.shape[0] for p in anatomy.parameters if p.shape}
    return {
        module.padding
        for module in anatomy.modules
        if module.padding is not None
        and any(sizes.get(f"{m}_{module.name}.weight") == num_tokens for m in anatomy.models)
    }
