"""`dataclass` for frozen records with slots, and for rules (`@dataclass` without options), made in
a third of the time that the library's takes.

The library compiles up to six methods of each class from text when its module is imported: half a
millisecond a class, and half of the time in which a command of ours starts. Here the library finds
the fields and makes the slots, `__init__` alone is compiled, when the first record of a class is
made, and the other methods are shared. What they do is the same. Any other kind of dataclass is
left to the library. For modules that are loaded before a job starts or a command responds, or by
every evaluator; where start-up does not matter, use the library's.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    import sys
    from dataclasses import MISSING, FrozenInstanceError
    from operator import attrgetter
    from reprlib import recursive_repr

    _OWN = ("__init__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__")
    """A class that has one of these itself, or a base among dataclasses, goes to the library."""

    def dataclass(cls=None, /, **options):
        def made(cls):
            plain = {key: value for key, value in options.items() if key != "kw_only"}
            is_own = any(name in cls.__dict__ for name in _OWN)
            is_derived = any(dataclasses.is_dataclass(base) for base in cls.__bases__)
            if not options and not is_own and "__repr__" not in cls.__dict__:
                return _changeable(cls)
            if plain != {"frozen": True, "slots": True} or is_own or is_derived:
                return dataclasses.dataclass(cls, **_known(options))
            return _record(cls, options.get("kw_only", False))

        return made if cls is None else made(cls)

    def _known(options):
        """An older Python in a container has neither, and needs neither."""
        if sys.version_info >= (3, 10):  # noqa: UP036
            return options
        return {key: value for key, value in options.items() if key not in ("slots", "kw_only")}

    def _record(cls, kw_only):
        cls.__doc__ = cls.__doc__ or cls.__name__  # or the library would compute a signature
        options = {"slots": True, "kw_only": kw_only}
        cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, **_known(options))
        cls.__dataclass_params__.frozen = cls.__dataclass_params__.eq = True
        fields = dataclasses.fields(cls)
        cls.__init__ = _LateInit(cls, fields)
        cls.__setattr__, cls.__delattr__ = _frozen(cls, frozenset(each.name for each in fields))
        cls.__eq__, cls.__hash__ = _equality(fields)
        cls.__getstate__, cls.__setstate__ = _pickling(fields)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr(tuple(each.name for each in fields if each.repr))
        return cls

    def _changeable(cls):
        cls.__doc__ = cls.__doc__ or cls.__name__
        cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False)
        cls.__dataclass_params__.eq = True
        fields = dataclasses.fields(cls)
        cls.__init__ = _LateInit(cls, fields, is_frozen=False)
        cls.__eq__, cls.__hash__ = _equality(fields)[0], None
        cls.__repr__ = _repr(tuple(each.name for each in fields if each.repr))
        return cls

    class _LateInit:
        """Stands for a class's `__init__` until that is first looked at, and is then replaced by
        it: of the classes that a process loads, it makes records of less than half."""

        def __init__(self, cls, fields, is_frozen=True):
            self._given = cls, fields, is_frozen

        def __get__(self, record, kind=None):
            cls = self._given[0]
            init = _init(*self._given)
            if cls.__dict__.get("__init__") is self:
                cls.__init__ = init
            return init if record is None else init.__get__(record, kind)

    def _init(cls, fields, is_frozen):
        known = {"_set": object.__setattr__, "_missing": MISSING}
        positional, named, lines = [], [], []
        for each in fields:
            name, parameter, value = each.name, each.name, each.name
            if each.default is not MISSING:
                known[f"_of_{name}"] = each.default
                parameter = f"{name}=_of_{name}"
                value = name if each.init else f"_of_{name}"
            elif each.default_factory is not MISSING:
                known[f"_of_{name}"] = each.default_factory
                parameter = f"{name}=_missing"
                made = f"_of_{name}()"
                value = f"{made} if {name} is _missing else {name}" if each.init else made
            if each.init:
                (named if getattr(each, "kw_only", False) else positional).append(parameter)
            if is_frozen:
                lines.append(f" _set(self, {name!r}, {value})\n")
            elif each.init or each.default is MISSING:  # else the class has it
                lines.append(f" self.{name} = {value}\n")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()\n")
        parameters = ", ".join(["self", *positional, *(["*"] if named else []), *named])
        text = f"def __init__({parameters}):\n{''.join(lines) or ' pass'}"
        # To execute a text, not compiled code, makes CPython forget a KeyboardInterrupt that ends
        # the process: it would exit with 1 instead of by SIGINT.
        exec(compile(text, "<record>", "exec"), known)
        init = known["__init__"]
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        init.__module__ = cls.__module__
        return init

    def _frozen(cls, names):
        def __setattr__(self, name, value):
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def __delattr__(self, name):
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        return __setattr__, __delattr__

    def _equality(fields):
        values = _values([each.name for each in fields if each.compare])
        kept = [each for each in fields if (each.compare if each.hash is None else each.hash)]
        hashed = _values([each.name for each in kept])

        def __eq__(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return values(self) == values(other)

        def __hash__(self):
            return hash(hashed(self))

        return __eq__, __hash__

    def _values(names):
        if len(names) > 1:
            return attrgetter(*names)
        return lambda record: tuple(getattr(record, name) for name in names)

    def _pickling(fields):
        def __getstate__(self):
            return [getattr(self, each.name) for each in fields]

        def __setstate__(self, state):
            for each, value in zip(fields, state):  # noqa: B905
                object.__setattr__(self, each.name, value)

        return __getstate__, __setstate__

    def _repr(names):
        @recursive_repr()
        def __repr__(self):
            values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            return f"{self.__class__.__qualname__}({values})"

        return __repr__
