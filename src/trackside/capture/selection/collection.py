"""Named sets of tensors, each with its own schedule and reductions. Matching is in `plan.py`."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from trackside.capture.exceptions import SMDebugError, SMDebugTypeError, SMDebugValueError
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig, SaveConfigMode


class CollectionKeys:
    DEFAULT = "default"
    ALL = "all"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    LOSSES = "losses"
    BIASES = "biases"
    LAYERS = "layers"
    METRICS = "metrics"
    SM_METRICS = "sm_metrics"
    OPTIMIZER_VARIABLES = "optimizer_variables"
    TENSORFLOW_SUMMARIES = "tensorflow_summaries"
    HYPERPARAMETERS = "hyperparameters"
    PREDICTIONS = "predictions"
    LABELS = "labels"
    FEATURE_IMPORTANCE = "feature_importance"
    AVERAGE_SHAP = "average_shap"
    FULL_SHAP = "full_shap"
    TREES = "trees"


BUILT_IN_PATTERNS: dict[str, tuple[str, ...]] = {
    CollectionKeys.DEFAULT: (),
    CollectionKeys.ALL: (),
    CollectionKeys.WEIGHTS: (r"^(?!gradient).*weight",),
    CollectionKeys.BIASES: (r"^(?!gradient).*bias",),
    CollectionKeys.GRADIENTS: (r"^gradient",),
    CollectionKeys.LOSSES: (r"[Ll]oss_(?!input).*output",),
}
NEVER_REDUCED = frozenset(
    {
        CollectionKeys.LOSSES,
        CollectionKeys.METRICS,
        CollectionKeys.FEATURE_IMPORTANCE,
        CollectionKeys.AVERAGE_SHAP,
        CollectionKeys.SM_METRICS,
        CollectionKeys.TENSORFLOW_SUMMARIES,
    }
)


class Collection:
    def __init__(
        self,
        name: str,
        include_regex: Iterable[str] | str | None = None,
        tensor_names: Iterable[str] | None = None,
        reduction_config: ReductionConfig | Mapping[str, Any] | None = None,
        save_config: SaveConfig | SaveConfigMode | Mapping[Any, Any] | None = None,
        save_histogram: bool = True,
        exclude_regex: Iterable[str] | str | None = None,
    ) -> None:
        self.name = name
        self.include_regex: list[str] = []
        self.include(include_regex or [])
        self.exclude_regex: list[str] = []
        self.exclude(exclude_regex or [])
        self.tensor_names = tensor_names
        self.reduction_config = reduction_config
        self.save_config = save_config
        self.save_histogram = save_histogram
        self.modules: list[tuple[Any, bool, bool]] = []
        """Modules added by `add_module_tensors`, with what is wanted of them."""

    @property
    def tensor_names(self) -> set[str]:
        return self._tensor_names

    @tensor_names.setter
    def tensor_names(self, names: Iterable[str] | None) -> None:
        if isinstance(names, str) or (names is not None and not isinstance(names, list | set)):
            raise SMDebugTypeError(f"tensor_names={names!r} is neither a list nor a set.")
        self._tensor_names = set(names or ())

    @property
    def reduction_config(self) -> ReductionConfig | None:
        return self._reduction_config

    @reduction_config.setter
    def reduction_config(self, config: ReductionConfig | Mapping[str, Any] | None) -> None:
        if isinstance(config, Mapping):
            config = ReductionConfig.from_dict(config)
        if config is not None and not isinstance(config, ReductionConfig):
            raise SMDebugTypeError(f"reduction_config={config!r} is not a ReductionConfig.")
        self._reduction_config = config

    @property
    def save_config(self) -> SaveConfig | None:
        return self._save_config

    @save_config.setter
    def save_config(self, config: SaveConfig | SaveConfigMode | Mapping[Any, Any] | None) -> None:
        self._save_config = None if config is None else SaveConfig.parse(config)

    def include(self, patterns: str | Iterable[str]) -> None:
        """Add patterns; a tensor belongs here when its name matches one of them anywhere."""
        self._add(patterns, self.include_regex)

    def exclude(self, patterns: str | Iterable[str]) -> None:
        """Add patterns of tensors that do not belong here in any case."""
        self._add(patterns, self.exclude_regex)

    def _add(self, patterns: str | Iterable[str], known: list[str]) -> None:
        given = [patterns] if isinstance(patterns, str) else patterns
        if not isinstance(given, list | tuple) or not all(isinstance(p, str) for p in given):
            raise SMDebugTypeError(f"{patterns!r} is neither a pattern nor a list of patterns.")
        for pattern in given:
            try:
                re.compile(pattern)
            except re.error as error:
                raise SMDebugValueError(
                    f"Pattern {pattern!r} of collection {self.name!r} is no regular "
                    f"expression: {error}."
                ) from None
            if pattern not in known:
                known.append(pattern)

    def add_module_tensors(self, module: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add a registered module's inputs and outputs, whatever their names."""
        self.modules.append((module, inputs, outputs))

    def add_tensor_name(self, tname: str) -> None:
        self._tensor_names.add(tname)

    def remove_tensor_name(self, tname: str) -> None:
        self._tensor_names.discard(tname)

    def has_tensor_name(self, tname: str) -> bool:
        return tname in self._tensor_names

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "include_regex": list(self.include_regex),
            "tensor_names": sorted(self._tensor_names),
            "reduction_config": self.reduction_config and self.reduction_config.to_json_dict(),
            "save_config": self.save_config and self.save_config.to_json_dict(),
            "save_histogram": self.save_histogram,
        } | ({"exclude_regex": list(self.exclude_regex)} if self.exclude_regex else {})

    def to_json(self) -> str:
        return json.dumps(self.to_json_dict())

    @classmethod
    def from_dict(cls, params: Mapping[str, Any]) -> "Collection":
        if not isinstance(params, Mapping) or "name" not in params:
            raise SMDebugValueError(f"{params!r} is not a collection: a dict with a name.")
        return cls(
            name=params["name"],
            include_regex=params.get("include_regex") or [],
            tensor_names=list(params.get("tensor_names") or []),
            reduction_config=params.get("reduction_config"),
            save_config=params.get("save_config"),
            save_histogram=params.get("save_histogram", True),
            exclude_regex=params.get("exclude_regex") or [],
        )

    @classmethod
    def from_json(cls, json_str: str) -> "Collection":
        return cls.from_dict(json.loads(json_str))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Collection):
            return NotImplemented
        return self.to_json_dict() == other.to_json_dict()

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Collection({self.name!r})"


