"""Rules about how the model is put together."""

from collections.abc import Iterable, Iterator

from trackside.capture.reading.anatomy import Anatomy, ModuleFacts
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.reading_results import remarks
from trackside.rules.checkup.vitals_rule import HALVED, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, VitalSigns

_PASSING = ("Dropout", "Identity", "Flatten", "Unflatten")
"""Modules that leave a chain of linear layers linear."""

_FOR_GOOD = 0.25
"""Of the training, at its end: what is frozen for longer was not only left out of a last polish."""
_SHOWN = 120
"""Characters of names in a message."""


@dataclass
class ActivationMissing(VitalsRule):
    """Two linear layers without an activation between them are equivalent to one linear layer.

    Fires when in an nn.Sequential a Linear is followed by a Linear, with only dropout or flattening
    between them, or the loss was computed in this way by two layers of the same module and model;
    and the intermediate width is not smaller than both ends. A narrow one is an intended
    factorisation.
    """

    kind = Kind.MISTAKE
    leaves_training_loss = True
    advice = "Put an activation, such as nn.ReLU() or nn.GELU(), between the two layers."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not vitals.anatomy.num_backwards:
            return
        for first, second, (given, middle, made) in _pairs(vitals.anatomy):
            if middle >= min(given, made):
                yield Sign(
                    0,
                    f"{first} ({given} to {middle}) and {second} ({middle} to {made}) follow each "
                    "other without an activation: the two can do no more than one of them.",
                    tensor=second,
                )
                return


