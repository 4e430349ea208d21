"""Reads what a loss does with log probabilities, targets and noise, by the graph that computed it.

As `loss_graph.py`: only kinds of nodes and how they are connected. An end of the graph is a node
and the number of its output.
"""

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from trackside.capture.vitals.loss_graph import (
    arms_of,
    axis_of,
    follow,
    is_leaf,
    kind_of,
    shape_of,
)

End = tuple[Any, int]
_MOST_NODES = 1000
_SUMMING = ("Neg", "Sum", "Mean", "Squeeze", "Unsqueeze", "View", "UnsafeView", "Index", "Select")
"""Between a log probability and what weighs it."""
_JOINING = ("Stack", "Cat")
"""Of log probabilities of single steps: the last stands for all."""
_PICKED_BY = ("Gather", "Index")
_PLAIN = ("Neg", "Mul", "Div", "Add", "Sub", "Rsub", "Pow", "Exp", "Mean", "Sum", "Clamp")
_SHAPING = ("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze")
_ADDING = ("Add", "Sub", "Rsub")
_MOST_TERMS = 32
_SOFTMAXES = ("Softmax", "LogSoftmax")
_LAYERS = ("Addmm", "Linear")


def leaves(start: Any, without: Any = None) -> dict[int, Any]:
    """Parameters that gradients flow to, by identity; not through the node `without`."""
    found = [node for node in _nodes(start, without) if is_leaf(node)]
    return {id(node.variable): node.variable for node in found}


def is_weight_trained(loss: Any, scores: Collection[Any]) -> bool:
    """Whether one of `scores`, nodes of log probabilities, is multiplied by something that
    gradients flow into: by more than a number, and by something else than probabilities."""
    for node in _nodes(loss):
        arms = arms_of(node)
        if kind_of(node) != "Mul" or len(arms) != 2:
            continue
        for score, weight in (arms, arms[::-1]):
            if _is_score(score, scores) and _is_apart(weight, scores):
                return True
    return False


def _is_score(node: Any, scores: Collection[Any]) -> bool:
    """Through sums; also a ratio of probabilities, of which the other one is fixed."""
    node = _down(node, scores)
    if kind_of(node) == "Exp":
        below = next(iter(arms_of(node)), None)
        is_ratio = below is not None and kind_of(below) == "Sub" and len(arms_of(below)) == 1
        node = _down(arms_of(below)[0], scores) if is_ratio else node
    return node in scores


def _down(node: Any, scores: Collection[Any]) -> Any:
    while node not in scores and kind_of(node) in (*_SUMMING, *_JOINING):
        arms = arms_of(node)
        if not arms or (len(arms) > 1 and kind_of(node) not in _JOINING):
            return node
        node = arms[-1]
    return node


def _is_apart(weight: Any, scores: Collection[Any]) -> bool:
    is_number = all(size == 1 for size in shape_of(weight))
    return not is_number and not any(node in scores for node in _nodes(weight))


def is_likelihood(loss: Any) -> bool:
    """Whether it is plain arithmetic on log probabilities, one picked in each row."""
    waiting, seen, is_picked = [loss], {loss}, False
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        kind = kind_of(node)
        if kind in _PICKED_BY:
            below = follow(next(iter(arms_of(node)), None), _SHAPING)
            if below is None or kind_of(below) != "LogSoftmax":
                return False
            is_picked = True
        elif kind not in (*_PLAIN, *_SHAPING):
            return False
        else:
            new = [arm for arm in arms_of(node) if arm not in seen]
            seen.update(new)
            waiting += new
    return is_picked


def raw_spread(loss: Any) -> str:
    """`logarithm` or `variance` if noise is multiplied by that and added to a mean, where its
    exponential is summed with the square of that mean; else empty.

    A deviation is the exponential of half the logarithm of the variance.
    """
    users = _users(loss)
    for end, used_by in users.items():
        variances = [node for node in used_by if kind_of(node) == "Exp"]
        if not any(_is_summed(node, users) for node in variances):
            continue
        if _shifts_mean(end, users):
            return "logarithm"
        if any(_shifts_mean((node, 0), users) for node in variances):
            return "variance"
    return ""


def variance_in_divergence(loss: Any) -> Any:
    """The node of exp(s) in a sum that also has s itself and the square of something else, as the
    divergence of a normal distribution with the logarithm s of its variance has; None without."""
    users = _users(loss)
    for end, used_by in users.items():
        for variance in (node for node in used_by if kind_of(node) == "Exp"):
            for total in users.get((variance, 0), ()):
                if kind_of(total) in _ADDING and _sums(total, end, users):
                    return variance
    return None


def entropy_of_policy(loss: Any) -> Any:
    """The node of p * log p, summed to an entropy, beside log probabilities of the same scores of
    which one in each row is picked and weighed by numbers without a gradient; None without."""
    users = _users(loss)
    for node in _nodes(loss):
        arms = arms_of(node)
        if kind_of(node) != "Mul" or len(arms) != 2:
            continue
        for likely, log in (arms, arms[::-1]):
            is_log = kind_of(log) == "LogSoftmax"
            if is_log and _are_of_one(likely, log) and _is_weighed(log.next_functions[0], users):
                return node
    return None


def _are_of_one(likely: Any, log: Any) -> bool:
    """Whether these are the probabilities of those log probabilities."""
    if kind_of(likely) == "Exp":
        return arms_of(likely)[0] is log
    return kind_of(likely) == "Softmax" and likely.next_functions[0] == log.next_functions[0]


