"""Rules about the training loop: whether gradients reach the weights, and what comes of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import numpy as np

from trackside.capture.reading.anatomy import Anatomy, OptimizerFacts, ParameterFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import FEW_BATCHES, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns

_WITH_ACTIVATION = ("Linear", "Conv1d", "Conv2d", "Conv3d")
"""Modules whose output vitals measure: without such a figure they were never called."""

_RISEN = 0.1
"""Of its start: a loss that rises by more does so because it is maximized."""
_NAMES_SHOWN = 3
"""A message of one line has room for these."""
_SEVERAL = 2
"""Groups of batches in a pass: with one, step() stands after the loop over batches."""


@dataclass
class OptimizerNotStepping(VitalsRule):
    """Gradients are computed, but no optimizer uses them, or hardly ever.

    Fires after `num_backwards` calls of backward without a step of an optimizer, while the saved
    weights do not change. Also fires when the gradients of `share` of the backwards are cleared
    before the step of the only optimizer, as when step() is placed after the loop over batches.
    Gradients that are accumulated until the step, and gradients that are computed for an input, do
    not count; groups of batches, several to each pass, are left to AccumulationCleared.
    """

    kind = Kind.MISTAKE
    rests_on = ("update_ratio", "gradient_norm", "weights:l2")
    advice = (
        "Call optimizer.step() after loss.backward() in each iteration: in the same block, at the "
        "same indentation."
    )

    num_backwards: int = parameter(20, "Calls of backward without a step.", at_least=1)
    share: float = parameter(0.6, "Share of backwards that no step used.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        yield from self._discarding(vitals.anatomy)
        anatomy = vitals.anatomy
        if anatomy.num_backwards < self.num_backwards or anatomy.num_optimizer_steps:
            return
        trained = [p.name for p in anatomy.parameters if p.requires_grad]
        saved = [name for name in trained if len(vitals.figure(name, "l2")) > 1]
        if saved and all(vitals.is_weight_unchanged(name) for name in saved):
            yield Sign(
                0,
                f"backward was called {anatomy.num_backwards} times and step() of an optimizer "
                "never: the weights are still those of the start.",
                value=float(anatomy.num_backwards),
                threshold=self.num_backwards,
            )

    def _discarding(self, anatomy: Anatomy) -> Iterator[Sign]:
        if len(anatomy.optimizers) != 1 or anatomy.asks_for_others:
            return
        (optimizer,) = anatomy.optimizers
        per_step = optimizer.backwards_per_step or {}
        if _are_groups(per_step, anatomy):
            return
        seen = sum(int(number) * times for number, times in per_step.items())
        if seen >= self.num_backwards and optimizer.num_discarded >= self.share * seen:
            yield Sign(
                0,
                f"Of {seen} backwards that were checked, {optimizer.num_discarded} had their "
                f"gradients cleared before any step used them; {optimizer.type} made "
                f"{optimizer.num_steps} steps for {anatomy.num_backwards} backwards.",
                value=optimizer.num_discarded / seen,
                threshold=self.share,
            )


def _are_groups(per_step: Mapping[str, int], anatomy: Anatomy) -> bool:
    """Whether every update follows as many backwards, several times in a pass over the data."""
    sizes = [int(number) for number in per_step]
    batches = [
        each.num_batches / max(1, each.num_passes) for each in anatomy.loaders if each.num_trained
    ]
    return len(sizes) == 1 and bool(batches) and _SEVERAL * sizes[0] <= min(batches)


@dataclass
class OptimizerOfAnotherModel(VitalsRule):
    """The optimizer steps, but has none of the parameters of the trained model.

    Fires after `num_steps` optimizer steps, if no optimizer has a parameter of a model that was
    called, while these parameters have gradients and do not change. Also fires when most of the
    only model is frozen and the loss stays where it started, while the only optimizer holds
    parameters that are in no model that was called, and exactly these never have a gradient: as of
    adapters that were made and not put in.
    """

    kind = Kind.MISTAKE
    explains = ("FrozenByMistake",)
    rests_on = ("update_ratio", "gradient_norm", "weights:l2")
    advice = (
        "Create the optimizer after the model has its final parameters (after copying, wrapping, "
        "loading or moving it), with the parameters of the model that is called in the loop. To "
        "train a part, give it those that require a gradient: p for p in model.parameters() if "
        "p.requires_grad."
    )

    num_steps: int = parameter(10, "Optimizer steps before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if num := self._num_not_put_in(vitals):
            yield Sign(
                0,
                f"The optimizer holds {num} parameters that are in no model that was called, and "
                f"that never get a gradient: they were made, and not put into "
                f"{', '.join(anatomy.models)}, most of which is frozen.",
                value=float(num),
                threshold=0.0,
            )
        wanted = [p for p in anatomy.parameters if p.requires_grad]
        if anatomy.num_optimizer_steps < self.num_steps or not wanted:
            return
        if any(p.optimizer is not None for p in wanted):
            return
        if not any(p.ever_had_gradient for p in wanted):
            return  # new ones, as adapters are, which no optimizer has stepped beside
        saved = [p.name for p in wanted if len(vitals.figure(p.name, "l2")) > 1]
        if anatomy.num_backwards and all(vitals.is_weight_unchanged(name) for name in saved):
            frozen = sum(p.optimizer is not None for p in anatomy.parameters)
            why = "it was made for other tensors"
            if frozen:
                why = f"it holds {frozen} that are frozen (requires_grad is False)"
            yield Sign(
                0,
                f"The optimizer has made {anatomy.num_optimizer_steps} steps, and holds none of "
                f"the {len(wanted)} parameters of {', '.join(anatomy.models)} that are to be "
                f"trained: {why}.",
                value=0.0,
                threshold=1.0,
            )

    def _num_not_put_in(self, vitals: VitalSigns) -> int:
        """Parameters that the optimizer has besides the model's, if they are what lacks gradients
        at each of its steps."""
        anatomy = vitals.anatomy
        if len(anatomy.models) != 1 or len(anatomy.optimizers) != 1 or not vitals.is_stuck:
            return 0
        own = [p for p in anatomy.parameters if p.tied_to is None]
        frozen = sum(p.numel for p in own if not p.requires_grad)
        missing = vitals.vital("gradient_missing")
        groups = anatomy.optimizers[0].groups
        trained = [p for p in own if p.optimizer is not None]
        if len(missing) < self.num_steps or 2 * frozen < sum(p.numel for p in own) or not trained:
            return 0
        others = sum(int(group.get("num_parameters", 0)) for group in groups) - len(trained)
        is_all = missing.values.min() == missing.values.max() == others
        return others if is_all and all(p.ever_had_gradient for p in trained) else 0


@dataclass
class ParametersNotOptimized(VitalsRule):
    """Part of the model gets gradients but belongs to no optimizer.

    Fires after `num_steps` optimizer steps for parameters that require a gradient, get one, and are
    in no optimizer, while other parameters of their model are. Also fires for modules that run
    inside the model without being registered as submodules. Frozen parameters (requires_grad is
    False) are left out on purpose.
    """

    kind = Kind.MISTAKE
    rests_on = ("weights:l2",)
    is_independent = True
    advice = (
        "Give the optimizer all parameters that should be trained (model.parameters()). Freeze the "
        "others with requires_grad_(False)."
    )

    num_steps: int = parameter(10, "Optimizer steps before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        if anatomy.num_optimizer_steps < self.num_steps:
            return
        if not any(p.is_trained for p in anatomy.parameters):
            return
        left_out = [
            p
            for p in anatomy.parameters
            if p.requires_grad
            and p.optimizer is None
            and p.ever_had_gradient
            and (not len(vitals.figure(p.name, "l2")) or _is_still(vitals, p))
        ]
        unregistered = [s for s in anatomy.strangers if s.has_gradient and not s.is_optimized]
        if unregistered:
            kinds = ", ".join(dict.fromkeys(each.type for each in unregistered))
            yield Sign(
                0,
                f"{len(unregistered)} modules ({kinds}) run inside of {', '.join(anatomy.models)} "
                "without being registered in it, so that parameters() leaves them out and no "
                "optimizer holds them: keep them in nn.ModuleList or nn.ModuleDict, not in a plain "
                "list or dict.",
                tensor=unregistered[0].type,
                value=float(sum(each.numel for each in unregistered)),
                threshold=0.0,
            )
        if left_out:
            total = sum(p.numel for p in anatomy.parameters)
            share = sum(p.numel for p in left_out) / max(total, 1)
            yield Sign(
                min(p.first_gradient_step or 0 for p in left_out),
                f"{_names(left_out)} get gradients and are in no optimizer: {share:.0%} of the "
                "model never changes.",
                tensor=left_out[0].name,
                value=100 * share,
                threshold=0.0,
            )


@dataclass
class GradientMissing(VitalsRule):
    """Parameters in an optimizer never get a gradient: the graph is cut.

    Fires after `num_steps` optimizer steps for parameters in an optimizer that never had a
    gradient, although their modules are called; or for all parameters at once. Modules that are
    never called are not reported.
    """

    kind = Kind.MISTAKE
    rests_on = ("gradient_missing", "gradients:l2")
    advice = (
        "Something between these layers and the loss leaves the graph: .detach(), .item(), .data, "
        ".numpy(), torch.tensor(...), torch.no_grad(), or zero_grad() between backward and step. "
        "Remove it, and compute with tensors only."
    )

    num_steps: int = parameter(10, "Optimizer steps before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        anatomy = vitals.anatomy
        wanted = [p for p in anatomy.parameters if p.is_trained and p.tied_to is None]
        never = [p for p in wanted if not p.ever_had_gradient]
        num_optimizers = len(anatomy.optimizers)
        missing = vitals.vital("gradient_missing").last(FEW_BATCHES * num_optimizers)
        if anatomy.num_optimizer_steps < self.num_steps or not never or len(missing) < FEW_BATCHES:
            return
        # Optimizers that take turns miss what is theirs each.
        if np.count_nonzero(missing.values >= 1) < len(missing) / num_optimizers:
            return  # they are there, and zero: another matter
        if len(never) == len(wanted):
            yield Sign(
                0,
                f"None of the {len(wanted)} parameters has a gradient when the optimizer steps: "
                "the loss that backward starts from is not connected to the model.",
                value=float(len(never)),
                threshold=0.0,
            )
            return
        cut = [p for p in never if self._is_called(vitals, p, wanted)]
        if cut:
            yield Sign(
                0,
                f"{_names(cut)} never get a gradient, though their layers are called: the graph "
                "is cut after them.",
                tensor=cut[0].name,
                value=float(len(cut)),
                threshold=0.0,
            )

    def _is_called(
        self, vitals: VitalSigns, each: ParameterFacts, wanted: Sequence[ParameterFacts]
    ) -> bool:
        module = _module_of(vitals.anatomy, each)
        if vitals.module_type(module) in _WITH_ACTIVATION:
            return f"{module}/std" in vitals.series_by_name("activation/")
        # Its output is not measured. What comes last may be a head that is not in use.
        having = [place for place, p in enumerate(wanted) if p.ever_had_gradient]
        return wanted.index(each) < max(having)


@dataclass
class ForgottenZeroGrad(VitalsRule):
    """Each update uses the gradients of all batches so far.

    Fires when in `share` of at least `num_updates` checked updates of one optimizer, all or those
    since the first of them, the gradients of its previous update had not been cleared. Accumulating
    over several batches and clearing after the update is accepted.
    """

    kind = Kind.MISTAKE
    rests_on = ("leftover_gradients", "gradient_norm")
    is_independent = True
    advice = "Call optimizer.zero_grad() once per update, before loss.backward()."

    num_updates: int = parameter(5, "Updates before the rule may fire.", at_least=1)
    share: float = parameter(0.9, "Share of updates with old gradients.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        each = vitals.series_by_name("leftover_gradients/")
        several = [(f" of optimizer {n}", each[n]) for n in sorted(each)] if len(each) > 1 else []
        for whose, leftover in (("", vitals.vital("leftover_gradients")), *several):
            found = np.flatnonzero(leftover.values)
            first = int(leftover.steps[found[0]]) if len(found) else 0
            since = leftover.since(first)
            share = float(since.values.mean()) if len(since) else 0.0
            if share >= self.share and len(since) >= self.num_updates:
                yield Sign(
                    first,
                    f"In {share:.0%} of the updates{whose} the gradients of the previous update "
                    "were still there: zero_grad() is not called.",
                    value=share,
                    threshold=self.share,
                )
                return


@dataclass
class OptimizerSettings(VitalsRule):
    """An optimizer has settings that cannot be intended.

    Fires for betas in the wrong order, for a momentum above `momentum`, and for `maximize` with a
    loss that rises.
    """

    kind = Kind.MISTAKE
    rests_on = ("update_ratio", "learning_rate/*")
    is_independent = True
    advice = (
        "Check the optimizer's arguments: usual are betas of (0.9, 0.999) and a momentum of 0.9."
    )

    momentum: float = parameter(0.995, "Largest momentum that is accepted.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for optimizer in vitals.anatomy.optimizers:
            for group in optimizer.groups:
                betas = group.get("betas") or (0.0, 1.0)
                momentum = float(group.get("momentum") or 0.0)
                if float(betas[0]) > float(betas[1]):
                    yield Sign(
                        0,
                        f"{optimizer.type} has betas {tuple(betas)}: the first is the momentum, "
                        "and must be the smaller one.",
                        value=float(betas[0]),
                        threshold=float(betas[1]),
                    )
                if momentum > self.momentum or float(betas[0]) > self.momentum:
                    momentum = max(momentum, float(betas[0]))
                    yield Sign(
                        0,
                        f"{optimizer.type} has a momentum of {momentum:g}: an update keeps its "
                        "effect for hundreds of steps.",
                        value=momentum,
                        threshold=self.momentum,
                    )
                if group.get("maximize") and vitals.fall < -_RISEN:
                    yield Sign(
                        0,
                        f"{optimizer.type} has maximize=True, and the loss rises from "
                        f"{vitals.early_loss:.4g} to {vitals.late_loss:.4g}.",
                        value=vitals.late_loss,
                        threshold=vitals.early_loss,
                    )


@dataclass
class ModelRecreated(VitalsRule):
    """Every epoch starts with a new, untrained model.

    Fires when at least `num_models` models of one class were trained by optimizers with the same
    settings, each in one pass over the same data. Folds of a cross-validation have different data,
    and a search has different settings.
    """

    kind = Kind.MISTAKE
    advice = "Create the model and its optimizer once, before the loop over epochs."

    num_models: int = parameter(5, "Models that are trained one after the other.", at_least=2)

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
                f"over the same {busiest.num_samples} samples: each starts untrained.",
                value=float(count),
                threshold=self.num_models,
            )


@dataclass
class OptimizerRecreated(VitalsRule):
    """An optimizer is created for each batch and loses its state: momentum, running averages.

    Fires when at least `num_optimizers` optimizers each have the parameters of the previous one,
    with at least one for every second backward. SGD without momentum has no state to lose. One
    optimizer per epoch or stage is accepted.
    """

    kind = Kind.MISTAKE
    rests_on = ("update_ratio",)
    advice = (
        "Create the optimizer once, before the loops, and call only zero_grad and step inside them."
    )

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
                f"{', '.join(sorted(kinds))} was created again {anatomy.num_remade} times for the "
                f"same parameters in {anatomy.num_backwards} backwards, without its state.",
                value=float(anatomy.num_remade),
                threshold=float(self.num_optimizers),
            )


def _is_still(vitals: VitalSigns, each: ParameterFacts) -> bool:
    """Whether it is unchanged since it had its first gradient: until then another parameter may
    have had its place."""
    since = each.first_gradient_step or 0
    figures = [vitals.figure(each.name, kind).since(since) for kind in ("l2", "min", "max")]
    return all(len(figure) > 1 and np.ptp(figure.values) == 0 for figure in figures)


def _module_of(anatomy: Anatomy, each: ParameterFacts) -> str:
    """The parameters' names begin with the model's, the modules' do not."""
    path = each.name.rpartition(".")[0]
    for root in anatomy.models:
        if path.startswith(f"{root}_"):
            return path[len(root) + 1 :]
    return path


def _names(parameters: Sequence[ParameterFacts]) -> str:
    names = [p.name for p in parameters]
    if len(names) <= _NAMES_SHOWN + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMES_SHOWN])} and {len(names) - _NAMES_SHOWN} more"


def _settings(optimizer: OptimizerFacts) -> tuple[str, str]:
    return optimizer.type, str([group.get("lr") for group in optimizer.groups])
