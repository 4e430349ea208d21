"""Rules about the fine-tuning of language models: what is trained on, by the first batches, and
which weights are trained, at which rate."""

import re
from collections.abc import Iterable, Iterator

from trackside.capture.reading.anatomy import Anatomy, OptimizerFacts, ParameterFacts, TextFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.reading_results import remarks, sign
from trackside.rules.checkup.vitals_rule import ENOUGH_BATCHES, SMALL_BATCH, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns

_ENOUGH_ROWS = SMALL_BATCH
"""Texts that have the same defect before it is one of the data, and not of a text."""
_TWO_BATCHES = 2
"""One batch alone may be odd."""
_TWO_STEPS = 2
"""Updates after which every factor of an adapter had its turn: the gradient of one is zero as
long as the other is."""
_NEARLY_ALL = 0.9
"""Of the rows: some may be cut, or come from elsewhere."""
_PARTLY = 0.95
"""Share of trained tokens below which some are left out on purpose."""
_HALF = 0.5
"""Of rows or targets: neighbouring tokens may well be equal, and a text may be alone in its row."""
_FEW_TARGETS = 20
"""Tokens before all of them agree by no chance."""
_CLOSE = 0.15
"""Relative difference: micro-batches have losses of their own."""
_FEW_LENGTHS = 3
"""Lengths of answers: two may be all that a task has, as yes and no."""
_FACTOR = re.compile(
    r"(?<![a-z])(lora_?(a|b|down|up|left|right)(?![a-z])|lora\.(\w+\.)?(a|b|down|up)(?![a-z]))",
    re.IGNORECASE,
)
"""The name of an adapter's factor, from where it begins in that of a parameter."""
_ADAM = ("Adam", "AdamW", "AdamW8bit", "Adafactor", "NAdam", "RAdam", "Lion")


