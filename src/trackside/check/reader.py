"""Goes through a script as Python would, once through every loop and both sides of every `if`, with
values that say only what a thing is. Functions of the script are followed where they are called.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from trackside.check.library import LibraryCalls
from trackside.check.program import Module, Program
from trackside.check.trace import Action, Branch, Event, Loop, Trace
from trackside.check.values import UNKNOWN, Kind, Value

MOST_EVENTS = 20_000
MOST_CALLS = 3_000
"""Calls of the script's own functions that are followed."""
MOST_DEPTH = 12
_MODULE_BASES = ("Module", "PreTrainedModel", "LightningModule", "ModelMixin")
_DATASET_BASES = ("Dataset", "IterableDataset")
_MODES = {"train": Action.TRAIN, "eval": Action.EVAL}
_MODEL_ITSELF = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "compile", "apply"}
_ENTERED = {Kind.MODEL, Kind.WRAPPED}

Arguments = dict[str, Value]


@dataclass(slots=True)
class _Frame:
    """The names of one function's body, or of a module."""

    module: Module
    names: dict[str, Value] = field(default_factory=dict)
    outer: "_Frame | None" = None
    returned: list[Value] = field(default_factory=list)

    def find(self, name: str) -> Value | None:
        frame: _Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.outer
        return None


def read_trace(program: Program) -> Trace:
    return _Reader(program).run()


