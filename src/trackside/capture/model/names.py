"""Tensor names: smdebug's, seen through the wrappers of current PyTorch."""

from collections.abc import Iterator
from copy import copy
from typing import Any

_ROOT_WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
}
"""Class to the attribute that holds the wrapped module."""
_INNER_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Path components of wrappers; `module` is kept inside, where it may be the user's."""


class Names:
    """Names for one registered root. `literal` keeps wrapper classes and prefixes."""

    def __init__(self, root: Any, *, literal: bool = False) -> None:
        self._literal = literal
        self._number: int | None = None
        self.module = root if literal else _unwrap(root)
        self.root = type(root).__name__ if literal else _class_name(self.module)

    def parameters(self, *, tied: bool = False) -> Iterator[tuple[str, Any]]:
        """Each under its first name; with `tied` also under its other ones."""
        for path, parameter in self.module.named_parameters(remove_duplicate=not tied):
            yield f"{self.root}_{self._path(path)}", parameter

    def modules(self) -> Iterator[tuple[str, Any]]:
        """The root under its class name, each submodule under its path; wrappers only once."""
        seen: set[str] = set()
        for path, module in self.module.named_modules():
            name = self._path(path) or self.root
            if name not in seen:
                seen.add(name)
                yield self._numbered(name), module

    def apart(self, number: int) -> "Names":
        """The same, with module names that distinguish it from other models of its class."""
        names = copy(self)
        names._number = number
        return names

    def _numbered(self, name: str) -> str:
        if self._number is None:
            return name
        model = f"{self.root}{self._number}"
        return model if name == self.root else f"{model}.{name}"

    def _path(self, path: str) -> str:
        if self._literal:
            return path
        return ".".join(part for part in path.split(".") if part not in _INNER_WRAPPERS)


def loss_name(module: Any) -> str:
    return type(module).__name__


def _unwrap(module: Any) -> Any:
    while type(module).__module__.startswith("torch."):
        attribute = _ROOT_WRAPPERS.get(type(module).__name__)
        if attribute is None:
            break
        module = getattr(module, attribute)
    return module


def _class_name(module: Any) -> str:
    kind = type(module)
    if kind.__module__.startswith("torch.jit."):
        return str(module.original_name)
    if kind.__name__.startswith("FSDP") and kind.__bases__[0].__name__ == "FSDPModule":
        return kind.__bases__[1].__name__  # `fully_shard` substitutes a subclass
    return kind.__name__