def _is_weighed(scores: End, users: dict[End, list[Any]]) -> bool:
    logs = [node for node in users.get(scores, ()) if kind_of(node) == "LogSoftmax"]
    picked = [n for log in logs for n in users.get((log, 0), ()) if kind_of(n) in _PICKED_BY]
    while picked:
        above = [node for each in picked for node in users.get((each, 0), ())]
        if any(kind_of(n) == "Mul" and len(arms_of(n)) == 1 and _is_wide(n) for n in above):
            return True
        picked = [node for node in above if kind_of(node) in (*_SHAPING, "Neg")]
    return False


def _is_wide(node: Any) -> bool:
    return any(size > 1 for size in shape_of(node))


def has_free_precision(loss: Any) -> bool:
    """Whether squares are multiplied by exp(-s), or divided by exp(s), and the loss has s nowhere
    else: nothing keeps s from growing."""
    users = _users(loss)
    if len(users) >= _MOST_NODES:
        return False  # what is further down may use it
    return any(_is_free(node, users) for node in _nodes(loss))


def _is_free(node: Any, users: dict[End, list[Any]]) -> bool:
    arms = arms_of(node)
    if kind_of(node) not in ("Mul", "Div") or len(arms) != 2:
        return False
    pairs = [arms] if kind_of(node) == "Mul" else []
    for first, second in (*pairs, arms[::-1]):
        factor, square = _unscaled(first), _unscaled(second)
        if kind_of(factor) != "Exp" or not _is_square(square):
            continue
        end, only = factor.next_functions[0], factor
        if kind_of(node) == "Mul":
            if kind_of(end[0]) != "Neg":
                continue
            end, only = end[0].next_functions[0], end[0]
        is_alone = users.get((factor, 0), []) == [_above(factor, node, users)]
        return is_alone and users.get(end, []) == [only] and not is_leaf(end[0])
    return False


def _above(factor: Any, product: Any, users: dict[End, list[Any]]) -> Any:
    """The node through which the factor gets into the product."""
    found = users.get((factor, 0), [product])
    return found[0]


def _unscaled(node: Any) -> Any:
    """Without constant factors."""
    while kind_of(node) in ("Mul", "Div") and len(arms_of(node)) == 1:
        node = arms_of(node)[0]
    return node


def softmax_over_samples(loss: Any) -> tuple[int, ...]:
    """The shape of a layer's scores of which a loss by the script's own arithmetic has the log
    softmax along the first axis, and no other one; empty without."""
    users = _users(loss)
    for node in _nodes(loss):
        shape = shape_of(node)
        if kind_of(node) != "LogSoftmax" or axis_of(node) not in (0, -2) or len(shape) != 2:
            continue
        end = node.next_functions[0]
        others = [each for each in users.get(end, ()) if kind_of(each) in _SOFTMAXES]
        is_of_layer = others == [node] and kind_of(end[0]) in _LAYERS
        if min(shape) < 2 or shape[0] == shape[1] or not is_of_layer:
            continue
        used = {kind_of(each) for each in users.get((node, 0), ())}
        return shape if used <= {*_PLAIN, *_PICKED_BY} else ()
    return ()


def _sums(total: Any, end: End, users: dict[End, list[Any]]) -> bool:
    """Whether `end` and a square are terms of the sum that `total` belongs to."""
    while any(kind_of(above) in _ADDING for above in users.get((total, 0), ())):
        total = next(each for each in users[total, 0] if kind_of(each) in _ADDING)
    terms: list[End] = []
    waiting = [total]
    while waiting and len(terms) < _MOST_TERMS:
        for term in waiting.pop().next_functions:
            if term[0] is not None and kind_of(term[0]) in _ADDING and term != end:
                waiting.append(term[0])
            elif term[0] is not None:
                terms.append(term)
    return end in terms and any(_is_square(node) for node, _ in terms)


def _is_square(node: Any) -> bool:
    arms = node.next_functions
    return kind_of(node) == "Pow" or (
        kind_of(node) == "Mul" and len(arms) == 2 and arms[0] == arms[1]
    )


def _is_summed(variance: Any, users: dict[End, list[Any]]) -> bool:
    return any(kind_of(node) in _ADDING for node in users.get((variance, 0), ()))


def _shifts_mean(end: End, users: dict[End, list[Any]]) -> bool:
    """`end * noise + mean`, of a mean that is also squared. Noise has no gradient."""
    for product in users.get(end, ()):
        if kind_of(product) != "Mul" or len(arms_of(product)) != 1:
            continue
        for total in users.get((product, 0), ()):
            means = [each for each in total.next_functions if each[0] not in (None, product)]
            if kind_of(total) == "Add" and any(_is_squared(mean, users) for mean in means):
                return True
    return False


def _is_squared(end: End, users: dict[End, list[Any]]) -> bool:
    return any(
        kind_of(node) == "Pow" or (kind_of(node) == "Mul" and node.next_functions == (end, end))
        for node in users.get(end, ())
    )


def _users(start: Any) -> dict[End, list[Any]]:
    found: dict[End, list[Any]] = {}
    for node in _nodes(start):
        for end in dict.fromkeys(node.next_functions):
            if end[0] is not None:
                found.setdefault(end, []).append(node)
    return found


def _nodes(start: Any, without: Any = None) -> Iterator[Any]:
    waiting = deque([] if start is None or start is without else [start])
    seen = {start, without}
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.popleft()
        yield node
        for arm in arms_of(node):
            if arm not in seen:
                seen.add(arm)
                waiting.append(arm)
