"""What is minimised: targets and advantages of reinforcement learning, accumulated gradients, and
masks that a model is given.
"""

import ast
import re
from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at
from trackside.check.trace import Action, Branch, Event, Loop, Trace
from trackside.check.values import Kind, Value

_ADVANTAGE = re.compile(r"^(adv|advs|advantages?|.*_adv(antages?)?)$")
_VALUE = re.compile(r"^(v|vs|values?|(state|old|pred)_values?|baselines?|critic_values?)$")
_RETURN = re.compile(r"^(returns?|rewards?|rets?|rews?|rtgs?|td_targets?|discounted_\w+)$")
_REWARD = re.compile(r"^(r|rs|rew|rews|rewards?|batch_rewards?|reward_batch|rew_batch|b_r)$")
_DONE = re.compile(
    r"^(d|ds|dones?|terminals?|terminated|terms?|ends?|batch_dones?|done_batch|b_d)$"
)
_DISCOUNT = re.compile(r"gamma|discount", re.IGNORECASE)
_TURNS = re.compile(r"reversed\(|::-1|\.reverse\(|\bflip(ud|lr)?\(|\.insert\(|appendleft|lfilter")
"""What puts a list in the other order."""
_CUT = re.compile(r"detach|no_grad|inference_mode|\.item\(|\.data\b|numpy|stop_grad")
_MASK = re.compile(r"(^|_)(mask|segments?|segment_ids|seg_ids|doc_ids|document_ids)$")
_SOFTMAXES = ("softmax", "log_softmax")
_SIDES = 2
"""Of a divergence."""
_ALIKE = 2
"""Accumulation over fewer has no first group of another size that matters."""


def advantage_reversed(trace: Trace) -> Iterator[Remark]:
    """`advantage = value - return`."""
    for path, node in _assigned(trace):
        name = _base_name(node.targets[0])
        value = node.value
        if not _ADVANTAGE.match(name) or not isinstance(value, ast.BinOp):
            continue
        if isinstance(value.op, ast.Sub):
            left, right = _base_name(value.left), _base_name(value.right)
            if _VALUE.match(left) and _RETURN.match(right):
                yield Remark(
                    path,
                    node.lineno,
                    f"{name} is {left} less {right}: what went better than expected counts as bad.",
                )


def returns_of_the_past(trace: Trace) -> Iterator[Remark]:
    """`for r in rewards: g = r + gamma * g; returns.append(g)`, where nothing is ever turned."""
    for path, tree in trace.trees:
        text = ast.unparse(tree)
        if _TURNS.search(text) or "log_prob" not in text:
            continue
        for loop in (each for each in ast.walk(tree) if isinstance(each, ast.For)):
            kept = {
                _base_name(node.args[0])
                for node in ast.walk(loop)
                if isinstance(node, ast.Call) and _called_name(node) == "append" and node.args
            }
            for node in (each for each in loop.body if isinstance(each, ast.Assign)):
                name = _base_name(node.targets[0])
                is_given = any(_base_name(each) == name for each in ast.walk(loop.target))
                if name in kept and not is_given and _adds_to_past(node.value, name, loop):
                    yield Remark(
                        path,
                        node.lineno,
                        f"{name} has the rewards up to each step, from the first on: what an "
                        "action brings comes after it.",
                    )