class _Reader:
    def __init__(self, program: Program) -> None:
        self._program = program
        self.trace = Trace()
        self._modules: dict[str, _Frame] = {}
        self._loops: tuple[Loop, ...] = ()
        self._branches: tuple[Branch, ...] = ()
        self._contexts: tuple[str, ...] = ()
        self._active: list[int] = []
        self._num_calls = 0
        self._num_marks = 0
        self._in_models = 0
        """How many forwards of the script's models are being followed."""
        self._frame = _Frame(program.entry)
        self._library = LibraryCalls(self)

    def run(self) -> Trace:
        files = {each.path: each for each in (self._program.entry, *self._program.modules.values())}
        self.trace.trees = [(path, each.tree) for path, each in files.items()]
        self.trace.comments = "\n".join(each.comments for each in files.values())
        self._block(self._program.entry.tree.body)
        return self.trace

    # ---- events

    def add(
        self, action: Action, value: Value, node: ast.AST, arguments: Arguments | None = None
    ) -> None:
        if len(self.trace.events) >= MOST_EVENTS:
            self.trace.is_cut = True
            return
        self.trace.events.append(
            Event(
                action,
                value,
                self._frame.module.path,
                getattr(node, "lineno", 0),
                len(self.trace.events),
                self._loops,
                self._branches,
                self._contexts,
                arguments or {},
            )
        )

    def made(self, kind: Kind, name: str, node: ast.AST, arguments: Arguments) -> Value:
        """A new value; recorded if rules may ask about it."""
        value = Value(
            kind,
            name,
            self._frame.module.path,
            getattr(node, "lineno", 0),
            of=tuple(arguments.values()),
            arguments=arguments,
            node=node,
            loops=tuple(loop.number for loop in self._loops),
        )
        self.add(Action.MAKE, value, node, arguments)
        return value

    # ---- statements

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            handler(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.stmt):
                self._statement(child)

    def _functiondef(self, node: ast.FunctionDef) -> None:
        self._frame.names[node.name] = Value(
            Kind.FUNCTION, node.name, self._frame.module.path, node.lineno, node=node,
            constant=self._frame,
        )  # fmt: skip

    def _classdef(self, node: ast.ClassDef) -> None:
        value = Value(
            Kind.CLASS, node.name, self._frame.module.path, node.lineno, node=node,
            constant=self._frame,
        )  # fmt: skip
        self._frame.names[node.name] = value
        if self.is_subclass(value, _MODULE_BASES):
            self.trace.classes.append((self._frame.module.path, node))

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        if value.kind in _ENTERED and isinstance(node.value, ast.Name | ast.Attribute):
            for target in node.targets:
                name = getattr(target, "attr", getattr(target, "id", ""))
                self.add(Action.ALIAS, value, node, {"name": Value(name=name)})
        for target in node.targets:
            self._bind(target, value, node)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self.value(node.value), node)

    def _augassign(self, node: ast.AugAssign) -> None:
        before, added = self.value(node.target), self.value(node.value)
        if added.has(Kind.TENSOR) and isinstance(node.op, ast.Add):
            self.add(Action.ACCUMULATE, added, node, {"to": before})
        kind = Kind.TENSOR if Kind.TENSOR in (before.kind, added.kind) else Kind.UNKNOWN
        self._bind(node.target, Value(kind, of=(before, added)), node)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._frame.returned.append(self.value(node.value))

    def _for(self, node: ast.For) -> None:
        iterated = self.value(node.iter)
        with self._looping(node, iterated):
            self._bind(node.target, _element(iterated), node)
            self._block(node.body)
        self._block(node.orelse)

    def _while(self, node: ast.While) -> None:
        with self._looping(node, UNKNOWN):
            self.value(node.test)
            self._block(node.body)
        self._block(node.orelse)

    def _if(self, node: ast.If) -> None:
        self.value(node.test)
        before = dict(self._frame.names)
        self._num_marks += 1
        number = self._num_marks
        with self._branching(Branch(number, True, node.test)):
            self._block(node.body)
        after = dict(self._frame.names)
        if node.orelse:
            with self._branching(Branch(number, False, node.test)):
                self._block(node.orelse)
        for name, value in after.items():  # what is known on one side is taken
            now = self._frame.names.get(name, UNKNOWN)
            if value is not before.get(name) and value.kind is not Kind.UNKNOWN:
                self._frame.names[name] = value
            elif now.kind is Kind.UNKNOWN and name in before:
                self._frame.names[name] = before[name] if now is UNKNOWN else now

    def _with(self, node: ast.With) -> None:
        names = []
        for item in node.items:
            entered = self.value(item.context_expr)
            names.append(entered.name)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, entered, node)
        before = self._contexts
        self._contexts = (*before, *names)
        self._block(node.body)
        self._contexts = before

    def _try(self, node: ast.Try) -> None:
        self._block(node.body)
        for handler in node.handlers:
            self._num_marks += 1
            with self._branching(Branch(self._num_marks, True, ast.Constant(True))):
                self._block(handler.body)
        self._block(node.orelse)
        self._block(node.finalbody)

    @contextmanager
    def _looping(self, node: ast.stmt, iterated: Value) -> Iterator[None]:
        self._num_marks += 1
        before = self._loops
        loop = Loop(self._num_marks, self._frame.module.path, node.lineno, iterated)
        self._loops = (*before, loop)
        try:
            yield
        finally:
            self._loops = before

    @contextmanager
    def _branching(self, branch: Branch) -> Iterator[None]:
        before = self._branches
        self._branches = (*before, branch)
        try:
            yield
        finally:
            self._branches = before

    def _bind(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        match target:
            case ast.Name(id=name):
                self._frame.names[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                self._unpack(parts, value, node)
            case ast.Attribute(value=base, attr=name):
                self._bind_attribute(self.value(base), name, value, node)
            case ast.Starred(value=inner):
                self._bind(inner, UNKNOWN, node)

    def _unpack(self, parts: Sequence[ast.expr], value: Value, node: ast.stmt) -> None:
        for place, part in enumerate(parts):
            if value.has(Kind.TUPLE) and place < len(value.items):
                self._bind(part, value.items[place], node)
            else:
                kind = value.kind if value.has(Kind.TENSOR) else Kind.UNKNOWN
                self._bind(part, Value(kind, value.name, of=(value,)), node)

    def _bind_attribute(self, base: Value, name: str, value: Value, node: ast.stmt) -> None:
        if name == "requires_grad" and value.constant is False:
            self.add(Action.FREEZE, base, node)
        if name == "grad":
            self.add(Action.BY_HAND, base, node)
        if name == "data" and isinstance(node, ast.Assign):
            self.add(Action.FILL, base, node, {"0": value, "source": Value(node=node.value)})
        if name.startswith("require") and name != "requires_grad":
            self.add(Action.MISSPELT, base, node, {"name": Value(name=name)})
        if base.kind in _ENTERED and value.has(Kind.MODEL) and not self._in_models:
            self.add(Action.REPLACE, base, node, {"part": value})
        if base is not UNKNOWN:
            base.attributes[name] = value

    # ---- expressions

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=constant):
                return Value(Kind.CONSTANT, constant=constant)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(value=base, attr=attribute):
                return self._attribute(self.value(base), attribute, node)
            case ast.Call():
                return self._call(node)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return Value(Kind.TUPLE, items=tuple(map(self.value, parts)), node=node)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self._comprehension(node)
            case ast.Subscript(value=base, slice=place):
                return self._subscript(self.value(base), self.value(place))
            case ast.IfExp(body=body, orelse=other):
                first, second = self.value(body), self.value(other)
                return second if first.kind in (Kind.UNKNOWN, Kind.CONSTANT) else first
        return self._compound(node)

    def _compound(self, node: ast.expr) -> Value:
        """An operation: a tensor if one of its parts is. The body of a lambda does not run here."""
        if isinstance(node, ast.Lambda):
            return UNKNOWN
        parts = tuple(
            self.value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
        )
        kind = Kind.TENSOR if any(part.has(Kind.TENSOR) for part in parts) else Kind.UNKNOWN
        value = Value(kind, of=parts, node=node)
        self._judged(value, node)
        return value

    def _judged(self, value: Value, node: ast.expr) -> None:
        if isinstance(node, ast.Compare):
            self.add(Action.COMPARE, value, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            self.add(Action.DIVIDE, value, node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
        for generator in node.generators:
            iterated = self.value(generator.iter)
            self._bind(generator.target, _element(iterated), ast.Pass(lineno=node.lineno))
        return Value(Kind.TUPLE, items=(self.value(node.elt),), node=node)

    def _name(self, name: str) -> Value:
        found = self._frame.find(name)
        if found is not None:
            return found
        full = self._frame.module.names.get(name)
        if full is None:
            return Value(Kind.LIBRARY, f"builtins.{name}")
        return self._own(full) or Value(Kind.LIBRARY, full)

    def _own(self, full: str) -> Value | None:
        """Something of another file of the script."""
        package, _, name = full.rpartition(".")
        if full in self._program.modules:
            frame = self._module(full)
            return Value(Kind.OBJECT, full, attributes=frame.names)
        if package in self._program.modules:
            return self._module(package).names.get(name, UNKNOWN)
        return None

    def _module(self, name: str) -> _Frame:
        if name not in self._modules:
            frame = _Frame(self._program.modules[name])
            self._modules[name] = frame
            with self._entering(frame):
                self._block(frame.module.tree.body)
        return self._modules[name]

    def _attribute(self, base: Value, name: str, node: ast.expr) -> Value:
        if base.has(Kind.LIBRARY):
            full = f"{base.name}.{name}"
            return self._own(full) or Value(Kind.LIBRARY, full)
        if name in base.attributes:
            return base.attributes[name]
        if base.has(Kind.WRAPPED) and name == "module":
            return base.argument("module", 0) or UNKNOWN
        if base.has(Kind.LOADER) and name in ("dataset", "sampler", "batch_sampler"):
            return base.argument(name, 0 if name == "dataset" else None) or UNKNOWN
        if base.kind in (Kind.OBJECT, Kind.MODEL) and (method := self._method(base, name)):
            return method
        kind = Kind.TENSOR if base.has(Kind.TENSOR) else Kind.UNKNOWN
        return Value(kind, name=f".{name}", of=(base,), node=node)

    def _subscript(self, base: Value, place: Value) -> Value:
        index = place.constant
        if (
            base.has(Kind.TUPLE)
            and isinstance(index, int)
            and -len(base.items) <= index < len(base.items)
        ):
            return base.items[index]
        of = (base,) if place.has(Kind.CONSTANT) else (base, place)
        return Value(Kind.TENSOR if base.has(Kind.TENSOR) else Kind.UNKNOWN, of=of)

    # ---- calls

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute):
            receiver = self.value(node.func.value)
            if not receiver.has(Kind.LIBRARY):
                arguments = self._arguments(node)
                return self._method_call(receiver, node.func.attr, arguments, node)
        called = self.value(node.func)
        arguments = self._arguments(node)
        return self.call(called, arguments, node)

    def call(self, called: Value, arguments: Arguments, node: ast.AST) -> Value:
        match called.kind:
            case Kind.LIBRARY:
                return self._library.call(called.name, arguments, node)
            case Kind.FUNCTION:
                return self._follow(called, arguments, None)
            case Kind.CLASS:
                return self._instance(called, arguments, node)
            case Kind.MODEL | Kind.WRAPPED:
                return self._forward(called, arguments, node)
            case Kind.LOSS:
                return self._library.loss(called.name, called, arguments, node)
            case Kind.OBJECT if method := self._method(called, "__call__"):
                return self._follow(method, arguments, called)
        return Value(of=(called, *arguments.values()))

    def _arguments(self, node: ast.Call) -> Arguments:
        found: Arguments = {}
        for place, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                spread = self.value(argument.value)
                for offset, item in enumerate(spread.items):
                    found[str(place + offset)] = item
            else:
                found[str(place)] = self.value(argument)
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                found[keyword.arg] = value
        return found

    def _method_call(
        self, receiver: Value, name: str, arguments: Arguments, node: ast.Call
    ) -> Value:
        own = receiver.attributes.get(name)
        if own is not None:
            return self.call(own, arguments, node)
        if receiver.kind in _ENTERED:
            return self._model_call(receiver, name, arguments, node)
        if receiver.has(Kind.OBJECT) and (method := self._method(receiver, name)):
            return self._follow(method, arguments, receiver)
        return self._library.method(receiver, name, arguments, node)

    def _model_call(self, model: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if name in _MODES:
            mode = arguments.get("0") or arguments.get("mode")
            is_off = name == "train" and mode is not None and mode.constant is False
            self.add(Action.EVAL if is_off else _MODES[name], model, node, arguments)
            return model
        if method := self._method(model, name):
            return self._follow(method, arguments, model)
        if name in _MODEL_ITSELF:
            return model
        if name in ("parameters", "named_parameters"):
            return Value(Kind.PARAMETERS, name, of=(model,), line=node.lineno)
        if name in ("forward", "__call__"):
            return self._forward(model, arguments, node)
        return self._library.method(model, name, arguments, node)

    def _forward(self, model: Value, arguments: Arguments, node: ast.AST) -> Value:
        if not self._in_models:
            self.add(Action.FORWARD, model, node, arguments)
        output = Value(
            Kind.TENSOR, self._library.output_name(model), of=(model, *arguments.values())
        )
        inner = model.argument("module", 0) if model.has(Kind.WRAPPED) else model
        method = self._method(inner, "forward") if inner is not None else None
        if method is None or inner is None:
            return output
        self._in_models += 1
        returned = self._follow(method, arguments, inner)
        self._in_models -= 1
        if returned.has(Kind.TUPLE):
            return returned
        output.name = returned.name or output.name
        return output

    def _method(self, receiver: Value, name: str) -> Value | None:
        owner = receiver.constant if isinstance(receiver.constant, Value) else None
        while owner is not None and isinstance(owner.node, ast.ClassDef):
            for each in owner.node.body:
                if isinstance(each, ast.FunctionDef) and each.name == name:
                    path = owner.path
                    return Value(
                        Kind.FUNCTION, name, path, each.lineno, node=each, constant=owner.constant
                    )
            owner = self._base_of(owner)
        return None

    def _base_of(self, owner: Value) -> Value | None:
        """The first base class that the script defines itself."""
        assert isinstance(owner.node, ast.ClassDef)
        for base in owner.node.bases:
            found = self._in_frame(owner, base)
            if found.has(Kind.CLASS) and found is not owner:
                return found
        return None

    def _in_frame(self, owner: Value, node: ast.expr) -> Value:
        frame = owner.constant
        if not isinstance(frame, _Frame):
            return UNKNOWN
        with self._entering(frame):
            return self.value(node)

    def is_subclass(self, value: Value, endings: tuple[str, ...], depth: int = 0) -> bool:
        if not isinstance(value.node, ast.ClassDef) or depth > MOST_DEPTH:
            return False
        for node in value.node.bases:
            base = self._in_frame(value, node)
            if base.has(Kind.LIBRARY) and base.name.rpartition(".")[2].endswith(endings):
                return True
            if base.has(Kind.CLASS) and self.is_subclass(base, endings, depth + 1):
                return True
        return False

    def _instance(self, made_by: Value, arguments: Arguments, node: ast.AST) -> Value:
        kind = Kind.OBJECT
        if self.is_subclass(made_by, _MODULE_BASES):
            kind = Kind.MODEL
        elif self.is_subclass(made_by, _DATASET_BASES):
            kind = Kind.DATASET
        made = self.made(kind, made_by.name, node, arguments)
        made.constant = made_by
        if method := self._method(made, "__init__"):
            self._in_models += 1
            self._follow(method, arguments, made)
            self._in_models -= 1
        return made

    def _follow(self, function: Value, arguments: Arguments, receiver: Value | None) -> Value:
        """Through the body of a function of the script."""
        node, outer = function.node, function.constant
        if not isinstance(node, ast.FunctionDef) or not isinstance(outer, _Frame):
            return UNKNOWN
        is_deep = id(node) in self._active or len(self._active) >= MOST_DEPTH
        if is_deep or self._num_calls >= MOST_CALLS:
            self.trace.is_cut |= self._num_calls >= MOST_CALLS
            return UNKNOWN
        self._num_calls += 1
        frame = _Frame(outer.module, outer=outer)
        self._fill(frame, node, arguments, receiver)
        contexts = self._contexts
        self._active.append(id(node))
        with self._entering(frame):
            self._contexts = (*contexts, *(self.value(each).name for each in node.decorator_list))
            self._block(node.body)
        self._active.pop()
        self._contexts = contexts
        known = [each for each in frame.returned if each.kind is not Kind.UNKNOWN]
        return known[0] if known else (frame.returned[0] if frame.returned else UNKNOWN)

    def _fill(
        self, frame: _Frame, node: ast.FunctionDef, arguments: Arguments, receiver: Value | None
    ) -> None:
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        if receiver is not None and names:
            frame.names[names.pop(0)] = receiver
        for name in (*names, *(each.arg for each in node.args.kwonlyargs)):
            frame.names[name] = Value(name=f"parameter {name}")
        defaults = zip(reversed(names), reversed(node.args.defaults), strict=False)
        for name, default in defaults:
            frame.names[name] = self._in_frame(Value(constant=frame.outer), default)
        for key, value in arguments.items():
            if not key.isdigit():
                frame.names[key] = value
            elif int(key) < len(names):
                frame.names[names[int(key)]] = value

    @contextmanager
    def _entering(self, frame: _Frame) -> Iterator[None]:
        before = self._frame
        self._frame = frame
        try:
            yield
        finally:
            self._frame = before

    def start(self, function: Value, arguments: Sequence[Value] = ()) -> None:
        """A function that a library is given to call."""
        self._follow(function, {str(place): each for place, each in enumerate(arguments)}, None)


def _element(iterated: Value) -> Value:
    """What a loop's variable is."""
    name = iterated.name.rpartition(".")[2]
    if name == "enumerate":
        inner = iterated.of[0] if iterated.of else UNKNOWN
        return Value(Kind.TUPLE, items=(Value(Kind.CONSTANT), _element(inner)))
    if name == "zip":
        return Value(Kind.TUPLE, items=tuple(map(_element, iterated.of)))
    if iterated.has(Kind.PARAMETERS):
        parameter = Value(name="parameter", of=(iterated,))
        if iterated.name == "named_parameters":
            return Value(Kind.TUPLE, items=(Value(Kind.CONSTANT), parameter))
        return parameter
    if any(each.has(Kind.LOADER) for each in iterated.origins()):
        return Value(Kind.TENSOR, "batch", of=(iterated,))
    if iterated.has(Kind.TUPLE) and iterated.items:
        return iterated.items[0]
    kind = Kind.TENSOR if iterated.has(Kind.TENSOR) else Kind.UNKNOWN
    return Value(kind, of=(iterated,))
