"""The collections of the built-in rules, by a module's type where names do not match.

The rules' default patterns are layer names of other frameworks; few PyTorch models have them.
`plan.py` matches patterns; here they are created.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.capture.selection.collection import CollectionKeys, CollectionManager

Modules = Sequence[tuple[str, Any]]
"""Each module under the prefix of its tensors' names; the root first."""

_RELU = frozenset({"ReLU", "ReLU6"})
_RELU_LIKE = _RELU | {
    "CELU",
    "ELU",
    "GELU",
    "GELUActivation",
    "Hardswish",
    "LeakyReLU",
    "Mish",
    "NewGELUActivation",
    "PReLU",
    "SELU",
    "SiLU",
    "SiLUActivation",
    "Softplus",
}


@dataclass(frozen=True, slots=True)
class _Kind:
    pattern: str
    """The rule's default."""
    tensors: str
    """Which of a module's, as a pattern; a module that runs again counts on."""
    choose: Callable[[Modules], list[str]]


def _of_class(names: frozenset[str]) -> Callable[[Modules], list[str]]:
    """By name, so that subclasses and look-alikes of other libraries count."""

    def choose(modules: Modules) -> list[str]:
        return [path for path, module in modules if _class_names(module) & names]

    return choose


def _root(modules: Modules) -> list[str]:
    return [path for path, _ in modules[:1]]


def _largest_embedding(modules: Modules) -> list[str]:
    """The token embedding: those for positions and segments have fewer rows."""
    found = [
        (getattr(module, "num_embeddings", 0), path)
        for path, module in modules
        if _class_names(module) & {"Embedding", "EmbeddingBag"}
    ]
    return [max(found, key=lambda each: each[0])[1]] if found else []


def _class_names(module: Any) -> set[str]:
    return {each.__name__ for each in type(module).__mro__}


_KINDS = {
    "relu_output": _Kind(".*relu_output", r"output_\d+", _of_class(_RELU)),
    "relu_input": _Kind(".*relu_input", r"input_\d+", _of_class(_RELU_LIKE)),
    "tanh_input": _Kind(".*tanh_input", r"input_\d+", _of_class(frozenset({"Tanh"}))),
    "sigmoid_input": _Kind(".*sigmoid_input", r"input_\d+", _of_class(frozenset({"Sigmoid"}))),
    "input_image": _Kind(".*hybridsequential0_input_0", "input_0", _root),
    "input_sequence": _Kind(".*embedding0_input_0", r"input_\d+", _largest_embedding),
}
DEFAULT_PATTERNS: Mapping[str, str] = {name: kind.pattern for name, kind in _KINDS.items()}
"""Collection to the pattern with which a rule requests it."""


def widen_by_type(
    manager: CollectionManager, included: Iterable[str], models: Sequence[Modules]
) -> None:
    """Where a default pattern matches no module, add patterns for the modules' types.

    A user's own pattern is unchanged. If everything is saved, the collections are described
    without a request, so that rules find their tensors among the rest.
    """
    wanted = set(included)
    for name, kind in _KINDS.items():
        if name not in wanted and CollectionKeys.ALL not in wanted:
            continue
        known = manager.get_collections().get(name)
        if known is not None and any(each != kind.pattern for each in known.include_regex):
            continue
        paths = [path for modules in models for path in kind.choose(modules)]
        if paths and not _is_matched(kind, models):
            pattern = f"^(?:{'|'.join(map(re.escape, paths))})_{kind.tensors}$"
            manager.get(name).include([kind.pattern, pattern])


def _is_matched(kind: _Kind, models: Sequence[Modules]) -> bool:
    pattern = re.compile(kind.pattern)
    return any(
        pattern.search(f"{path}_{side}_0")
        for modules in models
        for path, _ in modules
        for side in ("input", "output")
    )