def _adds_to_past(value: ast.expr, name: str, loop: ast.For) -> bool:
    """Whether it is the reward of this round plus the discounted value of the round before."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    for own, past in ((value.left, value.right), (value.right, value.left)):
        names = {each.id for each in ast.walk(past) if isinstance(each, ast.Name)}
        text = ast.unparse(past)
        is_discounted = bool(_DISCOUNT.search(text)) or bool(re.search(r"\b0\.9\d*", text))
        if name in names and is_discounted and _is_reward_of(own, loop):
            return True
    return False


def _is_reward_of(node: ast.expr, loop: ast.For) -> bool:
    """`r` of `for r in rewards`, or `rewards[t]` of `for t in range(len(rewards))`."""
    match node:
        case ast.Name(id=name):
            over = loop.iter
            if isinstance(over, ast.Call) and _called_name(over) in ("enumerate", "zip"):
                is_rewards = any(map(_REWARD.match, map(_base_name, over.args)))
            else:
                is_rewards = bool(_REWARD.match(_base_name(over)))
            given = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
            return is_rewards and name in given and bool(_REWARD.match(name))
        case ast.Subscript(value=rewards, slice=ast.Name(id=place)):
            match loop.iter:
                case ast.Call(func=ast.Name(id="range"), args=[_]):
                    is_own = _base_name(loop.target) == place
                    return is_own and bool(_REWARD.match(_base_name(rewards)))
    return False


def temperature_on_one_side(trace: Trace) -> Iterator[Remark]:
    """`kl_div(log_softmax(student / T), softmax(teacher))`."""
    for path, function in _scopes(trace):
        own = list(_own_nodes(function))
        known = {
            _base_name(each.targets[0]): each.value
            for each in own
            if isinstance(each, ast.Assign) and len(each.targets) == 1
        }
        for call in (each for each in own if isinstance(each, ast.Call)):
            if _called_name(call) != "kl_div" or len(call.args) < _SIDES:
                continue
            sides = [_distribution(each, known) for each in call.args[:_SIDES]]
            softened = [each is not None and _is_softened(each) for each in sides]
            if None not in sides and any(softened) and not all(softened):
                what = "first" if softened[0] else "second"
                yield Remark(
                    path,
                    call.lineno,
                    f"Only the {what} of two distributions is softened by the temperature: they "
                    "cannot become equal.",
                )


def _distribution(node: ast.expr, known: dict[str, ast.expr]) -> ast.Call | None:
    """The softmax that it is, also by name; None where that is unclear."""
    found = known.get(node.id, node) if isinstance(node, ast.Name) else node
    if not isinstance(found, ast.Call) or _called_name(found) not in _SOFTMAXES:
        return None
    names = {each.id for each in ast.walk(found) if isinstance(each, ast.Name)}
    is_changed = any(isinstance(known.get(name), ast.BinOp) for name in names)
    return None if is_changed else found


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else _base_name(call.func)


def _is_softened(softmax: ast.Call) -> bool:
    """By a division, or by a factor that is called a temperature."""
    return any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div | ast.Mult)
        for each in ast.walk(softmax)
    )


def end_ignored(trace: Trace) -> Iterator[Remark]:
    """`reward + gamma * value(next)` where the flag of an episode's end is read and never used."""
    for path, function in _scopes(trace):
        targets = [each for each in _own_nodes(function) if _is_bootstrapped(each)]
        if not targets:
            continue
        unpacked = {
            _base_name(part)
            for each in _own_nodes(function)
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Tuple)
            for part in each.targets[0].elts
        }
        ends = [name for name in sorted(unpacked) if _DONE.match(name)]
        has_rewards = any(map(_REWARD.match, unpacked))
        if len(ends) == 1 and has_rewards and not _is_read(function, ends[0]):
            yield Remark(
                path,
                targets[0].lineno,
                f"The target has the value of the next state also where {ends[0]} says that the "
                "episode has ended.",
            )


def target_with_gradients(trace: Trace) -> Iterator[Remark]:
    """`reward + gamma * value(next)`, computed with gradients and never detached."""
    for path, tree in trace.trees:
        cut = {id(each) for block in ast.walk(tree) if _is_cut(block) for each in ast.walk(block)}
        text = ast.unparse(tree)
        for node in (each for each in ast.walk(tree) if isinstance(each, ast.Assign)):
            name = _base_name(node.targets[0])
            if not name or id(node) in cut or not _is_bootstrapped(node.value):
                continue
            is_detached = bool(_CUT.search(ast.unparse(node.value)))
            is_later = re.search(rf"\b{name}(\.\w+(\(\d*\))?)*\.detach\(", text) is not None
            called = _model_called(trace, node)
            if called and not is_detached and not is_later and _is_of_loss(tree, name):
                yield Remark(
                    path,
                    node.lineno,
                    f"Gradients flow through {name} into the network that computes it: it is "
                    "trained to lower its own target.",
                )


