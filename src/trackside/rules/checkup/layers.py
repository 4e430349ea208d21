"""Rules about layers: dead, saturated, or out of the gradient's reach."""

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np

from trackside.capture.reading.anatomy import Anatomy
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.initial_weights import is_matrix
from trackside.rules.checkup.vitals_rule import (
    FEW_BATCHES,
    LEARNT_WELL,
    SHORT_RUN,
    SMALL_BATCH,
    Sign,
    VitalsRule,
)
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FEWEST_LOSSES, VitalSigns

_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d")
_RECURRENT = re.compile(r"_l\d+(_reverse)?$")
"""Names of a recurrent module's weights: over one step those of its state have no gradient."""

_DONE = 0.01
"""A loss below this share of its start is learnt: then gradients of zero are no mistake."""
_FEWEST_LAYERS = 3
"""Matrices of weights before a gradient can fade on its way through them."""
_FALLEN = 1 / 3
"""A loss that fell by a third, also from its very first value, learns in spite of it."""
_LINGERING_STEPS, _LINGERING_PART = 20, 10
"""A loss that stands still for a tenth of the training, and 20 steps at least, has been held up."""
_FIRST_LAYERS = 4
"""The first quarter of the layers is where a faded gradient shows."""
_VALUES = (("query", "value"), ("key", "value"), ("q", "v"), ("k", "v"), ("Q", "V"), ("K", "V"))
"""What queries and keys are called, and values beside them."""
_FIRST_UPDATES = 5
"""Later gradients may be large because of the updates before them."""
_GROWN = 3.0
"""Times the loss by which an update has broken the model."""


