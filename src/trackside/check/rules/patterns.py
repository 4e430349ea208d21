"""Faults that a few statements show by themselves, wherever they stand in the script."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at
from trackside.check.trace import Action, Branch, Event, Trace

_LABELS = re.compile(r"^(y|ys|(.*_)?(labels?|targets?)|y_.*|.*_y|(labels?|targets?)_.*)$")
_EDGES = re.compile(r"^(edges?|edge_index|edge_list|adj|adjacency|adj_t|adj_matrix)$")
_ORDERS = ("randperm", "permutation")
_SEEDS = ("seed", "manual_seed")
_LOOPS = (ast.For, ast.While)
_INTENDED = re.compile("freez|froze|fine.?tun|prob(e|ing)|transfer|stage|phase|thaw", re.IGNORECASE)
"""Words of scripts that freeze a part of a model on purpose."""
_ALIKE = 2
"""Steps on every second batch are the same with either condition."""


def labels_shuffled_apart(trace: Trace) -> Iterator[Remark]:
    """Two shuffles in a row, of samples and of labels, that are used together later."""
    for path, tree in trace.trees:
        for block in _blocks(tree):
            shuffles = list(_shuffles(block))
            for (first, one, _), (second, other, line) in zip(shuffles, shuffles[1:], strict=False):
                is_pair = bool(first and second) and first != second and one != other
                if not is_pair or not any(map(_LABELS.match, (first, second))):
                    continue
                if _are_together(tree, first, second):
                    yield Remark(
                        path,
                        line,
                        f"{first} and {second} are shuffled one after the other, each in an "
                        "order of its own: labels no longer belong to their samples.",
                    )


def shuffled_apart_from_edges(trace: Trace) -> Iterator[Remark]:
    """`x, y = x[order], y[order]`, where edges made before number the nodes, and keep the old
    numbers: the order is used for nothing else."""
    for path, tree in trace.trees:
        made = [each for each in ast.walk(tree) if isinstance(each, ast.Assign)]
        orders = {_name(each.targets[0]): each for each in made if _draws_order(each.value)}
        for order in filter(None, orders):
            moved = [
                pair
                for each in made
                for pair in _pairs(each)
                if _is_taken_by(pair[0], pair[1], order)
            ]
            uses = [
                each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == order
            ]
            is_all = len(uses) == len(moved) + 1  # and where it is drawn
            line = min((each.lineno for _, each in moved), default=0)
            if not moved or not is_all:
                continue
            for edges in _edges_of(tree, {_name(target) for target, _ in moved}, line):
                names = ", ".join(sorted({_name(target) for target, _ in moved}))
                yield Remark(
                    path,
                    line,
                    f"The nodes ({names}) are put into another order, and {edges} still has their "
                    "old numbers.",
                )


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target with its value."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from zip(targets, values, strict=False)
        case ast.Assign(targets=[target], value=value):
            yield target, value


def _is_taken_by(target: ast.expr, value: ast.expr, order: str) -> bool:
    """`x = x[order]`"""
    match value:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Name(id=place)):
            return place == order and _name(target) == name
    return False


def _edges_of(tree: ast.AST, nodes: set[str], line: int) -> Iterator[str]:
    """What is called edges, was made before that line and never after it, and is later given to a
    call beside the nodes."""
    made: dict[str, list[int]] = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            made.setdefault(each.id, []).append(each.lineno)
    for name, lines in made.items():
        if not _EDGES.match(name) or max(lines) >= line:
            continue
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            given = {_name(each) for each in call.args}
            if call.lineno > line and name in given and given & nodes:
                yield name
                break


def workers_seeded_alike(trace: Trace) -> Iterator[Remark]:
    """A worker_init_fn whose seed is a constant, or the number of the worker alone."""
    for path, tree in trace.trees:
        functions = {f.name: f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}
        constants = _constants(tree)
        for call in _calls(tree, "DataLoader"):
            given = {each.arg: each.value for each in call.keywords}
            function = functions.get(_name(given.get("worker_init_fn")))
            if function is None or not _draws(tree, function):
                continue
            for seed in (each for name in _SEEDS for each in _calls(function, name)):
                used = {*map(_name, ast.walk(ast.Tuple(seed.args)))} - {"", *constants}
                own = {each.arg for each in function.args.args}
                is_known = not any(isinstance(n, ast.Call) for a in seed.args for n in ast.walk(a))
                if seed.args and is_known and used <= own and not (used and _persists(given)):
                    when = "every epoch" if used else "every worker and every epoch"
                    yield Remark(path, seed.lineno, f"Random numbers are the same in {when}.")


def freeze_never_called(trace: Trace) -> Iterator[Remark]:
    """A method that freezes, which nothing calls, of a model that is told to be frozen."""
    called = {
        node.attr
        for _, tree in trace.trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    is_asked = any(map(_asks_to_freeze, (tree for _, tree in trace.trees)))
    for path, node in trace.classes:
        for method in (each for each in node.body if isinstance(each, ast.FunctionDef)):
            name = method.name.lower()
            is_freezing = "freeze" in name and "unfreeze" not in name
            if is_asked and is_freezing and method.name not in called and _freezes(method):
                yield Remark(
                    path,
                    method.lineno,
                    f"{method.name}() is never called: what it would freeze is trained.",
                )


def frozen_on_the_way(trace: Trace) -> Iterator[Remark]:
    """`requires_grad_(False)` in the loop of a training, in a script that neither takes it back nor
    has a word for it."""
    nodes = [node for _, tree in trace.trees for node in ast.walk(tree)]
    changes = [node for node in nodes if _sets_requires_grad(node)]
    if not changes or not all(map(_is_off, changes)) or _says_that_it_freezes(trace):
        return
    for path, tree in trace.trees:
        inside = {id(node) for nodes in _loops_of_training(tree) for node in nodes}
        for node in changes:
            if id(node) in inside:
                line = getattr(node, "lineno", 0)
                yield Remark(path, line, "Parameters are frozen in the loop of the training.")
                return


def accumulation_inverted(trace: Trace) -> Iterator[Remark]:
    """`if (i + 1) % k: optimizer.step()`: true on all batches but every k-th."""
    for event in trace.all(Action.STEP):
        if event.loop is None or not event.branches or not _is_not_zero(event.branches[-1]):
            continue
        branch = event.branches[-1]
        backwards = [each for each in trace.all(Action.BACKWARD) if each.is_in(event.loop)]
        clears = [each for each in trace.all(Action.ZERO_GRAD) if each.is_in(event.loop)]
        is_kept = all(_is_within(each, branch) for each in clears)
        if backwards and clears and is_kept and not any(_is_within(b, branch) for b in backwards):
            yield at(event, "The optimizer steps on all batches but every k-th.")


def tied_by_copy(trace: Trace) -> Iterator[Remark]:
    """A function that ties weights, and copies their values."""
    for path, node in trace.classes:
        for method in (each for each in ast.walk(node) if isinstance(each, ast.FunctionDef)):
            if not re.search(r"(^|_)tie(_|$|s|d)", method.name):
                continue
            copies = [each for each in ast.walk(method) if _is_copy_of_values(each)]
            shares = [each for each in ast.walk(method) if _assigns(each, "weight")]
            if copies and not shares:
                yield Remark(
                    path,
                    getattr(copies[0], "lineno", method.lineno),
                    f"{method.name}() copies the values once: the two weights are trained apart.",
                )


def iterator_used_up(trace: Trace) -> Iterator[Remark]:
    """`it = iter(loader)` before a loop in which `for batch in it` stands."""
    for path, tree in trace.trees:
        made = {
            target: assigned.lineno
            for assigned in ast.walk(tree)
            if isinstance(assigned, ast.Assign) and _name(_called(assigned.value)) == "iter"
            for target in map(_name, assigned.targets)
        }
        for outer in (each for each in ast.walk(tree) if isinstance(each, _LOOPS)):
            inside = [each for each in ast.walk(outer) if each is not outer]
            set_here = {_name(t) for n in inside if isinstance(n, ast.Assign) for t in n.targets}
            for loop in (each for each in inside if isinstance(each, ast.For)):
                name = _name(_iterated(loop))
                if name in made and name not in set_here:
                    yield Remark(
                        path,
                        loop.lineno,
                        f"{name} was made at line {made[name]}, outside of the loop at line "
                        f"{outer.lineno}: from its second round on there is no batch.",
                    )


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield body


def _name(node: ast.AST | None) -> str:
    """Of a plain name; "" for anything else."""
    return node.id if isinstance(node, ast.Name) else ""


def _called(node: ast.AST | None) -> ast.AST | None:
    return node.func if isinstance(node, ast.Call) else None


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            last = node.func.attr if isinstance(node.func, ast.Attribute) else _name(node.func)
            if last == name:
                yield node


def _shuffles(block: list[ast.stmt]) -> Iterator[tuple[str, str, int]]:
    """What each statement puts into a new order, the order's own name, and the line; empty names
    for a statement that does something else. Drawing an order is not one of these."""
    orders: dict[str, str] = {}
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _draws_order(value):
                orders[name] = f"{name} of line {statement.lineno}"
                continue
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(
                targets
            ) == len(values):
                for target, value in zip(targets, values, strict=True):
                    yield *_ordered(_name(target), value, orders), statement.lineno
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield *_ordered(name, value, orders), statement.lineno
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=owner, attr="shuffle"), args=[given])
            ):
                is_own = any(isinstance(n, ast.Call) for n in ast.walk(owner))
                name = "" if is_own else _name(given)
                yield name, f"shuffle of line {statement.lineno}", statement.lineno
            case _:
                yield "", "", statement.lineno


def _draws_order(value: ast.expr) -> bool:
    """`torch.randperm(n)`, or a permutation of a number."""
    if any(True for _ in _calls(value, "randperm")):
        return isinstance(value, ast.Call)
    match value:
        case ast.Call(args=[ast.Call() | ast.Constant() | ast.Subscript()]):
            return any(True for _ in _calls(value, "permutation"))
    return False


def _ordered(target: str, value: ast.expr, orders: dict[str, str]) -> tuple[str, str]:
    """`x = x[order]`, `x = x[torch.randperm(n)]`, `x = np.random.permutation(x)`. A generator that
    is made for it, as default_rng(0), has the same order each time."""
    own = f"that of {target} at line {value.lineno}"
    match value:
        case ast.Subscript(value=ast.Name(), slice=ast.Name(id=order)) if order in orders:
            return target, orders[order]
        case ast.Subscript(value=ast.Name(), slice=order):
            is_drawn = any(True for each in _ORDERS for _ in _calls(order, each))
            return (target, own) if is_drawn and "generator" not in _text(order) else ("", "")
        case ast.Call(func=ast.Attribute(value=owner, attr="permutation"), args=[ast.Name()]):
            is_own = any(isinstance(n, ast.Call) for n in ast.walk(owner))
            return ("", "") if is_own else (target, own)
    return "", ""


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def _are_together(tree: ast.AST, first: str, second: str) -> bool:
    """Whether one call or one tuple has both, as zip(x, y) or `yield x[a:b], y[a:b]`; or one loss
    of the model's output of the one and the other."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            parts = [*node.args, *(each.value for each in node.keywords)]
        elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
            parts = node.elts
        held = [{_name(each) for each in ast.walk(part)} for part in parts]
        if any(first in each for each in held) and any(second in each for each in held):
            return True
    return False