@dataclass
class DropoutTooStrong(VitalsRule):
    """Dropout removes nearly everything, and little is learnt.

    Fires when a dropout in training removes at least `share` of its input, and the loss has not
    fallen to half.
    """

    kind = Kind.CAUSE
    rests_on = ("activations:std",)
    advice = "Lower p, the share that is removed (not the share that is kept): 0.1 to 0.5 is usual."

    share: float = parameter(
        0.9, "Share of its input that a dropout removes.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not vitals.is_settled or vitals.last_step < FAIR_STEPS or vitals.fall > HALVED:
            return
        for module in vitals.anatomy.modules:
            if module.training and module.dropped is not None and module.dropped >= self.share:
                yield Sign(
                    module.dropped_since,
                    f"{module.name} takes away {module.dropped:.0%} of its input, and the loss "
                    f"went from {vitals.early_loss:.4g} to {vitals.late_loss:.4g} only.",
                    tensor=module.name,
                    value=module.dropped,
                    threshold=self.share,
                )
                return


@dataclass
class FrozenByMistake(VitalsRule):
    """Most of the model is frozen, and the rest cannot learn.

    Fires when at least `share` of the parameters of the only model do not require a gradient, and
    the loss stays where it started, although the trained parameters have moved further than their
    norm, or do not depend on the input, as a bias. A frozen backbone under a head that learns is
    not reported, nor is a frozen base under adapters.

    Also fires at the end when so large a part of a model that was not loaded was trained, and at
    one step, at least 100 steps and a quarter of the training before the end, was frozen for good,
    while its only optimizer still holds it and trains the rest, if the script freezes it in the
    loop of the training, never takes that back, and no name, text or comment in it speaks of
    freezing, fine-tuning, probes, stages or phases.
    """

    kind = Kind.CAUSE
    rests_on = ("update_ratio", "weights:l2")
    advice = (
        "Print the names of the parameters that require a gradient, and check the condition that "
        "freezes the others. Freeze pretrained layers, not randomly initialised ones."
    )

    share: float = parameter(
        0.5, "Share of the model's parameters that are frozen.", at_least=0, at_most=1
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        yield from self._on_the_way(vitals)
        parameters = [p for p in vitals.anatomy.parameters if p.tied_to is None]
        frozen = [p for p in parameters if not p.requires_grad]
        total = sum(p.numel for p in parameters)
        if not frozen or len(vitals.anatomy.models) != 1 or not vitals.is_stuck:
            return
        if any(".lora_" in p.name for p in parameters):
            return  # the base under adapters is frozen on purpose
        share = sum(p.numel for p in frozen) / total
        trained = [p for p in parameters if p.is_trained]
        is_tried = vitals.moved > 1 or all(len(p.shape) < 2 for p in trained)
        if share >= self.share and trained and is_tried:
            kept = ", ".join(p.name for p in parameters if p.requires_grad)[:_SHOWN]
            # Those that were trained before they were frozen.
            last = [p.last_gradient_step for p in frozen if p.last_gradient_step is not None]
            yield Sign(
                max(last, default=-1) + 1,
                f"{share:.0%} of the parameters are frozen, from {frozen[0].name} on; {kept} alone "
                f"cannot bring the loss down from {vitals.late_loss:.4g}.",
                tensor=frozen[0].name,
                value=share,
                threshold=self.share,
            )

    def _on_the_way(self, vitals: VitalSigns) -> Iterator[Sign]:
        anatomy = vitals.anatomy
        if not vitals.is_all or len(anatomy.models) != 1 or len(anatomy.optimizers) != 1:
            return
        parameters = [p for p in anatomy.parameters if p.tied_to is None]
        frozen = [p for p in parameters if not p.requires_grad]
        last = {-1 if p.last_gradient_step is None else p.last_gradient_step for p in frozen}
        is_held = all(p.optimizer is not None for p in frozen)
        if len(last) != 1 or -1 in last or not is_held or _is_loaded(anatomy):
            return
        share = sum(p.numel for p in frozen) / sum(p.numel for p in parameters)
        seen = vitals.vital("gradient_norm").since(last.pop() + 1)
        if share < self.share or seen.span < max(FAIR_STEPS, _FOR_GOOD * vitals.last_step):
            return
        for remark in remarks(vitals, self):
            yield Sign(
                int(seen.steps[0]),
                f"{remark.place}: {remark.message} {share:.0%} of them, from {frozen[0].name} on, "
                f"have had no gradient since step {seen.steps[0]}, and {vitals.last_step} is the "
                "last.",
                tensor=frozen[0].name,
                value=share,
                threshold=self.share,
            )


def _is_loaded(anatomy: Anatomy) -> bool:
    return any(each.action == "load" and each.what == "model" for each in anatomy.checkpoints)


def _pairs(anatomy: Anatomy) -> Iterator[tuple[str, str, tuple[int, int, int]]]:
    """Names of linear layers that follow each other, and the widths before, between and behind."""
    shapes = {p.name: p.shape for p in anatomy.parameters}
    for first, second in _adjacent(anatomy):
        before, after = (_shape(anatomy, shapes, each) for each in (first, second))
        if before is not None and after is not None:
            yield first, second, (before[1], before[0], after[0])
    order = {name: place for place, name in enumerate(shapes)}
    for pair in sorted(anatomy.pairs, key=lambda pair: order.get(pair.first, 0)):
        first, second = (_module(anatomy, each) for each in (pair.first, pair.second))
        # What one module returns and another takes may be wanted in between.
        if first != second and first.rpartition(".")[0] == second.rpartition(".")[0]:
            yield first, second, pair.widths


def _adjacent(anatomy: Anatomy) -> Iterator[tuple[str, str]]:
    """Names of linear layers that follow each other in a Sequential."""
    for sequential in (m for m in anatomy.modules if m.type == "Sequential"):
        last = ""
        for child in _children(anatomy, sequential):
            if child.type == "Linear":
                if last:
                    yield last, child.name
                last = child.name
            elif child.type not in _PASSING:
                last = ""


def _children(anatomy: Anatomy, parent: ModuleFacts) -> list[ModuleFacts]:
    """Names of modules begin below the model, which has one of its own."""
    prefix = "" if parent.name in anatomy.models else f"{parent.name}."
    return [
        m
        for m in anatomy.modules
        if m.name not in anatomy.models
        and m.name.startswith(prefix)
        and "." not in m.name[len(prefix) :]
    ]


def _module(anatomy: Anatomy, parameter: str) -> str:
    """The names of parameters begin with their model's, those of modules do not."""
    path = parameter.rpartition(".")[0] or parameter
    root = next((root for root in anatomy.models if path.startswith(f"{root}_")), None)
    return path if root is None else path[len(root) + 1 :]


def _shape(
    anatomy: Anatomy, shapes: dict[str, tuple[int, ...]], module: str
) -> tuple[int, int] | None:
    """Of a linear layer's weight: outputs and inputs."""
    for root in anatomy.models:
        shape = shapes.get(f"{root}_{module}.weight")
        if shape is not None and len(shape) == 2:
            return shape[0], shape[1]
    return None
