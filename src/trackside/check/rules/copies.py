"""Copies of a model's weights: averages and target networks that are no copies, and averages that
are put in for an evaluation and never taken out.
"""

import ast
import re
from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at
from trackside.check.trace import Action, Event, Trace
from trackside.check.values import Kind, Value

_COPIES = re.compile(
    r"target|teacher|ema|avg|average|shadow|momentum|frozen|reference|(^|_)(ref|old|slow)(_|$)",
    re.IGNORECASE,
)
_ITEMS = ("parameters", "named_parameters", "state_dict", "items", "values", "buffers")
_SAME = ("data", "detach")
_WITHOUT_GRADIENTS = re.compile(r"no_grad|inference_mode")
_MODELS = (Kind.MODEL, Kind.WRAPPED)
_MAKES_COPY = re.compile(r"deepcopy|AveragedModel|\.clone\(")
_FOREACH = ("_foreach_lerp_", "_foreach_mul_")


def copy_not_made(trace: Trace) -> Iterator[Remark]:
    """An average that is kept in the weights' own memory, or a target network that is the network
    itself."""
    for path, tree in trace.trees:
        changed = _Names(tree).averaged_in_place()
        for name, line in _tables(tree):
            if name in changed:
                yield Remark(
                    path,
                    line,
                    f"{name} holds the weights themselves, not copies: averaging them in place "
                    "changes the model.",
                )
    for event in trace.all(Action.ALIAS):
        name = event.arguments["name"].name
        if not event.branches and _COPIES.search(name) and _is_synced(trace, event.value):
            yield at(event, f"{name} is another name of the model that is trained, not a copy.")


def average_left_in(trace: Trace) -> Iterator[Remark]:
    """An average is put into the model for an evaluation, and nothing is put back."""
    names = {path: _Names(tree) for path, tree in trace.trees}
    averaged = set[str]().union(*(each.averaged() for each in names.values()))
    backwards = [each for each in trace.all(Action.BACKWARD) if each.loops]
    put = [
        each
        for each in trace.all(Action.LOAD_STATE, Action.FILL)
        if _is_trained(trace, _model_of(each.value))
        and any(each.loops and each.loops[0] is other.loops[0] for other in backwards)
    ]
    ours = [each for each in put if names[each.path].source(each) in averaged]
    others = [each for each in put if each not in ours]
    for event in ours[:1]:
        model = _model_of(event.value)
        is_put_back = any(_model_of(each.value) is model for each in others)
        if not is_put_back and _is_for_evaluation(trace, event):
            yield at(
                event,
                "The average is put into the model that is trained, for an evaluation, and the "
                "weights from before are never put back: training goes on from the average.",
            )


class _Names:
    """Which names of a file hold averages of weights."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._loops = list(_variables(tree))

    def averaged(self) -> set[str]:
        """Also by assignment: `average[k] = d * average[k] + (1 - d) * p`."""
        found = self.averaged_in_place()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign) and _is_weighted_sum(node.value):
                held = {self._of(each) for each in ast.walk(node.value) if _is_place(each)}
                target = self._of(node.targets[0])
                if target in held:
                    found.add(target)
                elif isinstance(node.targets[0], ast.Name):
                    found |= held & self._assigned_from(node.targets[0].id)
        return found - {""}

    def averaged_in_place(self) -> set[str]:
        found = set()
        for node in ast.walk(self._tree):
            match node:
                case ast.Call(func=ast.Attribute(value=given, attr="lerp_")):
                    found.add(self._of(given))
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Call(func=ast.Attribute(value=given, attr="mul_")), attr="add_"
                    )
                ):
                    found.add(self._of(given))
                case ast.Call(func=ast.Attribute(value=given, attr="copy_"), args=[value, *_]):
                    if _is_weighted_sum(value) and ast.unparse(given) in ast.unparse(value):
                        found.add(self._of(given))
                case ast.Call(func=ast.Attribute(attr=name), args=[given, *_]) if name in _FOREACH:
                    found.add(self._of(given))
        return found - {""}

    def source(self, event: Event) -> str:
        """The name that what is put in comes from."""
        given = event.arguments.get("source")
        node = None if given is None else given.node
        return self._of(node) if node is not None else ""

    def _assigned_from(self, name: str) -> set[str]:
        """Names of tables that have `name` put into a place of theirs."""
        return {
            self._of(node.targets[0])
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Subscript)
            and _base(node.value) == name
        }

    def _of(self, node: ast.AST) -> str:
        """The table or model that an element belongs to."""
        name, line = _base(node), getattr(node, "lineno", 0)
        around = [each for each in self._loops if each[2] == name and each[0] <= line <= each[1]]
        around.sort(key=lambda each: each[1] - each[0])
        return around[0][3] if around else name


def _variables(tree: ast.AST) -> Iterator[tuple[int, int, str, str]]:
    """Of each loop over weights: its lines, a variable, and what it goes over."""
    for node in ast.walk(tree):
        loops: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.For):
            loops = [(node.target, node.iter)]
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            loops = [(each.target, each.iter) for each in node.generators]
        for target, iterated in loops:
            last = getattr(node, "end_lineno", 0)
            for variable, base in _pairs(target, iterated):
                yield getattr(node, "lineno", 0), last, variable, base


def _pairs(target: ast.expr, iterated: ast.expr) -> Iterator[tuple[str, str]]:
    match target, iterated:
        case ast.Tuple(elts=parts), ast.Call(func=ast.Name(id="zip"), args=given):
            for part, each in zip(parts, given, strict=False):
                yield from _pairs(part, each)
        case ast.Tuple(elts=[*_, ast.Name(id=name)]), _:
            yield name, _base(iterated)
        case ast.Name(id=name), _:
            yield name, _base(iterated)


def _base(node: ast.AST) -> str:
    """`shadow` of `self.shadow[k].data`, `ema` of `ema.module.parameters()`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            return _base(inner) if name in (*_SAME, *_ITEMS, "module", "model") else name
        case ast.Subscript(value=inner) | ast.Starred(value=inner):
            return _base(inner)
        case ast.Call(func=ast.Attribute(value=inner)):
            return _base(inner)
    return ""


