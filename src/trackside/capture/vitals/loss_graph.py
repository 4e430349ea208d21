"""Reads the graph that a loss was computed by: what lies between the layers, and before the loss.

Goes by names and shapes of its nodes alone. What they saved stays as it is: to look at it may set
off a checkpointed part anew.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
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
_ELEMENTWISE = ("Sub", "Rsub", "Mul", "Div")
_PLAIN = (*_ELEMENTWISE, "Add", "Neg", "Pow", "Abs", "Sqrt", "Mean", "Sum")
"""What a loss of one's own is made of. Kernels and matchings, which compare each with each on
purpose, have others, too."""
_TURNING = ("T", "Transpose", "Permute", "ToCopy")
_SHAPING = (*_TURNING, "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Alias")
"""Values stay what they are."""
_PICKING = ("Slice", "Select", "Index", "Narrow", "Clone")


def read_graph(loss: Tensor, names: Mapping[int, str]) -> dict[str, Any]:
    """`outputs` are activations right before a loss, `pairs` linear layers right behind each other,
    `broadcast` shapes of what was predicted and of what became of it beside a target, and
    `asks_for_others` is whether gradients go to tensors without a name.

    `names` has those of the parameters, by their identity.
    """
    found: dict[str, Any] = {"outputs": [], "pairs": [], "broadcast": None}
    found["asks_for_others"] = False
    for node, is_plain in _nodes(loss.grad_fn):
        kind = _kind(node)
        if kind in _LOSSES:
            found["outputs"] += _outputs(node, _LOSSES[kind])
        elif kind in _LINEAR:
            found["pairs"] += _pairs(node, names)
        elif _is_leaf(node):
            found["asks_for_others"] |= id(node.variable) not in names
        if is_plain and kind in _ELEMENTWISE and found["broadcast"] is None:
            found["broadcast"] = _broadcast(node)
    return found


def _nodes(start: Any) -> Iterator[tuple[Any, bool]]:
    """Each once, and whether all from the loss down to it is plain arithmetic."""
    waiting = deque([(start, True)] if start is not None else [])
    seen = {start}
    while waiting and len(seen) < _MOST_NODES:
        node, is_plain = waiting.popleft()
        yield node, is_plain
        is_plain = is_plain and _kind(node) in _PLAIN
        for arm in _arms(node):
            if arm not in seen:
                seen.add(arm)
                waiting.append((arm, is_plain))


def _outputs(node: Any, loss: str) -> Iterator[dict[str, Any]]:
    below = _follow(next(iter(_arms(node)), None), (*_SHAPING, *_PICKING))
    activation = _ACTIVATIONS.get(_kind(below)) if below is not None else None
    if activation is not None:
        shape, axis = _shape(below), _axis(below)
        size = shape[axis] if axis is not None and -len(shape) <= axis < len(shape) else None
        yield {"loss": loss, "activation": activation, "axis": axis, "size": size}


def _pairs(node: Any, names: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    """This layer and the one whose output it gets, unless something stands between."""
    second = _weight(node)
    before = _follow(_input(node), _SHAPING)
    if second is None or before is None:
        return
    if _kind(before) == "Add":  # of a bias, which `x @ weight + bias` adds by itself
        others = [arm for arm in _arms(before) if not _is_small_leaf(arm)]
        before = _follow(others[0], _SHAPING) if len(others) == 1 else None
    first = None if before is None or _kind(before) not in _LINEAR else _weight(before)
    if first is not None and {id(first[0]), id(second[0])} <= names.keys():
        yield {
            "first": names[id(first[0])],
            "second": names[id(second[0])],
            "widths": [first[1], first[2], second[2]],
        }


def _broadcast(node: Any) -> list[list[int]] | None:
    """A prediction that only its target made larger: N of them became N times N."""
    arms = _arms(node)
    if len(arms) != 1:
        return None
    given, made = _shape(arms[0]), _shape(node)
    is_column = given in ((made[:1] + (1,)), made[:1])
    if len(made) == 2 and made[0] == made[1] > 1 and is_column:
        return [list(given), list(made)]
    return None


def _weight(node: Any) -> tuple[Any, int, int] | None:
    """A layer's weight with the numbers of its inputs and outputs."""
    for arm in reversed(_arms(node)):
        end = _follow(arm, _TURNING)
        if end is not None and _is_leaf(end) and end.variable.dim() == 2:
            rows, columns = end.variable.shape
            is_turned = end is not arm or _kind(node) == "Linear"
            return (end.variable, columns, rows) if is_turned else (end.variable, rows, columns)
    return None


def _input(node: Any) -> Any:
    return next((arm for arm in _arms(node) if not _is_leaf(_follow(arm, _TURNING))), None)


def _follow(node: Any, passed: tuple[str, ...]) -> Any:
    """Down as long as there is one way, to the first that is not of these kinds."""
    while node is not None and _kind(node) in passed:
        arms = _arms(node)
        node = arms[0] if len(arms) == 1 else None
    return node


def _arms(node: Any) -> list[Any]:
    return [each for each, _ in node.next_functions if each is not None]


def _kind(node: Any) -> str:
    return _KIND.sub("", node.name())


def _is_leaf(node: Any) -> bool:
    return node is not None and node.name() == _LEAF


def _is_small_leaf(node: Any) -> bool:
    return _is_leaf(node) and node.variable.dim() <= 1


def _shape(node: Any) -> tuple[int, ...]:
    """Of what the node returned; empty where this torch does not say."""
    metadata = getattr(node, "_input_metadata", ())
    return tuple(int(size) for size in metadata[0].shape) if metadata else ()


def _axis(node: Any) -> int | None:
    """Of a softmax. Negative ones come as 64 bits without a sign."""
    axis = getattr(node, "_saved_dim", None)
    return axis if axis is None or axis < 1 << 63 else axis - (1 << 64)