@dataclass
class NothingSupervised(VitalsRule):
    """No token of a text is a target.

    Fires when all targets of the first batches of a language model are the ignored one, as for a
    chat template without {% generation %}, or a mark of the answer that is never found.
    """

    kind = Kind.MISTAKE
    rests_on = ("texts",)
    explains = ("LossNotFinite",)
    advice = (
        "Print the labels of one batch. Mark the assistant's part in the template by "
        "{% generation %} … {% endgeneration %}, or correct the text that the collator looks for."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text = vitals.anatomy.text
        if text is not None and text.num_batches >= _TWO_BATCHES and not text.num_trained:
            yield _sign(f"None of {text.num_tokens} tokens in {text.num_rows} rows is a target.")


@dataclass
class TargetsShiftedWrongly(VitalsRule):
    """A language model is trained to predict another token than the next.

    Fires when all targets of the first batches are the token at their own position (not shifted),
    or the one after the next (shifted twice), and not the next one. For models that are not of
    transformers only the latter is judged, and TargetIsInput judges the former.
    """

    kind = Kind.MISTAKE
    rests_on = ("texts", "tokens/second_share", "tokens/shifted_share")
    leaves_training_loss = True
    advice = (
        "Models of transformers shift the labels themselves: give them labels equal to the tokens. "
        "With a loss of your own, compare logits[:, :-1] with tokens[:, 1:]."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text = vitals.anatomy.text
        if text is None:
            yield from self._by_figures(vitals)
            return
        if text.num_compared_1 < _FEW_TARGETS:
            return
        if text.num_shifted_1 > _HALF * text.num_compared_1:
            return
        if text.num_shifted_0 == text.num_compared_0:
            yield _sign(f"All {text.num_shifted_0} targets are the model's own input: not shifted.")
        elif text.num_shifted_2 == text.num_compared_2 > 0:
            yield _sign(
                f"All {text.num_shifted_2} targets are the token after the next: the labels were "
                "shifted twice, by the data and by the model."
            )

    def _by_figures(self, vitals: VitalSigns) -> Iterator[Sign]:
        second, next_one = vitals.vital("tokens/second_share"), vitals.vital("tokens/shifted_share")
        if len(second) < ENOUGH_BATCHES or second.values.min() < 1:
            return
        if next_one.median < _HALF and vitals.vital("tokens/num_inputs").median == 1:
            yield Sign(
                int(second.steps[0]),
                f"In all {len(second)} batches the targets are the token after the next: the "
                "labels were shifted twice, by the data and by the loss.",
                value=1.0,
                threshold=1.0,
            )


@dataclass
class TemplateMisused(VitalsRule):
    """Texts do not have the form that the model's tokenizer defines.

    Fires when texts begin with two BOS tokens, when they end with the beginning of an answer
    (add_generation_prompt), or when they have marks of another model's template, which this
    tokenizer splits into pieces.
    """

    kind = Kind.MISTAKE
    rests_on = ("texts",)
    leaves_training_loss = True
    advice = (
        "Make texts by tokenizer.apply_chat_template of this model's tokenizer, without "
        "add_generation_prompt, and tokenize its text with add_special_tokens=False."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text = vitals.anatomy.text
        if text is None or text.num_rows < _ENOUGH_ROWS:
            return
        if text.num_doubled_starts > _NEARLY_ALL * text.num_rows:
            yield _sign(f"{text.num_doubled_starts} of {text.num_rows} rows begin with two BOS.")
        elif text.num_open_turns > _NEARLY_ALL * text.num_rows:
            yield _sign(
                f"{text.num_open_turns} of {text.num_rows} rows end with the beginning of an "
                "answer, which the template adds for generation."
            )
        elif text.num_foreign >= _ENOUGH_ROWS:
            yield _sign(
                f"{text.num_foreign} rows have {text.foreign_mark}, which is neither a token of "
                "this tokenizer nor in its template."
            )


@dataclass
class PaddingAttended(VitalsRule):
    """Texts are padded on the left, and attention reads the padding.

    Fires when rows begin with padding, and the model got no attention mask, or one that does not
    leave it out. Padding on the right needs no mask: a causal model never looks there.
    """

    kind = Kind.MISTAKE
    rests_on = ("texts",)
    leaves_training_loss = True
    advice = "Pass attention_mask to the model, or pad on the right (padding_side='right')."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text = vitals.anatomy.text
        if text is not None and text.num_padded_left >= _ENOUGH_ROWS:
            yield _sign(
                f"{text.num_padded_left} of {text.num_rows} rows begin with padding, and no "
                "attention mask leaves it out."
            )


@dataclass
class EndNeverTrained(VitalsRule):
    """The model never learns to stop: no end of a text is a target.

    Fires when the texts of the first batches are trained on up to their end, and none has a trained
    end-of-text token: it is missing (of a pretrained model), or left out together with the padding,
    which is the same token. Rows that fill the whole width may go on and do not count; nor do
    answers that the model gave itself, as in RL.
    """

    kind = Kind.MISTAKE
    rests_on = ("texts",)
    leaves_training_loss = True
    advice = (
        "Append the end-of-text token to each text. If padding is the same token, mask labels by "
        "the attention mask instead of the token, or use another padding token."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text = vitals.anatomy.text
        if text is None or text.num_ends_trained or text.num_batches < _TWO_BATCHES:
            return
        if text.num_ends_masked >= _ENOUGH_ROWS:
            why = "padding is the same token" if text.is_pad_end else "its label is left out"
            yield _sign(f"Of {text.num_rows} rows none has its end as a target: {why}.")
        elif _are_compared(vitals.anatomy, text):
            return
        elif text.is_pretrained and text.num_ends_missing >= _ENOUGH_ROWS:
            yield _sign(
                f"{text.num_ends_missing} of {text.num_rows} rows have no end-of-text token."
            )


@dataclass
class AdaptersNotTrained(VitalsRule):
    """Adapters are in the model, and cannot learn.

    Fires when no factor of a low-rank adapter (lora_A, lora_B) requires a gradient, when both
    factors of a pair begin at zero, or when after two updates none that is in the optimizer had a
    gradient, while other weights had, as under reentrant checkpointing. Also fires when they have
    gradients and none is in an optimizer, which was made before they were added.
    """

    kind = Kind.MISTAKE
    explains = ("GradientMissing", "FrozenByMistake", "OptimizerOfAnotherModel")
    advice = (
        "Load adapters with is_trainable=True, and freeze the base before they are added. Make the "
        "optimizer after get_peft_model. Begin "
        "with lora_A random and lora_B zero. With gradient checkpointing use use_reentrant=False, "
        "or call model.enable_input_require_grads()."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        factors = _adapters(anatomy)
        if not factors or not anatomy.num_optimizer_steps:
            return
        zero = () if anatomy.text is None else anatomy.text.zero_adapters
        if not any(each.requires_grad for each in factors):
            yield _sign(f"None of {len(factors)} factors of adapters requires a gradient.", factors)
        elif len(zero) * 2 == len(factors):
            yield _sign(f"Both factors of all {len(zero)} adapters begin at zero.", factors)
        elif _are_left_out(vitals, factors):
            yield _sign(
                f"None of {len(factors)} factors of adapters is in the optimizer, which holds the "
                "weights of the base: it was made before they were added.",
                factors,
            )
        elif _are_cut_off(anatomy, factors):
            yield _sign(
                f"None of {len(factors)} factors of adapters ever had a gradient, and other "
                "weights had: the graph is cut between them and the loss.",
                factors,
            )


@dataclass
class NewTokensNotTrained(VitalsRule):
    """Tokens were added to the vocabulary, and their embeddings are frozen.

    Fires when the first batches have tokens whose embedding does not require a gradient and is
    still at the mean of all embeddings, where resize_token_embeddings puts new ones.
    """

    kind = Kind.MISTAKE
    rests_on = ("texts",)
    leaves_training_loss = True
    advice = (
        "Train the embeddings and the head with the adapters (modules_to_save, or "
        "trainable_token_indices of PEFT's LoraConfig), or add no tokens."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text = vitals.anatomy.text
        if text is not None and text.num_batches and text.num_blank_tokens >= text.num_batches:
            number = text.num_blank_tokens / text.num_batches
            yield _sign(
                f"Batches have {number:.2g} tokens, on average, whose embedding is frozen and was "
                "never trained."
            )


@dataclass
class LossScaledWrongly(VitalsRule):
    """Gradients of several batches are added up, and their sum is not the mean of the losses.

    Fires when an update follows several backwards, and the loss that backward gets is on average
    the mean loss of a batch (not divided) or is divided by their number squared (divided twice).
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = (
        "Divide the loss by the number of batches per update, once: Accelerate's backward and "
        "Trainer do it themselves. A compute_loss of one's own divides by num_items_in_batch."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text, number = vitals.anatomy.text, _backwards_per_step(vitals.anatomy)
        if text is None or number < _TWO_STEPS or len(text.scales) < _TWO_STEPS * number:
            return
        mean = sum(text.scales) / len(text.scales)
        for factor, what in ((number, "is not divided"), (1 / number, "is divided twice")):
            if abs(mean * number / factor - 1) < _CLOSE:
                yield _sign(
                    f"An update follows {number} backwards, and the loss {what}: gradients are "
                    f"{factor:.3g} times those of the mean.",
                    value=mean,
                    threshold=1 / number,
                )


@dataclass
class PromptTrained(VitalsRule):
    """The model is trained to write the questions, too.

    Fires when nearly all tokens between the mark of a user's turn and that of the answer are
    targets, in the text of the first batches. Also fires when in nearly all texts the targets are
    their beginning, and at least two tokens that follow it are left out.
    """

    kind = Kind.CAUSE
    rests_on = ("texts", "tokens/heads_share")
    leaves_training_loss = True
    advice = (
        "Set the labels of the prompt to -100: completion_only_loss or assistant_only_loss of "
        "TRL's SFTConfig, or return_assistant_tokens_mask of apply_chat_template. If the questions "
        "are meant to be learnt, leave it so."
    )

    share: float = parameter(
        0.9, "Share of the questions' tokens that are targets.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        heads = vitals.vital("tokens/heads_share")
        if len(heads) >= ENOUGH_BATCHES and heads.median >= self.share:
            yield Sign(
                int(heads.steps[0]),
                f"In {heads.median:.0%} of the texts the targets are the beginning, and what "
                "follows is left out of the loss: the mask of the labels is the wrong way round.",
                value=heads.median,
                threshold=self.share,
                advice="Leave out the prompt, labels[:len(prompt)] = -100, and train on what "
                "follows it.",
            )
            return
        text = vitals.anatomy.text
        if text is None or text.num_prompt_tokens < _FEW_TARGETS:
            return
        share = text.num_prompt_trained / text.num_prompt_tokens
        if share >= self.share:
            yield _sign(
                f"{share:.0%} of the tokens of questions are targets, like those of the answers.",
                value=share,
                threshold=self.share,
            )


@dataclass
class AnswersCutOff(VitalsRule):
    """Texts are cut at a maximal length, and with them the answers.

    Fires when all batches have one width, at least `share` of the rows fill it without an end, and
    others have an end, or have nothing left that is trained on; or when all rows of a pretrained
    model's texts are so, and what is left of their answers has several lengths.
    """

    kind = Kind.CAUSE
    rests_on = ("texts",)
    leaves_training_loss = True
    explains = ("EndNeverTrained",)
    advice = "Raise max_length (max_seq_length), or leave out or split the texts that are longer."

    share: float = parameter(0.5, "Share of rows that are cut.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text = vitals.anatomy.text
        if text is None or not _is_partly_trained(text) or text.num_packed:
            return
        if text.num_batches < _TWO_BATCHES or len(text.widths) > 1:
            return
        cut = text.num_cut + text.num_untrained_rows
        is_cut = text.num_untrained_rows + text.num_ends_trained or _are_all_cut(text)
        if cut >= self.share * text.num_rows and is_cut:
            yield _sign(
                f"{cut} of {text.num_rows} rows are cut at {text.widths[0]} tokens, before their "
                f"end; {text.num_untrained_rows} have no target left.",
                value=cut / text.num_rows,
                threshold=self.share,
            )


@dataclass
class PackedTextsMixed(VitalsRule):
    """Several texts share a row, and see each other.

    Fires when rows have further texts behind the first, part of the tokens is left out of the loss,
    and neither positions begin again nor a mask keeps the texts apart. Pretraining, in which every
    token is a target, is left alone. Of models that are not of transformers, fires when the script
    has a function or class of its own that packs texts, nothing in it keeps attention within a
    text, and the targets are the next tokens.
    """

    kind = Kind.CAUSE
    rests_on = ("texts",)
    leaves_training_loss = True
    advice = (
        "Pass position_ids that begin at 0 with each text (DataCollatorWithFlattening, or packing "
        "of TRL with padding_free), or a block-diagonal attention mask: "
        "mask & (ids[:, :, None] == ids[:, None, :])."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        text = vitals.anatomy.text
        if text is None:
            shifted = vitals.vital("tokens/shifted_share")
            if len(shifted) >= ENOUGH_BATCHES and shifted.median > _NEARLY_ALL:
                for remark in remarks(vitals, self):
                    yield sign(remark, f"There were {vitals.num_updates} updates.")
            return
        if text.num_separated or not _is_partly_trained(text):
            return
        if text.num_packed >= max(_ENOUGH_ROWS, _HALF * text.num_rows):
            yield _sign(f"{text.num_packed} of {text.num_rows} rows have several texts.")


@dataclass
class BaseNotFrozen(VitalsRule):
    """Adapters are added, and the weights that they adapt are trained as well.

    Fires when the optimizer has both low-rank adapters (lora_A and lora_B, or lora_down and
    lora_up) and the weights beside them, all of them.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = (
        "Freeze the base before adapters are added: model.requires_grad_(False), or PEFT's "
        "get_peft_model, which does it."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        factors = [each for each in _adapters(anatomy) if each.is_trained]
        homes = {_home(each.name) for each in factors}
        # The script may also train the base before, as a model of the same name.
        held = {each.optimizer for each in factors}
        bases = [p for p in anatomy.parameters if p.optimizer in held and _is_base(p, homes)]
        if bases and len(bases) == len(homes):
            share = sum(p.numel for p in bases) / sum(p.numel for p in (*bases, *factors))
            yield _sign(
                f"Weights that have adapters are trained beside them, {len(bases)} in all, such as "
                f"{bases[0].name}: {share:.0%} of what both have.",
                bases,
            )


@dataclass
class AdapterMergedTwice(VitalsRule):
    """An adapter is merged into the weight beside it, and still added to its output.

    Fires when a method of the script's own layer adds the product of two factors to a weight, is
    called, forward() adds the same product under no condition, and the model was evaluated.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    explains = ("Overfitting", "EvaluationInputDiffers")
    advice = (
        "Leave the adapter out of forward() while it is merged (if self.merged: return y), and set "
        "the flag in both directions; or set the factors to zero when they are merged."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        num_evaluated = sum(each.count for each in vitals.anatomy.forwards if not each.grad)
        if num_evaluated and vitals.anatomy.num_optimizer_steps >= _TWO_STEPS:
            for remark in remarks(vitals, self):
                yield sign(remark, f"It was evaluated {num_evaluated} times.")


@dataclass
class FineTuningRate(VitalsRule):
    """The learning rate is one for another kind of fine-tuning.

    Fires when a pretrained language model is trained by Adam: all of it at a rate of `highest` or
    more, as for adapters, or only adapters at a rate of `lowest` or less, as for all weights. The
    rate is the one that a schedule rises to. Usual are 1e-5 to 1e-4 for all weights and 1e-4 to
    5e-4 for adapters; the limits are a few times off. Adapters that are trained on answers that are
    compared (DPO, RL) are left alone: their rates are lower.
    """

    kind = Kind.CAUSE
    advice = "Usual are 1e-5 to 1e-4 for all weights, and 1e-4 to 5e-4 for adapters."

    highest: float = parameter(3e-4, "Rate for all weights that is too high.", at_least=0)
    lowest: float = parameter(2e-5, "Rate for adapters that is too low.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        rate = max(map(_rate, anatomy.optimizers), default=0.0)
        if anatomy.text is None or not anatomy.text.is_pretrained or not rate:
            return
        trained = [p for p in _own(anatomy) if p.is_trained]
        factors = [p for p in _adapters(anatomy) if p.is_trained]
        if factors and len(factors) == len(trained) and rate <= self.lowest:
            if _are_compared(anatomy, anatomy.text):
                return
            yield _sign(f"Adapters are trained at {rate:g}.", value=rate, threshold=self.lowest)
        elif not _adapters(anatomy) and len(trained) == len(_own(anatomy)) and rate >= self.highest:
            yield _sign(
                f"All weights of a pretrained {anatomy.text.model} are trained at {rate:g}.",
                value=rate,
                threshold=self.highest,
            )


def _sign(
    message: str,
    parameters: Iterable[ParameterFacts] = (),
    *,
    value: float | None = None,
    threshold: float | None = None,
) -> Sign:
    first = next((each.name for each in parameters), "")
    return Sign(0, message, tensor=first, value=value, threshold=threshold)


def _adapters(anatomy: Anatomy) -> list[ParameterFacts]:
    """Factors of low-rank adapters, as PEFT and most others call them."""
    return [p for p in anatomy.parameters if _FACTOR.search(p.name)]


def _are_compared(anatomy: Anatomy, text: TextFacts) -> bool:
    """Whether texts are answers that are preferred or rewarded: several to one prompt, or a model
    is also asked without gradients in training, for a reference or for the answers."""
    if text.num_shared_prompts > _NEARLY_ALL * text.num_rows > 0:
        return True
    return bool(anatomy.num_forwards(training=True, grad=False) or anatomy.onlookers)


def _own(anatomy: Anatomy) -> list[ParameterFacts]:
    return [p for p in anatomy.parameters if p.tied_to is None]


def _home(factor: str) -> str:
    """The layer that an adapter's factor is in; "" if it is in none of its own."""
    found = _FACTOR.search(factor)
    return "" if found is None else factor[: found.start()].rstrip(".")


def _is_base(each: ParameterFacts, homes: Iterable[str]) -> bool:
    """A weight that is trained in a layer with an adapter: its own, or of the layer within."""
    layer = each.name.removesuffix(".weight")
    is_weight = layer != each.name and each.is_trained and not _FACTOR.search(each.name)
    return is_weight and (layer in homes or layer.rpartition(".")[0] in homes)


def _are_cut_off(anatomy: Anatomy, factors: list[ParameterFacts]) -> bool:
    held = [each for each in factors if each.is_trained]
    if not held or anatomy.num_optimizer_steps < _TWO_STEPS:
        return False
    others = any(p.ever_had_gradient for p in anatomy.parameters)
    return others and not any(each.ever_had_gradient for each in held)


def _are_left_out(vitals: VitalSigns, factors: list[ParameterFacts]) -> bool:
    """Of every optimizer, where no other code changes them."""
    if any(each.optimizer is not None for each in factors):
        return False
    anatomy = vitals.anatomy
    has_base = any(p.optimizer is not None for p in anatomy.parameters)
    if not has_base or anatomy.num_optimizer_steps < _TWO_STEPS:
        return False
    saved = [p.name for p in factors if len(vitals.figure(p.name, "l2")) > 1]
    return all(vitals.is_weight_unchanged(name) for name in saved)


def _is_partly_trained(text: TextFacts) -> bool:
    return 0 < text.num_trained < _PARTLY * text.num_tokens


def _are_all_cut(text: TextFacts) -> bool:
    """Texts of one length whose answers have many: only what cuts them makes them equal."""
    is_all = text.num_cut == text.num_rows >= _ENOUGH_ROWS
    return text.is_pretrained and is_all and len(text.cut_lengths) >= _FEW_LENGTHS


def _backwards_per_step(anatomy: Anatomy) -> int:
    """Always the same number, of the only optimizer; else 0."""
    if len(anatomy.optimizers) != 1:
        return 0
    (optimizer,) = anatomy.optimizers
    numbers = [int(each) for each in optimizer.backwards_per_step or {}]
    if not numbers and optimizer.num_steps >= _TWO_STEPS:
        number, left = divmod(anatomy.num_backwards, optimizer.num_steps)
        return 0 if left else number
    return numbers[0] if len(numbers) == 1 and not optimizer.num_discarded else 0


def _rate(optimizer: OptimizerFacts) -> float:
    return max(_rates(optimizer), default=0.0) if optimizer.type in _ADAM else 0.0


def _rates(optimizer: OptimizerFacts) -> Iterator[float]:
    for group in optimizer.groups:
        for rate in (group.get("lr"), group.get("initial_lr")):
            if isinstance(rate, int | float):
                yield float(rate)