def _draws(tree: ast.AST, but: ast.FunctionDef) -> bool:
    """Whether code of the script, but for that function, draws from numpy or random itself."""
    inside = {id(each) for each in ast.walk(but)}
    return any(
        isinstance(node, ast.Attribute)
        and re.match(r"(np\.|numpy\.)?random\.(?!seed|manual_seed)", ast.unparse(node))
        for node in ast.walk(tree)
        if id(node) not in inside
    )


def _constants(tree: ast.Module) -> set[str]:
    """Names that the file gives a value once, outside of functions, and that value is constant."""
    named = Counter(
        each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    )
    found: set[str] = set()
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()):
                found.add(name)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)
                found |= {_name(n) for n, value in pairs if isinstance(value, ast.Constant)}
    return {name for name in found if named[name] == 1}


def _persists(given: dict[str | None, ast.expr]) -> bool:
    kept = given.get("persistent_workers")
    return kept is not None and not (isinstance(kept, ast.Constant) and not kept.value)


def _asks_to_freeze(tree: ast.AST) -> bool:
    """Whether a call is told so: frozen_stages=1, freeze=True."""
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        for each in call.keywords:
            is_off = isinstance(each.value, ast.Constant) and each.value.value in (None, False, -1)
            if re.search("freeze|frozen", each.arg or "") and not is_off:
                return True
    return False