class CollectionManager:
    """All collections of one hook, the built-in ones first; the content of the collections file."""

    def __init__(self) -> None:
        self.collections = {
            name: Collection(name, list(patterns)) for name, patterns in BUILT_IN_PATTERNS.items()
        }
        self.num_workers = 1
        self.gradients_at: str | None = None
        """In which sense gradients are saved: "backward" or "optimizer"."""

    def get(self, name: str, create: bool = True) -> Collection:
        if name not in self.collections:
            if not create:
                raise SMDebugError(
                    f"No collection is called {name!r}. Known: {', '.join(self.collections)}."
                )
            self.collections[name] = Collection(name)
        return self.collections[name]

    def get_collections(self) -> dict[str, Collection]:
        return self.collections

    def add(self, collection: Collection | str) -> None:
        """A collection of the same name is replaced."""
        if isinstance(collection, str):
            collection = Collection(collection)
        if not isinstance(collection, Collection):
            raise SMDebugTypeError(f"{collection!r} is neither a collection nor a name.")
        self.collections[collection.name] = collection

    def fill(self, save_config: SaveConfig, reduction_config: ReductionConfig) -> None:
        """Give every collection without its own settings the hook's."""
        for collection in self.collections.values():
            if collection.save_config is None:
                collection.save_config = save_config
            else:
                collection.save_config.merge_default_save_config(save_config)
            if collection.name in NEVER_REDUCED:
                collection.reduction_config = ReductionConfig(save_raw_tensor=True)
            elif collection.reduction_config is None:
                collection.reduction_config = reduction_config

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "collections": {name: each.to_json_dict() for name, each in self.collections.items()},
            "_meta": {"num_workers": self.num_workers}
            | ({"gradients_at": self.gradients_at} if self.gradients_at else {}),
        }


def flatten_names(given: Iterable[Any] | None) -> list[str]:
    """Collection names from nested lists, each once, in order. A single name is accepted."""
    names: dict[str, None] = {}
    for item in [given] if isinstance(given, str) else given or ():
        if isinstance(item, str):
            names[item] = None
        elif isinstance(item, Collection):
            names[item.name] = None
        elif isinstance(item, list | tuple | set):
            names.update(dict.fromkeys(flatten_names(item)))
        else:
            raise SMDebugTypeError(f"include_collections holds {item!r}, which is not a name.")
    return list(names)
