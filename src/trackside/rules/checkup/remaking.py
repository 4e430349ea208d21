"""Rules about what is made anew in the loop and should be kept."""

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.rules.checkup.signs_rule import Sign, SignsRule
from trackside.rules.parameters import parameter
from trackside.rules.saved.vital_signs import Signs


@dataclass
class OptimizerMadeAnew(SignsRule):
    """An optimizer is made for each batch, and forgets what it knew: momentum, running averages.

    Fires after `num_optimizers` and more that each hold the parameters of the one before, when
    there is one for every second backward at least. SGD without momentum has nothing to forget,
    and one for each epoch or stage is left alone.
    """

    advice = "Make the optimizer once, before the loops, and only call zero_grad and step in them."

    num_optimizers: int = parameter(20, "Optimizers of the same parameters.", at_least=2)

    def judge(self, signs: Signs) -> Iterable[Sign]:
        anatomy = signs.anatomy
        kinds = {each.type for each in anatomy.optimizers}
        momentum = [g.get("momentum") for each in anatomy.optimizers for g in each.groups]
        if kinds == {"SGD"} and not any(momentum):
            return
        if anatomy.num_remade >= max(self.num_optimizers, anatomy.num_backwards / 2):
            yield Sign(
                0,
                f"{', '.join(sorted(kinds))} was made anew {anatomy.num_remade} times for the same "
                f"parameters, in {anatomy.num_backwards} backwards: its state starts from nothing "
                "each time.",
                value=float(anatomy.num_remade),
                threshold=float(self.num_optimizers),
            )