def _freezes(method: ast.FunctionDef) -> bool:
    text = ast.unparse(method)
    return "requires_grad = False" in text or "requires_grad_(False)" in text


def _says_that_it_freezes(trace: Trace) -> bool:
    """By a name, a text or a comment; the first text of a file tells what it is about."""
    bodies = [ast.unparse(_without_docstring(tree)) for _, tree in trace.trees]
    return any(map(_INTENDED.search, (*bodies, trace.comments)))


def _without_docstring(tree: ast.Module) -> ast.Module:
    is_text = ast.get_docstring(tree) is not None
    return ast.Module(tree.body[1:] if is_text else tree.body, [])


def _sets_requires_grad(node: ast.AST) -> bool:
    return _assigns(node, "requires_grad") or _is_method(node, "requires_grad_")


def _is_off(node: ast.AST) -> bool:
    given = node.value if isinstance(node, ast.Assign) else _first_argument(node)
    return isinstance(given, ast.Constant) and given.value is False


def _first_argument(node: ast.AST) -> ast.expr | None:
    if not isinstance(node, ast.Call):
        return None
    return next(iter((*node.args, *(each.value for each in node.keywords))), None)


def _is_method(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
    )


def _loops_of_training(tree: ast.Module) -> Iterator[list[ast.AST]]:
    """What is within the outermost loops that call backward()."""
    functions = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    known: set[int] = set()
    for loop in (each for each in ast.walk(tree) if isinstance(each, _LOOPS)):
        if id(loop) not in known:  # within another one
            nodes = list(_reached(loop, functions, set()))
            known |= {id(node) for node in nodes}
            if any(_is_method(node, "backward") for node in nodes):
                yield nodes


