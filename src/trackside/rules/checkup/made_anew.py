"""Rules about models and optimizers that are made again and again, and forget what they knew."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from trackside.capture.reading.anatomy import OptimizerFacts
from trackside.rules.checkup.signs_rule import Sign, SignsRule
from trackside.rules.parameters import parameter
from trackside.rules.saved.vital_signs import Signs


@dataclass
class ModelMadeAnew(SignsRule):
    """Every epoch begins with a new model, which knows nothing of the one before.

    Fires when `num_models` models and more of one class were trained by optimizers with the same
    settings, one pass over the same data each. Folds of a cross-validation have data of their own,
    and a search tries other settings.
    """

    advice = "Make the model and its optimizer once, before the loop over epochs."

    num_models: int = parameter(5, "Models.", at_least=2)

    def judge(self, signs: Signs) -> Iterable[Sign]:
        anatomy = signs.anatomy
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
class OptimizerMadeAnew(SignsRule):
    """The optimizer is made again for each update, and forgets its momentum.

    Fires when one model was trained by `num_optimizers` optimizers and more that keep something
    from update to update, for hardly more than one update each.
    """

    advice = "Make the optimizer once, before the loop, and call its step() in each pass."

    num_optimizers: int = parameter(20, "Optimizers.", at_least=2)

    def judge(self, signs: Signs) -> Iterable[Sign]:
        made = signs.anatomy.optimizers
        if len(made) < self.num_optimizers or len(signs.anatomy.models) != 1:
            return
        if median(each.num_steps for each in made) <= 2 and all(map(_remembers, made)):
            yield Sign(
                0,
                f"{len(made)} optimizers ({made[0].type}) were made for {signs.num_updates} "
                "updates: each starts without momentum and averages.",
                value=float(len(made)),
                threshold=self.num_optimizers,
            )


def _settings(optimizer: OptimizerFacts) -> tuple[str, str]:
    return optimizer.type, str([group.get("lr") for group in optimizer.groups])


def _remembers(optimizer: OptimizerFacts) -> bool:
    return optimizer.type != "SGD" or any(group.get("momentum") for group in optimizer.groups)
