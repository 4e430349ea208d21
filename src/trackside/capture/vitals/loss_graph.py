"""Reads the graph that computed a loss: what is between the layers, and before the loss.

Uses only names and shapes of its nodes. Saved tensors are not read: that may run a checkpointed
part again.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

_MOST_NODES = 1000
_KIND = re.compile(r"Backward\d*$")
_LEAF = "torch::autograd::AccumulateGrad"
_LOSSES = {
    "LogSoftmax": "cross_entropy",
    "BinaryCrossEntropyWithLogits": "binary_cross_entropy_with_logits",
    "BinaryCrossEntropy": "binary_cross_entropy",
    "MseLoss": "mse_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
}
_ACTIVATIONS = {
    "Softmax": "softmax",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Relu": "relu",
}
_LINEAR = ("Addmm", "Mm", "Linear")
_RAW = (*_LINEAR, "Convolution")
"""Layers whose outputs have no bounds."""
_ELEMENTWISE = ("Sub", "Rsub", "Mul", "Div")
_PLAIN = (*_ELEMENTWISE, "Add", "Neg", "Pow", "Abs", "Sqrt", "Mean", "Sum")
"""Operations of hand-written losses. Kernels and matchings, which compare all pairs on purpose,
have others, too.
"""
_TURNING = ("T", "Transpose", "Permute", "ToCopy")
_SHAPING = (*_TURNING, "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Alias")
"""Values are unchanged."""
_PICKING = ("Slice", "Select", "Index", "Narrow", "Clone")
_VIEWING = ("View", "UnsafeView", "ReshapeAlias")
_KEEPING = (*_VIEWING, "Squeeze", "Unsqueeze", "Expand", "Alias", "Clone")
"""The last axis stays the last."""
_SCORING = (*_KEEPING, "Div", "Mul", "Add", "Sub", "MaskedFill", "Where")
_PRODUCTS = ("Mm", "Bmm")
_ATTENTION = ("Bmm", "Baddbmm", "ScaledDotProduct")
"""How the kinds of nodes begin that multiply queries, keys and values."""
_AROUND_ATTENTION = (*_SHAPING, "Clone", "Expand", "Mul", "Div")
_MOST_VIEWS = 8


def read_graph(
    loss: Tensor, names: Mapping[int, str], owners: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """`outputs` are activations right before a loss, or `linear` for a layer, `pairs` linear layers
    right behind each other, `broadcast` shapes of what was predicted and of what became of it
    beside a target, `attention` softmaxes of attention that go along another axis than the keys',
    `reshaped` shapes before and after a view that seems meant to swap axes, `is_likeness_scaled`
    whether a loss is over likenesses that were divided by a number, and `asks_for_others` whether
    gradients go to tensors without a name.

    `names` has those of the parameters, by their identity, and `owners` the number of the model
    that each is in: layers of two models that follow one another may be meant to be apart.
    """
    found: dict[str, Any] = {"outputs": [], "pairs": [], "attention": [], "reshaped": []}
    found |= {"broadcast": None, "asks_for_others": False, "is_likeness_scaled": False}
    users: dict[Any, Any] = {}
    for node, is_plain in _nodes(loss.grad_fn, users):
        kind = kind_of(node)
        if kind in _LOSSES:
            found["outputs"] += _outputs(node, _LOSSES[kind])
            found["is_likeness_scaled"] |= _is_likeness_scaled(node)
        elif kind in _LINEAR:
            found["pairs"] += _pairs(node, names, owners or {})
        elif kind == "Bmm":
            found["attention"] += _attention(node)
        elif kind in _VIEWING and len(found["reshaped"]) < _MOST_VIEWS:
            found["reshaped"] += _reshaped(node, users)
        elif is_leaf(node):
            found["asks_for_others"] |= id(node.variable) not in names
        if is_plain and kind in _ELEMENTWISE and found["broadcast"] is None:
            found["broadcast"] = _broadcast(node)
    return found


def _nodes(start: Any, users: dict[Any, Any]) -> Iterator[tuple[Any, bool]]:
    """Each once, and whether everything from the loss down to it is plain arithmetic. `users` gets
    the first node that uses each."""
    waiting = deque([(start, True)] if start is not None else [])
    seen = {start}
    while waiting and len(seen) < _MOST_NODES:
        node, is_plain = waiting.popleft()
        yield node, is_plain
        is_plain = is_plain and kind_of(node) in _PLAIN
        for arm in arms_of(node):
            if arm not in seen:
                seen.add(arm)
                users[arm] = node
                waiting.append((arm, is_plain))


def _outputs(node: Any, loss: str) -> Iterator[dict[str, Any]]:
    below = follow(next(iter(arms_of(node)), None), (*_SHAPING, *_PICKING))
    if below is None:
        return
    if kind_of(below) in _RAW:
        yield {"loss": loss, "activation": "linear"}
    elif (activation := _ACTIVATIONS.get(kind_of(below))) is not None:
        shape, axis = shape_of(below), axis_of(below)
        size = shape[axis] if axis is not None and -len(shape) <= axis < len(shape) else None
        yield {"loss": loss, "activation": activation, "axis": axis, "size": size}


def _pairs(
    node: Any, names: Mapping[int, str], owners: Mapping[int, int]
) -> Iterator[dict[str, Any]]:
    """This layer and the one whose output it gets, if nothing is between."""
    second = _weight(node)
    before = follow(_input(node), _SHAPING)
    if second is None or before is None:
        return
    if kind_of(before) == "Add":  # of a bias, which `x @ weight + bias` adds by itself
        others = [arm for arm in arms_of(before) if not _is_small_leaf(arm)]
        before = follow(others[0], _SHAPING) if len(others) == 1 else None
    first = None if before is None or kind_of(before) not in _LINEAR else _weight(before)
    if first is None or owners.get(id(first[0])) != owners.get(id(second[0])):
        return
    if {id(first[0]), id(second[0])} <= names.keys():
        yield {
            "first": names[id(first[0])],
            "second": names[id(second[0])],
            "widths": [first[1], first[2], second[2]],
        }


def _attention(node: Any) -> Iterator[dict[str, Any]]:
    """Weights from a product's scores that sum to 1 along another axis than what they weigh."""
    first = node.next_functions[0][0]
    weights = follow(first, (*_KEEPING, "Mul", "NativeDropout"))
    if weights is None or kind_of(weights) != "Softmax":
        return
    scores = follow(next(iter(arms_of(weights)), None), _SCORING)
    shape, axis = shape_of(weights), axis_of(weights)
    if scores is None or kind_of(scores) != "Bmm" or axis is None or len(shape) < 2:
        return
    if axis % len(shape) != len(shape) - 1 and shape_of(first)[-1:] == shape[-1:]:
        yield {"axis": axis % len(shape), "shape": list(shape)}


