"""Rules about models and optimizers that are made again and again, and forget what they knew."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from trackside.capture.reading.anatomy import OptimizerFacts
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.saved.vital_signs import VitalSigns


@dataclass
class ModelRecreated(VitalsRule):
    """Every epoch begins with a new model, which knows nothing of the one before.

    Fires when `num_models` models and more of one class were trained by optimizers with the same
    settings, one pass over the same data each. Folds of a cross-validation have data of their own,
    and a search tries other settings.
    """

    advice = "Make the model and its optimizer once, before the loop over epochs."

    num_models: int = parameter(5, "Models.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        count = len(anatomy.models)
        if count < self.num_models or len(set(anatomy.models)) > 1:
            return
        if (
            abs(len(anatomy.optimizers) - count) > 1
            or len(set(map(_settings, anatomy.optimizers))) > 1
        ):
            return
        busiest = max(anatomy.loaders, key=lambda each: each.num_batches, default=None)
        if busiest is not None and abs(busiest.num_passes - count) <= 1:
            yield Sign(
                int(median(each.num_steps for each in anatomy.optimizers)),
                f"{count} models of the class {anatomy.models[0]} were trained, each in one pass "
                f"over the same {busiest.num_samples} samples: each starts from nothing.",
                value=float(count),
                threshold=self.num_models,
            )


@dataclass
class OptimizerRecreated(VitalsRule):
    """An optimizer is made for each batch, and forgets what it knew: momentum, running averages.

    Fires after `num_optimizers` and more that each hold the parameters of the one before, when
    there is one for every second backward at least. SGD without momentum has nothing to forget,
    and one for each epoch or stage is left alone.
    """

    advice = "Make the optimizer once, before the loops, and only call zero_grad and step in them."

    num_optimizers: int = parameter(20, "Optimizers of the same parameters.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
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


def _settings(optimizer: OptimizerFacts) -> tuple[str, str]:
    return optimizer.type, str([group.get("lr") for group in optimizer.groups])
