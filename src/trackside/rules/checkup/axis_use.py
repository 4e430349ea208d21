"""Rules about axes that are mixed up: of attention, of what a layer is given, of targets."""

from collections.abc import Iterable

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns


@dataclass
class AttentionAxisWrong(VitalsRule):
    """Attention weights sum to 1 over another axis than that of the keys.

    Fires when the softmax of scores from a product of queries and keys is applied along another
    axis than the one over which values are then summed.
    """

    kind = Kind.MISTAKE
    advice = (
        "Use softmax(scores, dim=-1) where scores are queries times transposed keys: the weights "
        "of each query must sum to 1."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for each in vitals.anatomy.attention[:1]:
            last = len(each.shape) - 1
            yield Sign(
                0,
                f"The softmax of attention scores of shape {list(each.shape)} goes along axis "
                f"{each.axis}, and values are summed along axis {last}.",
                value=float(each.axis),
                threshold=float(last),
            )


@dataclass
class ViewForTranspose(VitalsRule):
    """view or reshape is used where axes have to be swapped, and mixes samples or positions.

    Fires when the new shape differs from the old one by the order of two axes, as after a
    transpose, although values stay in their order: [batch, time, n] as [batch, n, time], h_n as
    [batch, everything else], heads before time without a transpose, or the reverse.
    """

    kind = Kind.MISTAKE
    advice = (
        "Use transpose(1, 2) or permute(...) first, and reshape only to merge or split adjacent "
        "axes; for a bidirectional RNN, torch.cat((h_n[-2], h_n[-1]), dim=1)."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for each in vitals.anatomy.reshaped[:1]:
            yield Sign(
                0,
                f"A view makes {list(each.made)} of {list(each.given)}: sizes as after a swap of "
                "axes, and values in their old order.",
            )


@dataclass
class TargetOrderDiffers(VitalsRule):
    """Scores and targets are flattened in different orders, so that they do not match.

    Fires when a loss gets rows that were [time, batch, classes] and targets that were [batch,
    time], or the reverse, both flattened by view or reshape.
    """

    kind = Kind.MISTAKE
    advice = (
        "Use one order for both before flattening: scores.transpose(0, 1).reshape(-1, classes) "
        "with targets.reshape(-1)."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for loss in vitals.anatomy.losses:
            scores, targets = loss.flattened or ((), ())
            if len(scores) != 3 or len(targets) != 2 or scores[0] == scores[1]:
                continue
            if targets[1] == scores[0]:
                yield Sign(
                    0,
                    f"{loss.name} is given scores that were {list(scores)} and targets of which "
                    f"{targets[1]} stood in a row: one goes along the batch first, the other along "
                    "time.",
                    tensor=f"{loss.name}_input_0",
                )