def _reshaped(node: Any, users: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    given, made = (shape_of(each) for each in (next(iter(arms_of(node)), node), node))
    if takes_places(given, made) and not _splits_heads(node, users):
        yield {"given": list(given), "made": list(made)}


def _splits_heads(node: Any, users: Mapping[Any, Any]) -> bool:
    """Whether axes are swapped by a transpose beside this view, on the way to or from attention.

    `nn.MultiheadAttention` makes [time, batch * heads, n] of [time, batch, width] so: with as many
    samples as a head has units the sizes are those of a swap.
    """
    return _turns_into_attention(node, users.get) or _turns_into_attention(node, _only_arm)


def _turns_into_attention(node: Any, step: Callable[[Any], Any]) -> bool:
    """Whether a walk along the graph crosses a transpose and then finds a product of attention."""
    is_turned = False
    node = step(node)
    while node is not None and kind_of(node) in _AROUND_ATTENTION:
        is_turned |= kind_of(node) in ("Transpose", "Permute")
        node = step(node)
    return is_turned and node is not None and kind_of(node).startswith(_ATTENTION)


def _only_arm(node: Any) -> Any:
    arms = arms_of(node)
    return arms[0] if len(arms) == 1 else None


def takes_places(given: tuple[int, ...], made: tuple[int, ...]) -> bool:
    """Whether sizes are as after a swap of axes, though a view leaves all values in their order:
    the same ones in another order, [layers, batch, n] as [batch, all], heads as if before time, or
    time as if before heads."""
    if sorted(given) == sorted(made):
        return [size for size in given if size > 1] != [size for size in made if size > 1]
    if len(given) < 3 or len(made) < 2 or min(given[:2]) < 2:
        return False
    if len(made) == 2 and made[0] == given[1] != given[0]:
        return True
    if len(given) == 4 and len(made) == 3 and given[0] == made[0]:
        return made[1] == given[2] != given[1] and made[2] == given[1] * given[3]
    if len(given) == 3 and len(made) == 4 and given[0] == made[0] and made[1] > 1:
        return made[2] == given[1] != made[1] and made[1] * made[3] == given[2]
    return False


def _is_likeness_scaled(node: Any) -> bool:
    """Whether scores are products of two outputs, times or over a number that is not learnt."""
    scaled = follow(next(iter(arms_of(node)), None), _SHAPING)
    if scaled is None or kind_of(scaled) not in ("Div", "Mul") or len(arms_of(scaled)) != 1:
        return False
    product = follow(arms_of(scaled)[0], _SHAPING)
    return product is not None and kind_of(product) in _PRODUCTS and _weight(product) is None


def _broadcast(node: Any) -> list[list[int]] | None:
    """A prediction that only its target made larger: N of them became N times N."""
    arms = arms_of(node)
    if len(arms) != 1:
        return None
    given, made = shape_of(arms[0]), shape_of(node)
    is_column = given in ((made[:1] + (1,)), made[:1])
    if len(made) == 2 and made[0] == made[1] > 1 and is_column:
        return [list(given), list(made)]
    return None


def _weight(node: Any) -> tuple[Any, int, int] | None:
    """A layer's weight with the numbers of its inputs and outputs."""
    for arm in reversed(arms_of(node)):
        end = follow(arm, _TURNING)
        if end is not None and is_leaf(end) and end.variable.dim() == 2:
            rows, columns = end.variable.shape
            is_turned = end is not arm or kind_of(node) == "Linear"
            return (end.variable, columns, rows) if is_turned else (end.variable, rows, columns)
    return None


def _input(node: Any) -> Any:
    return next((arm for arm in arms_of(node) if not is_leaf(follow(arm, _TURNING))), None)


def follow(node: Any, passed: tuple[str, ...]) -> Any:
    """Down while there is one path, to the first node of another kind."""
    while node is not None and kind_of(node) in passed:
        node = _only_arm(node)
    return node


def arms_of(node: Any) -> list[Any]:
    return [each for each, _ in node.next_functions if each is not None]


def kind_of(node: Any) -> str:
    return _KIND.sub("", node.name())


def is_leaf(node: Any) -> bool:
    return node is not None and node.name() == _LEAF


def _is_small_leaf(node: Any) -> bool:
    return is_leaf(node) and node.variable.dim() <= 1


def shape_of(node: Any) -> tuple[int, ...]:
    """Of the node's result; empty if this torch does not have it."""
    metadata = getattr(node, "_input_metadata", ())
    return tuple(int(size) for size in metadata[0].shape) if metadata else ()


def axis_of(node: Any) -> int | None:
    """Of a softmax. Negative ones are unsigned 64-bit numbers."""
    axis = getattr(node, "_saved_dim", None)
    return axis if axis is None or axis < 1 << 63 else axis - (1 << 64)
