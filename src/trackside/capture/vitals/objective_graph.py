"""Reads what a loss does with log probabilities, targets and noise, by the graph that computed it.

As `loss_graph.py`: only kinds of nodes and how they are connected. An end of the graph is a node
and the number of its output.
"""

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from trackside.capture.vitals.loss_graph import arms_of, follow, is_leaf, kind_of, shape_of

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