def accumulation_miscounted(trace: Trace) -> Iterator[Remark]:
    """`if i % k == 0: step()`, with i from enumerate: true after the first batch already."""
    for event in trace.all(Action.STEP):
        loop = event.loop
        if loop is None or not event.branches:
            continue
        name = _counted(event.branches[-1])
        backwards = [each for each in trace.all(Action.BACKWARD) if each.is_in(loop)]
        is_after = any(each.order < event.order and not each.branches for each in backwards)
        clears = [each for each in trace.all(Action.ZERO_GRAD) if each.is_in(loop)]
        is_kept = all(event.branches[-1].number in _numbers(each) for each in clears)
        if name and name == _enumerated(trace, loop) and is_after and clears and is_kept:
            yield at(
                event,
                f"{name} begins at 0: the first update of each pass has the gradients of one "
                "batch, and those after the last update are left over.",
            )


def accumulation_not_divided(trace: Trace) -> Iterator[Remark]:
    """Gradients of k batches are added up, and nothing is divided by k."""
    for event in trace.all(Action.STEP):
        loop = event.loop
        if loop is None or not event.branches:
            continue
        by = _divisor(event.branches[-1])
        if not by or _is_divided_by(trace, by):
            continue
        backwards = [
            each
            for each in trace.all(Action.BACKWARD)
            if each.is_in(loop) and event.branches[-1].number not in _numbers(each)
        ]
        if any("function" in each.value.arguments for each in backwards):
            yield at(
                backwards[0],
                f"The gradients of {by} batches are added up, and the loss is not divided by "
                f"{by}: updates are as many times larger.",
            )


def mask_not_used(trace: Trace) -> Iterator[Remark]:
    """A forward that takes a mask, and never reads it."""
    for path, node in trace.classes:
        for method in node.body:
            if not isinstance(method, ast.FunctionDef) or method.name != "forward":
                continue
            names = [each.arg for each in (*method.args.args, *method.args.kwonlyargs)]
            for place, name in enumerate(names):
                is_unread = bool(_MASK.search(name)) and not _is_read(method, name)
                if is_unread and _is_given(trace, node.name, name, place - 1):
                    yield Remark(
                        path, method.lineno, f"forward() is given {name} and never uses it."
                    )


def _assigned(trace: Trace) -> Iterator[tuple[str, ast.Assign]]:
    for path, tree in trace.trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                yield path, node