@dataclass
class DeadLayer(VitalsRule):
    """A layer's ReLUs are dead: they pass no value forward, and so no gradient back.

    Fires when over `num_batches` batches in a row `share` of a ReLU layer's units had no positive
    value in the whole batch; or, where the ReLU is not a module, when a weight's gradient is
    exactly zero at as many saved steps while other gradients are not.
    """

    kind = Kind.CAUSE
    rests_on = ("activation/*/dead_share", "gradients:l2")
    ranks_before_if_at_start = "WeightsTooLarge"
    advice = (
        "Initialise biases at 0 and weights for ReLU (He), lower the learning rate, scale the "
        "inputs, or use LeakyReLU or GELU, which have a gradient on both sides."
    )

    num_batches: int = parameter(5, "Batches in a row.", at_least=1)
    share: float = parameter(0.9, "Share of the layer's units.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        found = list(self._silent(vitals))
        yield from found or self._without_gradient(vitals)

    def _silent(self, vitals: VitalSigns) -> Iterator[Sign]:
        size = vitals.vital("batch_size").median
        if size < SMALL_BATCH:
            return
        for name, dead in vitals.series_by_name("activation/", "/dead_share").items():
            place = _lasting(dead.values >= self.share, self.num_batches)
            if place is not None:
                value = float(dead.values[-1])
                yield Sign(
                    int(dead.steps[place]),
                    f"{value:.0%} of the units of layer {name} are dead ReLUs: no positive value "
                    f"in a whole batch, {len(dead) - place} times in a row.",
                    tensor=name,
                    value=value,
                    threshold=self.share,
                )

    def _without_gradient(self, vitals: VitalSigns) -> Iterator[Sign]:
        """One dead layer takes the gradient from all before it; its own bias has none either."""
        shapes = {p.name: p.shape for p in vitals.anatomy.parameters}
        left_out = {n for n in shapes if n in vitals.anatomy.tables or _RECURRENT.search(n)}
        known = vitals.tensors("l2", gradients=True)
        saved = [name for name in known if name.removeprefix("gradient/") not in left_out]
        names = [n for n in saved if len(shapes.get(n.removeprefix("gradient/"), ())) > 1]
        if len(names) < 2:
            return
        dead = {
            name: place
            for name in names
            if (place := _lasting(vitals.figure(name, "l2").values == 0, self.num_batches))
            is not None
        }
        alive = any(vitals.figure(name, "l2").last(FEW_BATCHES).median > 0 for name in saved)
        if dead and alive and not vitals.late_loss < _DONE * abs(vitals.early_loss):
            name = _behind_which(vitals, list(dead), saved)
            yield Sign(
                int(vitals.figure(name, "l2").steps[dead[name]]),
                f"{_whose(len(dead), len(names))}: the ReLUs after it are dead.",
                tensor=name.removeprefix("gradient/"),
                value=0.0,
                threshold=0.0,
            )


@dataclass
class SaturatedLayer(VitalsRule):
    """Most units of a hidden tanh or sigmoid layer are in the flat part of their function.

    Fires when `share` of the values of a layer that other layers follow are within 1 % of either
    end over `num_batches` batches in a row, up to the end, and the loss has not fallen to a tenth.
    """

    kind = Kind.CAUSE
    rests_on = ("activation/*/saturated_share", "activations:std")
    advice = (
        "Initialise with smaller weights (Xavier), scale the inputs, put a normalisation layer "
        "before the activation, or use a ReLU-like activation."
    )

    num_batches: int = parameter(5, "Batches in a row.", at_least=1)
    share: float = parameter(0.7, "Share of the layer's values.", at_least=0, at_most=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not vitals.is_settled or vitals.fall > LEARNT_WELL:
            return
        order = [m.name for m in vitals.anatomy.modules]
        layers = [m.name for m in vitals.anatomy.modules if m.type in _LAYERS]
        for name, series in vitals.series_by_name("activation/", "/saturated_share").items():
            behind = name in order and any(
                order.index(layer) > order.index(name) for layer in layers
            )
            place = _lasting(series.values >= self.share, self.num_batches)
            if behind and place is not None:
                value = float(series.values[-1])
                yield Sign(
                    int(series.steps[place]),
                    f"{value:.0%} of the values of layer {name} are saturated, within 1 % "
                    "of either end.",
                    tensor=name,
                    value=value,
                    threshold=self.share,
                )


@dataclass
class FadingGradient(VitalsRule):
    """The gradient has almost vanished when it reaches the first layers.

    Fires when over `num_steps` saved steps, from the first on, the gradients of the first quarter
    of all weight matrices, relative to the weights' norm, are below `share` of that of the last
    one, and one of these holds: the loss has not fallen by a third; it has fallen only from where
    the first updates had driven it; or it stayed up for a tenth of the training before it fell.
    Queries and keys of attention have small gradients at the start of every training, and are left
    out where the values beside them have a weight of their own. Where frozen matrices lie between
    trained ones, as beside adapters, the rule is silent: the trained ones are no chain of layers.
    So it is where the first quarter of all matrices is frozen: no gradient has to get there.
    """

    kind = Kind.CAUSE
    rests_on = ("gradient_norm", "gradients:l2")
    advice = (
        "Use ReLU or GELU instead of sigmoid or tanh, residual connections, normalisation layers, "
        "initialisation by fan-in, or fewer layers."
    )

    num_steps: int = parameter(10, "Saved steps before the rule may fire.", at_least=1)
    share: float = parameter(1e-3, "Share of the last layer's relative gradient.", at_least=0)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        tables = vitals.anatomy.tables
        chain = [
            p.name
            for p in vitals.anatomy.parameters
            if p.is_trained and is_matrix(p.shape) and p.name not in tables and p.tied_to is None
        ]
        likening = _queries_and_keys(vitals.anatomy)
        chain = [name for name in chain if name not in likening]
        relative = {name: _relative(vitals, name, self.num_steps) for name in chain}
        known = {name: value for name, value in relative.items() if math.isfinite(value)}
        if _is_interleaved(vitals.anatomy) or _is_top(vitals.anatomy):
            return
        if len(known) < _FEWEST_LAYERS or not vitals.is_settled or vitals.last_step < SHORT_RUN:
            return
        is_better = vitals.fall > _FALLEN and vitals.late_loss < (1 - _FALLEN) * vitals.first_loss
        if is_better and not vitals.lingers(
            max(_LINGERING_STEPS, vitals.last_step // _LINGERING_PART)
        ):
            return
        last = list(known.values())[-1]
        faded = [name for name, value in known.items() if 0 < value < self.share * last]
        first = list(known)[: max(1, len(known) // _FIRST_LAYERS)]
        if faded[: len(first)] == first:
            yield Sign(
                int(vitals.figure(f"gradient/{faded[0]}", "l2").steps[0]),
                f"The gradient of {faded[0]} is {known[faded[0]] / last:.2g} of the last layer's, "
                f"both over their weights' length, below {self.share:g}: it vanishes on the way "
                f"through {len(known)} layers, in {len(faded)} of them.",
                tensor=faded[0],
                value=known[faded[0]] / last,
                threshold=self.share,
            )


def _queries_and_keys(anatomy: Anatomy) -> set[str]:
    """Weights that have a twin for values beside them, of the same name but for that: q_proj beside
    v_proj, key beside value. They only say where to look, and all places are alike at first."""
    names = {p.name for p in anatomy.parameters}
    found: set[str] = set()
    for name in names:
        parent, _, leaf = name.removesuffix(".weight").rpartition(".")
        rest = name[len(parent) + bool(parent) + len(leaf) :]
        twins = {leaf.replace(ours, values) for ours, values in _VALUES} - {leaf}
        if any(f"{parent}.{twin}{rest}" in names for twin in twins):
            found.add(name)
    return found


def _is_interleaved(anatomy: Anatomy) -> bool:
    """Whether frozen matrices lie between the first and the last trained one."""
    kinds = [p.requires_grad for p in anatomy.parameters if is_matrix(p.shape)]
    trained = [place for place, is_trained in enumerate(kinds) if is_trained]
    return bool(trained) and not all(kinds[trained[0] : trained[-1]])


def _is_top(anatomy: Anatomy) -> bool:
    """Whether the first layers are frozen, and what lies above them is trained."""
    kinds = [p.requires_grad for p in anatomy.parameters if is_matrix(p.shape)]
    return bool(kinds) and not any(kinds[: max(1, len(kinds) // _FIRST_LAYERS)])


@dataclass
class ExplodingGradient(VitalsRule):
    """Gradients are so large that a small change of the weights changes the loss many times over.

    Fires when |gradient| x |weights| / |loss|, which is about 1 to 10 in ordinary trainings, is
    above `elasticity` at one of the first updates, before an update has made the loss three times
    larger, and the loss then becomes NaN or infinite or ends at three times its start. The loss is
    taken as at least its usual size, and a policy's, which may be near 0, is not judged. Nor are
    infinite gradients of a training in float16.
    """

    kind = Kind.CAUSE
    rests_on = ("gradient_norm", "gradients:l2")
    advice = (
        "Clip gradients (clip_grad_norm_), initialise the recurrent weights orthogonally with gain "
        "1, use LSTM or GRU, shorter sequences, or normalisation layers."
    )

    elasticity: float = parameter(
        300.0, "Relative change of the loss per relative change of weights."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        norm = vitals.vital("gradient_norm").first(_FIRST_UPDATES)
        names = [p.name for p in vitals.anatomy.parameters if len(vitals.figure(p.name, "l2"))]
        if not len(norm) or not names or not len(vitals.loss):
            return
        if vitals.is_of_policy:
            return
        usual = abs(vitals.loss.first(FEWEST_LOSSES).median)
        length = math.sqrt(sum(float(vitals.figure(n, "l2").values[0]) ** 2 for n in names))
        losses = dict(zip(vitals.loss.steps.tolist(), vitals.loss.values.tolist(), strict=True))
        for step, value in zip(norm.steps.tolist(), norm.values.tolist(), strict=True):
            loss = abs(losses.get(step, math.nan))
            if loss > _GROWN * abs(vitals.first_loss):
                return  # by now the updates have caused it
            if not math.isfinite(value) and is_in_float16(vitals.anatomy):
                return  # `Float16Overflow` says so
            size = max(loss, usual) if math.isfinite(usual) else loss
            elasticity = value * length / size if loss > 0 else math.nan
            if elasticity > self.elasticity and _goes_wrong(vitals):
                yield Sign(
                    step,
                    f"The gradient norm is {value:.3g} at a loss of {loss:.3g}: a change of the "
                    f"weights by 1 % would change the loss {elasticity * 0.01:.3g} times.",
                    tensor=_largest(vitals, step),
                    value=elasticity,
                    threshold=self.elasticity,
                )
                return


def is_in_float16(anatomy: Anatomy) -> bool:
    kinds = {each.dtype for each in anatomy.parameters if each.is_trained}
    return anatomy.autocast == "float16" or "float16" in kinds


def _goes_wrong(vitals: VitalSigns) -> bool:
    rises = vitals.late_loss > _GROWN * abs(vitals.early_loss)
    return math.isfinite(vitals.ends_at) or (rises and vitals.is_settled)


def _whose(num_dead: int, num_weights: int) -> str:
    if num_dead == num_weights:
        return (
            f"The gradients of all {num_weights} weights are exactly zero while those of biases "
            "are not; this weight is the last without a gradient"
        )
    return (
        f"The gradients of {num_dead} of {num_weights} weights, up to this weight, are exactly "
        "zero while those of others are not"
    )


def _behind_which(vitals: VitalSigns, dead: list[str], saved: list[str]) -> str:
    """The last weight in front of dead ReLUs. One that only gets zeros from them has no gradient
    either, but its bias has."""

    def has_live_bias(name: str) -> bool:
        module = f"{name.rpartition('.')[0]}."
        others = [n for n in saved if n.startswith(module) and n not in dead]
        return any(vitals.figure(each, "l2").last(FEW_BATCHES).median > 0 for each in others)

    return next((name for name in reversed(dead) if not has_live_bias(name)), dead[-1])


def _lasting(holds: "np.ndarray[tuple[int], np.dtype[np.bool_]]", count: int) -> int | None:
    """Where the stretch begins that still lasts, if it is long enough."""
    wrong = np.flatnonzero(~holds)
    start = int(wrong[-1]) + 1 if len(wrong) else 0
    return start if len(holds) - start >= count else None


def _relative(vitals: VitalSigns, name: str, count: int) -> float:
    gradient = vitals.figure(f"gradient/{name}", "l2")
    weight = vitals.figure(name, "l2")
    if len(gradient) < count or not len(weight) or not weight.values[0] > 0:
        return math.nan
    return gradient.first(count).median / float(weight.values[0])


def _largest(vitals: VitalSigns, step: int) -> str:
    """The weight with the largest gradient then."""
    found = {
        name: float(series.values[series.steps == step].max(initial=0.0))
        for name in vitals.tensors("l2", gradients=True)
        if len(series := vitals.figure(name, "l2"))
    }
    return max(found, key=lambda name: found[name]).removeprefix("gradient/") if found else ""
