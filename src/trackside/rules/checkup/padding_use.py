"""Rules about padding that is read as if it were something."""

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.saved.vital_signs import VitalSigns

_RECURRENT = ("RNN", "GRU", "LSTM")


@dataclass
class PaddingReadLast(VitalsRule):
    """A recurrent model goes on through padding, and has forgotten the text at its end.

    Fires when all sequences end with one token, `share` of their length and more, an RNN that looks
    back only is given all of it, there is one target for each sequence, and nothing is learnt.
    """

    advice = (
        "Pack the sequences (nn.utils.rnn.pack_padded_sequence with enforce_sorted=False) and use "
        "h_n, take the output at each one's last token, or pad on the left."
    )

    share: float = parameter(0.3, "Of a sequence, on average.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        end, last = vitals.vital("tokens/end_share"), vitals.vital("tokens/last")
        loss = next(iter(vitals.anatomy.losses), None)
        if loss is None or len(end) < 10 or not end.median > self.share or not vitals.is_stuck:
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
                f"{readers[0].name} ({readers[0].type}) reads on through all of it.",
                tensor=readers[0].name,
                value=end.median,
                threshold=self.share,
            )


@dataclass
class PaddingMaskInverted(VitalsRule):
    """Attention leaves out the text and reads the padding.

    Fires when key_padding_mask is True for nearly all tokens but the one that sequences end with,
    and for hardly any of those.
    """

    advice = (
        "key_padding_mask is True where there is padding: tokens == padding, not !=. (The "
        "attention_mask of Hugging Face's tokenizers is the other way round.)"
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        end, other = vitals.vital("tokens/end_masked"), vitals.vital("tokens/other_masked")
        if len(end) >= 5 and end.median < 0.05 and other.median > 0.95:
            yield Sign(
                int(end.steps[0]),
                f"key_padding_mask leaves out {other.median:.0%} of the tokens, and "
                f"{end.median:.0%} of those that sequences end with.",
                value=other.median,
                threshold=0.95,
            )
