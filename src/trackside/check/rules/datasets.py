"""What data sets, collate functions and draws of the script's own do with samples."""

import ast
import re
from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at
from trackside.check.trace import Action, Event, Trace
from trackside.check.values import Kind, Value

_GENERATORS = {"default_rng", "RandomState", "Random", "manual_seed", "seed"}
_DATA_SET = re.compile(r"(^|\.)(Iterable)?Dataset(\[.*\])?$")
_FOR_TRAINING = re.compile(r"train|aug|transform", re.IGNORECASE)
_MADE_UP = re.compile(r"rand|normal|standard_normal|uniform|arange|linspace|permutation|choice")
_DRAWS = ("torch.randint", "torch.rand")
_NOISES = ("randn", "randn_like", "normal", "standard_normal")
_AT_RANDOM = re.compile(r"(^|\.)random\.|^torch\.(rand|normal|bernoulli|multinomial)|(^|\.)_?rng\.")
_A_LOSS = re.compile(r"loss|criterion|^mse$|^l1$|^huber$", re.IGNORECASE)
_VARY = (Kind.TENSOR, Kind.LOADER, Kind.DATASET)


def augmented_alike(trace: Trace) -> Iterator[Remark]:
    """A generator with a constant seed, made for every sample that is read."""
    for path, method in _methods(trace, "__getitem__"):
        for call, tests in _calls_with_tests(method):
            name = _last_name(call.func)
            given = [*call.args, *(each.value for each in call.keywords)]
            is_constant = bool(given) and all(
                isinstance(each, ast.Constant) and each.value is not None for each in given
            )
            is_for_training = all(_FOR_TRAINING.search(ast.unparse(test)) for test in tests)
            if name in _GENERATORS and is_constant and is_for_training:
                yield Remark(
                    path,
                    call.lineno,
                    f"{ast.unparse(call)} is called for every sample that is read: all samples "
                    "get the same random numbers, in every epoch.",
                )


def copied_into_workers(trace: Trace) -> Iterator[Remark]:
    """A generator that a data set makes once, with a seed, and draws from for each sample: workers
    begin every epoch with a copy of it as it was."""
    loaders = [each for each in trace.made(Kind.LOADER) if _copies_data(each)]
    for path, node in _classes(trace) if loaders else ():
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        init, item = methods.get("__init__"), methods.get("__getitem__")
        if init is None or item is None:
            continue
        drawn = {_own_name(each.func) for each in ast.walk(item) if isinstance(each, ast.Call)}
        for made in (each for each in ast.walk(init) if isinstance(each, ast.Assign)):
            name = _own_name(made.targets[0])
            calls = [each for each in ast.walk(made.value) if isinstance(each, ast.Call)]
            is_seeded = any(_last_name(c.func) in _GENERATORS and c.args for c in calls)
            if name and name in drawn and is_seeded:
                yield Remark(
                    path,
                    made.lineno,
                    f"self.{name} is copied into the loader's workers with its seed: they draw "
                    "the same random numbers in every epoch, and each worker the same.",
                )


def kept_as_drawn(trace: Trace) -> Iterator[Remark]:
    """`__getitem__` draws at random and keeps every result, by a decorator that caches."""
    for path, method in _methods(trace, "__getitem__"):
        draws = [each for each in ast.walk(method) if _draws_at_random(each)]
        caches = [each for each in method.decorator_list if _caches_all(each)]
        if draws and caches:
            yield Remark(
                path,
                caches[0].lineno,
                "__getitem__ draws at random, and its results are kept: a sample is the same in "
                "every epoch.",
            )


def _draws_at_random(node: ast.AST) -> bool:
    """A call such as torch.randn, numpy.random.normal, random.random, or rng.normal."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return bool(_AT_RANDOM.search(name)) and _last_name(node.func) not in _GENERATORS


def _caches_all(decorator: ast.expr) -> bool:
    """functools.cache, or lru_cache without a limit; a small one forgets before the next epoch."""
    match decorator:
        case ast.Call(func=func) if _last_name(func) == "lru_cache":
            given = [*decorator.args, *(each.value for each in decorator.keywords)]
            return any(isinstance(each, ast.Constant) and each.value is None for each in given)
    return _last_name(decorator) == "cache"


def _copies_data(loader: Value) -> bool:
    """Whether its workers are started anew for each pass, and seed nothing themselves."""
    workers = loader.argument("num_workers", 5)
    is_parallel = workers is not None and workers.constant != 0
    kept = loader.argument("persistent_workers")
    is_kept = kept is not None and kept.constant is not False
    return is_parallel and not is_kept and loader.argument("worker_init_fn") is None


def _own_name(node: ast.AST) -> str:
    """`rng` of `self.rng` and of `self.rng.normal`."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Attribute(value=inner):
            return _own_name(inner)
    return ""