def _base_name(node: ast.AST) -> str:
    """`values` of `values`, `values.detach()`, `self.values[:-1]`."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return name
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case _:
                return ""


def _scopes(trace: Trace) -> Iterator[tuple[str, ast.FunctionDef | ast.Module]]:
    for path, tree in trace.trees:
        yield path, tree
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield path, node


def _own_nodes(scope: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Those of a function or a module, without the functions and classes in it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.expr | ast.stmt):
            yield child
        yield from _own_nodes(child)


def _is_bootstrapped(node: ast.AST) -> bool:
    """`reward + gamma * …`"""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    if not _REWARD.match(_base_name(node.left)) or not isinstance(node.right, ast.BinOp):
        return False
    text = ast.unparse(node.right)
    is_discounted = bool(_DISCOUNT.search(text)) or bool(re.search(r"\b0\.9\d*", text))
    return is_discounted and "(" in text


def _is_read(scope: ast.AST, name: str) -> bool:
    """Whether it is used for anything but itself: `d = torch.tensor(d)` is no use."""
    own = {
        id(each)
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
        for each in ast.walk(node.value)
    }
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        for node in ast.walk(scope)
        if id(node) not in own
    )


def _is_cut(node: ast.AST) -> bool:
    """A block without gradients, or a function of which that is said."""
    if isinstance(node, ast.With):
        return any(_CUT.search(ast.unparse(each)) for each in node.items)
    if isinstance(node, ast.FunctionDef):
        return any(_CUT.search(ast.unparse(each)) for each in node.decorator_list)
    return False


def _model_called(trace: Trace, node: ast.Assign) -> bool:
    """Whether the statement calls a model, with gradients."""
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return any(
        each.line in lines and not any(map(_CUT.search, each.contexts))
        for each in trace.all(Action.FORWARD)
        if _is_trained(trace, each.value)
    )


def _is_trained(trace: Trace, model: Value) -> bool:
    """Whether an optimizer has its parameters."""
    return any(
        any(each is model for each in optimizer.origins())
        for optimizer in trace.made(Kind.OPTIMIZER)
    )


def _is_of_loss(tree: ast.AST, name: str) -> bool:
    """Whether a difference or a loss has it."""
    for node in ast.walk(tree):
        given: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            given = [node.left, node.right]
        elif isinstance(node, ast.Call) and "loss" in ast.unparse(node.func).lower():
            given = node.args
        if any(_base_name(each) == name for each in given):
            return True
    return False


def _counted(branch: Branch) -> str:
    """`i` of `if i % k == 0`."""
    match branch.test:
        case ast.Compare(
            left=ast.BinOp(left=ast.Name(id=name), op=ast.Mod(), right=by),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ) if branch.side:
            is_small = isinstance(by, ast.Constant) and by.value == _ALIKE
            return "" if is_small else name
    return ""


def _divisor(branch: Branch) -> str:
    """`k` of `if (i + 1) % k == 0`, as it is written, if it is a name."""
    for node in ast.walk(branch.test):
        match node:
            case ast.Compare(
                left=ast.BinOp(op=ast.Mod(), right=ast.Name() | ast.Attribute() as by),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ) if branch.side:
                return ast.unparse(by)
    return ""


def _is_divided_by(trace: Trace, by: str) -> bool:
    """By the number itself, or something multiplied by its reciprocal or scaled for it."""
    last = by.rpartition(".")[2]
    for _, tree in trace.trees:
        for node in ast.walk(tree):
            is_scaled = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(
                node.op, ast.Div | ast.FloorDiv | ast.Mult
            )
            if is_scaled and last in {_last(each) for each in ast.walk(node)}:
                return True
    return False


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _enumerated(trace: Trace, loop: Loop) -> str:
    """`i` of `for i, batch in enumerate(loader)`, if it begins at 0."""
    for path, tree in trace.trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.For) or (path, node.lineno) != (loop.path, loop.line):
                continue
            match node.iter:
                case ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]):
                    parts = node.target.elts if isinstance(node.target, ast.Tuple) else []
                    return _base_name(parts[0]) if parts else ""
    return ""


def _numbers(event: Event) -> set[int]:
    return {each.number for each in event.branches}


def _is_given(trace: Trace, model: str, name: str, place: int) -> bool:
    """Whether a call of such a model gives it something."""
    for event in trace.all(Action.FORWARD):
        if event.value.name == model:
            given = event.arguments.get(name) or event.arguments.get(str(place))
            if given is not None and not (given.has(Kind.CONSTANT) and given.constant is None):
                return True
    return False


JOINED = (
    ScriptRule(
        "TemperatureOnOneSide",
        "Divide both by the temperature: log_softmax(s / T) and softmax(t / T).",
        temperature_on_one_side,
    ),
    ScriptRule(
        "PolicyGradientReversed",
        "Write advantage = returns - values.detach().",
        advantage_reversed,
    ),
    ScriptRule(
        "PolicyGradientReversed",
        "Go from the last reward to the first: for r in reversed(rewards), and turn the list.",
        returns_of_the_past,
    ),
    ScriptRule("EpisodeEndIgnored", "Write reward + gamma * (1 - done) * next_value.", end_ignored),
    ScriptRule(
        "TargetWithGradients",
        "Compute the target within torch.no_grad(), or detach it.",
        target_with_gradients,
    ),
    ScriptRule(
        "AccumulationMiscounted",
        "Write if (i + 1) % k == 0, and step once more after the last batch.",
        accumulation_miscounted,
    ),
    ScriptRule(
        "AccumulationNotDivided",
        "Call (loss / k).backward().",
        accumulation_not_divided,
    ),
    ScriptRule("MaskNotUsed", "Give it to the attention.", mask_not_used),
)
RULES = JOINED