def _reached(
    node: ast.AST, functions: dict[str, ast.FunctionDef], seen: set[str]
) -> Iterator[ast.AST]:
    """All within it, and within the functions of the file that it calls."""
    for each in ast.walk(node):
        yield each
        name = _name(each.func) if isinstance(each, ast.Call) else ""
        if name in functions and name not in seen:
            seen.add(name)
            yield from _reached(functions[name], functions, seen)


def _is_not_zero(branch: Branch) -> bool:
    """Whether this side of the condition is that of a rest of a division, but for one of 2."""
    test = branch.test
    match test:
        case ast.BinOp(op=ast.Mod(), right=by):
            side = True
        case ast.Compare(
            left=ast.BinOp(op=ast.Mod(), right=by),
            ops=[ast.NotEq() | ast.Eq() as relation],
            comparators=[ast.Constant(value=0)],
        ):
            side = isinstance(relation, ast.NotEq)
        case _:
            return False
    return branch.side is side and not (isinstance(by, ast.Constant) and by.value == _ALIKE)


def _is_within(event: Event, branch: Branch) -> bool:
    return any(each.number == branch.number for each in event.branches)


def _is_copy_of_values(node: ast.AST) -> bool:
    is_copied = isinstance(node, ast.Call) and any(True for _ in _calls(node, "copy_"))
    return is_copied or _assigns(node, "data")


def _assigns(node: ast.AST, attribute: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Attribute) and target.attr == attribute for target in node.targets
    )


def _iterated(loop: ast.For) -> ast.expr:
    """What it goes over, also within enumerate or tqdm."""
    inner = loop.iter
    while isinstance(inner, ast.Call) and inner.args and _name(inner.func) in ("enumerate", "tqdm"):
        inner = inner.args[0]
    return inner


JOINED = (
    ScriptRule(
        "LabelsShuffledApart",
        "Draw one order for both: order = rng.permutation(n); x, y = x[order], y[order].",
        labels_shuffled_apart,
    ),
    ScriptRule(
        "LabelsShuffledApart",
        "Number the edges anew: rank[order] = torch.arange(n); edge_index = rank[edge_index].",
        shuffled_apart_from_edges,
    ),
    ScriptRule(
        "WorkersSeededAlike",
        "Seed by torch.initial_seed() % 2**32, which differs by worker and by epoch.",
        workers_seeded_alike,
    ),
    ScriptRule("FreezeNeverCalled", "Call it where the model is made.", freeze_never_called),
)
ONLY_JOINED = (
    ScriptRule(
        "FrozenByMistake",
        "Check the condition under which parameters are frozen.",
        frozen_on_the_way,
    ),
)
"""What is a mistake only where the run shows it, too."""
RULES = (
    *JOINED,
    ScriptRule(
        "AccumulationInverted",
        "Write if (i + 1) % k == 0 before the step.",
        accumulation_inverted,
    ),
    ScriptRule(
        "WeightsUntied", "Assign the parameter: head.weight = embedding.weight.", tied_by_copy
    ),
    ScriptRule("IteratorUsedUp", "Iterate the loader itself.", iterator_used_up),
)