def counted_in_batches(trace: Trace) -> Iterator[Remark]:
    """`__len__` divides by the batch size, and `__getitem__` reads single samples."""
    for path, node in _classes(trace):
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        length, item = methods.get("__len__"), methods.get("__getitem__")
        if length is None or item is None:
            continue
        divided = [
            each
            for each in ast.walk(length)
            if isinstance(each, ast.BinOp)
            and isinstance(each.op, ast.FloorDiv | ast.Div)
            and re.search("batch", ast.unparse(each.right), re.IGNORECASE)
        ]
        if divided and _reads_single_samples(item):
            yield Remark(
                path,
                divided[0].lineno,
                "__len__ gives a number of batches, and __getitem__ reads single samples: all "
                "others are never read.",
            )


def collated_apart(trace: Trace) -> Iterator[Remark]:
    """`x, y = zip(*batch)`, then `x = sorted(x)`, in a collate function."""
    for path, tree in trace.trees:
        functions = {f.name: f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            given = {each.arg: _last_name(each.value) for each in call.keywords}
            function = functions.get(given.get("collate_fn", ""))
            if function is not None:
                yield from _sorted_apart(path, function)


def time_drawn_again(trace: Trace) -> Iterator[Remark]:
    """Noise of one time, and a model that is told another: `t` is drawn twice in the same way."""
    for event in trace.all(Action.FORWARD):
        if not _is_trained(trace, event):
            continue
        told = [draw for each in event.arguments.values() if (draw := _only_draw(each))]
        mixed = [each for each in event.arguments.values() if _only_draw(each) is None]
        behind = [draw for each in mixed for draw in each.origins() if _is_draw(draw)]
        for mine in told:
            others = [draw for draw in behind if _is_again(draw, mine)]
            if others and mine not in behind and not any(each in told for each in others):
                yield at(
                    event,
                    "The model is given numbers that are drawn for it alone; what its other input "
                    f"is made of, in line {others[0].line}, is drawn once more in the same way.",
                )


def _classes(trace: Trace) -> Iterator[tuple[str, ast.ClassDef]]:
    """Data sets."""
    for path, tree in trace.trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(
                _DATA_SET.search(ast.unparse(base)) for base in node.bases
            ):
                yield path, node


def _methods(trace: Trace, name: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for path, node in _classes(trace):
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name == name:
                yield path, each


def _calls_with_tests(
    node: ast.AST, tests: tuple[ast.expr, ...] = ()
) -> Iterator[tuple[ast.Call, tuple[ast.expr, ...]]]:
    """Every call, with the conditions that it is under; those of an `else` do not count as one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If):
            for each in child.body:
                yield from _calls_with_tests(ast.Module([each], []), (*tests, child.test))
            for each in child.orelse:
                never = ast.Constant("else")
                yield from _calls_with_tests(ast.Module([each], []), (*tests, never))
            continue
        if isinstance(child, ast.IfExp):
            continue
        if isinstance(child, ast.Call):
            yield child, tests
        yield from _calls_with_tests(child, tests)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _reads_single_samples(item: ast.FunctionDef) -> bool:
    """`self.x[i]`, with the index as it is."""
    index = item.args.args[-1].arg
    used = [each for each in ast.walk(item) if isinstance(each, ast.Subscript | ast.BinOp)]
    plain = [
        each
        for each in used
        if isinstance(each, ast.Subscript) and ast.unparse(each.slice) == index
    ]
    computed = [
        each
        for each in used
        if isinstance(each, ast.BinOp)
        and any(isinstance(n, ast.Name) and n.id == index for n in ast.walk(each))
    ]
    return bool(plain) and not computed


def _sorted_apart(path: str, function: ast.FunctionDef) -> Iterator[Remark]:
    split: set[str] = set()
    for statement in function.body:
        text = ast.unparse(statement)
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=value):
                if re.match(r"(map\(list, )?zip\(\*", ast.unparse(value)):
                    split = {_last_name(part) for part in parts} - {""}
                    continue
        changed = {name for name in split if re.search(rf"^{name} = .*\bsorted\({name}\b", text)}
        changed |= {name for name in split if re.match(rf"{name}\.sort\(", text)}
        rest = ast.unparse(ast.Module(function.body[function.body.index(statement) + 1 :], []))
        others = [name for name in sorted(split - changed) if not _is_put_in_order(name, rest)]
        if changed and len(others) == len(split - changed) and others:
            yield Remark(
                path,
                statement.lineno,
                f"{min(changed)} is sorted by itself, and {others[0]} is not: what belongs "
                "together is no longer at the same place.",
            )


def _is_put_in_order(name: str, text: str) -> bool:
    """Whether it is sorted or indexed later."""
    return bool(re.search(rf"sorted\({name}\b|\b{name}\.sort\(|\b{name}\[", text))


def noise_not_added(trace: Trace) -> Iterator[Remark]:
    """`noise = torch.randn_like(x)` that is the target of a loss, and nothing else."""
    for path, tree in trace.trees:
        functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
        scopes = [list(ast.walk(each)) for each in functions]
        for nodes in (*scopes, list(_of_module(tree))):
            for name, line in _drawn_names(nodes):
                uses = [n for n in nodes if _is_load(n, name)]
                targets = [n for each in nodes for n in _compared(each, name)]
                if uses and len(targets) == len(uses):
                    yield Remark(
                        path,
                        line,
                        f"{name} is drawn as the target of a loss, and used for nothing else: it "
                        "is not the noise in the model's input, and cannot be predicted from it.",
                    )


def read_by_place(trace: Trace) -> Iterator[Remark]:
    """`for i, batch in enumerate(loader)` and `kept[i * n : (i + 1) * n]`, of a loader that
    shuffles: those rows belong to other samples."""
    for path, tree in trace.trees:
        shuffled = {
            _last_name(target)
            for each in ast.walk(tree)
            if isinstance(each, ast.Assign) and _is_shuffled_loader(each.value)
            for target in each.targets
        }
        for loop in (each for each in ast.walk(tree) if isinstance(each, ast.For)):
            place = _place_in(loop, shuffled)
            drawn = _names_of_draws(tree) if place else set()
            inside = [node for statement in loop.body for node in ast.walk(statement)]
            names = [each for each in inside if isinstance(each, ast.Name)]
            made = {each.id for each in names if isinstance(each.ctx, ast.Store)}
            filled = {
                _last_name(n.value)
                for n in inside
                if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)
            }
            trains = any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in inside)
            for node in inside if place and trains else ():
                name = _rows_at(node, place)
                if name and name not in made | filled | drawn:
                    yield Remark(
                        path,
                        loop.lineno,
                        f"{name} is read by the place of the batch, in a loop over a loader that "
                        "shuffles: these rows belong to other samples.",
                    )


def _names_of_draws(tree: ast.AST) -> set[str]:
    """What is drawn at random or counted: such rows belong to no sample."""
    return {
        _last_name(target)
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign)
        and any(
            isinstance(n, ast.Call) and _MADE_UP.match(_last_name(n.func))
            for n in ast.walk(each.value)
        )
        for target in each.targets
    }


def _place_in(loop: ast.For, shuffled: set[str]) -> str:
    """`i` of `for i, ... in enumerate(loader)`, from 0 on, of a loader that shuffles."""
    match loop.target, loop.iter:
        case ast.Tuple(elts=[ast.Name(id=name), _]), ast.Call(
            func=ast.Name(id="enumerate"), args=[given], keywords=[]
        ) if _is_shuffled_loader(given) or _last_name(given) in shuffled:
            return name
    return ""


def _rows_at(node: ast.AST, place: str) -> str:
    """`kept` of `kept[i * n : (i + 1) * n]`."""
    match node:
        case ast.Subscript(
            value=ast.Name(id=name),
            slice=ast.Slice(lower=ast.BinOp(op=ast.Mult()) as lower, upper=ast.expr() as upper),
            ctx=ast.Load(),
        ):
            if all(any(_is_load(n, place) for n in ast.walk(end)) for end in (lower, upper)):
                return name
    return ""


def order_kept(trace: Trace) -> Iterator[Remark]:
    """`itertools.cycle(loader)`, of a loader that shuffles: it keeps the batches of the first pass
    and gives them out again."""
    for path, tree in trace.trees:
        shuffled = {
            _last_name(target)
            for each in ast.walk(tree)
            if isinstance(each, ast.Assign) and _is_shuffled_loader(each.value)
            for target in each.targets
        }
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            given = call.args[0] if len(call.args) == 1 else None
            if _last_name(call.func) != "cycle" or given is None:
                continue
            if _last_name(given) in shuffled or _is_shuffled_loader(given):
                yield Remark(
                    path,
                    call.lineno,
                    "itertools.cycle keeps all batches of the first pass and repeats them: the "
                    "order and the augmentation are the same in every epoch.",
                )


def _is_shuffled_loader(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or _last_name(node.func) != "DataLoader":
        return False
    given = {each.arg: each.value for each in node.keywords}
    shuffle = given.get("shuffle")
    return isinstance(shuffle, ast.Constant) and shuffle.value is True


def _of_module(tree: ast.Module) -> Iterator[ast.AST]:
    """What is in no function that has a variable of its own by that name: the body of the module,
    and all uses in functions of what they do not assign."""
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, own = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            own |= {n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)}
            own |= {
                n.id
                for n in ast.walk(node)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
        is_local = isinstance(node, ast.Assign) and any(_last_name(t) in own for t in node.targets)
        if not is_local and not (isinstance(node, ast.Name) and node.id in own):
            yield node
        waiting += [(child, own) for child in ast.iter_child_nodes(node)]


def _drawn_names(nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
    assigned = [each for each in nodes if isinstance(each, ast.Assign)]
    names = [_last_name(target) for each in assigned for target in each.targets]
    for each in assigned:
        target = each.targets[0]
        is_drawn = isinstance(each.value, ast.Call) and _last_name(each.value.func) in _NOISES
        if is_drawn and isinstance(target, ast.Name) and names.count(target.id) == 1:
            yield target.id, each.lineno


def _is_load(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _compared(node: ast.AST, name: str) -> list[ast.expr]:
    """Uses of a name as one side of a loss, or of a difference."""
    sides: list[ast.expr] = []
    if isinstance(node, ast.Call) and _A_LOSS.search(_last_name(node.func)):
        sides = [*node.args, *(each.value for each in node.keywords)]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        sides = [node.left, node.right]
    return [each for each in sides if _is_load(each, name)]


def _is_draw(value: Value) -> bool:
    return value.name in _DRAWS


def _only_draw(value: Value) -> Value | None:
    """The draw that an argument is made of, if nothing else that varies is in it."""
    origins = value.origins()
    drawn = [each for each in origins if _is_draw(each)]
    others = [
        each
        for each in origins
        if each.kind in _VARY or ("rand" in each.name and not _is_draw(each))
    ]
    return drawn[0] if len(drawn) == 1 and not others else None


def _is_again(draw: Value, other: Value) -> bool:
    """Another draw, of the same kind and shape."""
    if draw is other or draw.name != other.name or draw.node is None or other.node is None:
        return False
    return draw.node is not other.node and ast.dump(draw.node) == ast.dump(other.node)


def _is_trained(trace: Trace, event: Event) -> bool:
    return any(
        each.loops == event.loops and each.order > event.order
        for each in trace.all(Action.BACKWARD)
    )


JOINED = (
    ScriptRule(
        "AugmentedAlike",
        "Draw from one generator that goes on: torch.rand, or one made in __init__.",
        augmented_alike,
    ),
    ScriptRule(
        "AugmentedAlike",
        "Draw from torch or numpy.random, which torch seeds anew in each worker and epoch.",
        copied_into_workers,
    ),
    ScriptRule(
        "AugmentedAlike",
        "Cache what is read or decoded, and draw the random change anew each time.",
        kept_as_drawn,
    ),
    ScriptRule("SamplesNeverDrawn", "Return the number of samples.", counted_in_batches),
    ScriptRule(
        "LabelsShuffledApart",
        "Sort the batch as a whole, before it is split into inputs and labels.",
        collated_apart,
    ),
    ScriptRule(
        "LabelsShuffledApart",
        "Let the data set return the index of each sample, and read by that.",
        read_by_place,
    ),
    ScriptRule("TimeDrawnAgain", "Give the model the time of its noise.", time_drawn_again),
    ScriptRule("SameOrderEachEpoch", "Begin the loader anew in every epoch.", order_kept),
    ScriptRule("NoiseNotAdded", "Add the very noise that is the target.", noise_not_added),
)
RULES = JOINED