def _is_weighted_sum(node: ast.expr) -> bool:
    """`d * a + (1 - d) * b`"""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = (left, right)
            return all(isinstance(s, ast.BinOp) and isinstance(s.op, ast.Mult) for s in sides)
    return False


def _is_place(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript | ast.Name | ast.Attribute)


def _tables(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that are given the weights of a model themselves, and the line. Those of a copy are
    meant to be changed."""
    copies = {
        _base(each.targets[0])
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign) and _MAKES_COPY.search(ast.unparse(each.value))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (source := _weights_in(node.value)):
            if source not in copies and not _COPIES.search(source):
                yield _base(node.targets[0]), node.lineno
        elif isinstance(node, ast.For) and _is_over_weights(node.iter):
            if _base(node.iter) in copies or _COPIES.search(_base(node.iter)):
                continue
            variables = [name for name, _ in _pairs(node.target, node.iter)]
            for inner in ast.walk(node):
                match inner:
                    case ast.Assign(targets=[ast.Subscript() as place], value=value):
                        if any(_is_itself(value, name) for name in variables):
                            yield _base(place), inner.lineno


def _weights_in(node: ast.expr) -> str:
    """The model whose own weights the value holds; "" if it holds copies, or something else."""
    match node:
        case (
            ast.DictComp(value=kept, generators=[each]) | ast.ListComp(elt=kept, generators=[each])
        ):
            names = [name for name, _ in _pairs(each.target, each.iter)]
            is_kept = _is_over_weights(each.iter) and any(_is_itself(kept, n) for n in names)
            return _base(each.iter) if is_kept else ""
        case ast.Call(func=ast.Name(id="list" | "dict"), args=[inner]):
            return _base(inner) if _is_over_weights(inner) else ""
        case ast.Call(func=ast.Attribute(value=model, attr="state_dict")):
            return _base(model)
    return ""


def _is_over_weights(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return bool(
        re.search(r"\.(parameters|named_parameters)\(\)$|\.state_dict\(\)\.items\(\)$", text)
    )


def _is_itself(node: ast.expr, name: str) -> bool:
    """The tensor, or one in the same memory."""
    match node:
        case ast.Name(id=found):
            return found == name
        case ast.Attribute(value=inner, attr="data"):
            return _is_itself(inner, name)
        case ast.Call(func=ast.Attribute(value=inner, attr="detach"), args=[]):
            return _is_itself(inner, name)
    return False


def _model_of(value: Value) -> Value | None:
    """Whose weights they are."""
    if value.kind in _MODELS:
        return value
    for each in value.origins():
        if each.kind in (Kind.PARAMETERS, Kind.STATE) and each.of:
            return each.of[0]
    return None


def _is_trained(trace: Trace, model: Value | None) -> bool:
    return model is not None and any(
        any(each is model for each in optimizer.origins())
        for optimizer in trace.made(Kind.OPTIMIZER)
    )


def _is_synced(trace: Trace, model: Value) -> bool:
    """Whether the model is given its own weights, as if it were two."""
    for event in trace.all(Action.LOAD_STATE, Action.FILL):
        given = event.argument("state_dict", 0)
        if _model_of(event.value) is model and _model_of(given) is model:
            return True
    return False


def _is_for_evaluation(trace: Trace, put: Event) -> bool:
    """Whether the next thing that is done is an evaluation, and not a training step, whenever it is
    put in. Slow weights are put in every few steps, whether or not an evaluation follows."""
    conditions = {branch.number for branch in put.branches if branch.is_modulo}
    for event in trace.events:
        if event.order <= put.order:
            continue
        is_always = conditions <= {branch.number for branch in event.branches}
        if event.action in (Action.BACKWARD, Action.STEP) or not event.is_in(put.loops[0]):
            return False
        if not is_always:
            continue
        is_quiet = any(map(_WITHOUT_GRADIENTS.search, event.contexts))
        if event.action is Action.EVAL or (event.action is Action.FORWARD and is_quiet):
            return True
    return False


JOINED = (
    ScriptRule(
        "CopyNotMade",
        "Copy what is kept: p.detach().clone() for tensors, copy.deepcopy(model) for a model.",
        copy_not_made,
    ),
    ScriptRule(
        "AverageLeftIn",
        "Keep the weights before, and put them back after the evaluation; or evaluate a copy.",
        average_left_in,
    ),
)
