"""What is saved when: collections compiled into masks and lookups. Imports no torch."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from trackside.capture.exceptions import InvalidCollectionConfiguration
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import BUILT_IN_PATTERNS, Collection, CollectionKeys
from trackside.capture.selection.save_config import SaveConfigMode

_PROBED_INDICES = range(32)
"""Positions tried when checking whether any tensor of a module could be selected."""


class Origin(Enum):
    """Where a value comes from, which is more specific than its name."""

    PARAMETER = auto()
    GRADIENT = auto()
    ACTIVATION = auto()
    LOSS = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Treatment:
    """What to keep of one tensor at one step."""

    raw: bool
    columns: tuple[str, ...]
    shape: bool
    histograms: tuple[str, ...] = ()
    """Collections under which TensorBoard shows a histogram."""
    is_scalar: bool = False
    """Belongs to a collection of scalars: one element becomes a curve."""


class CapturePlan:
    """The included collections as bits. A step has a mask of those due; 0 means nothing to do."""

    def __init__(self, collections: Mapping[str, Collection], included: Iterable[str]) -> None:
        self._collections = [collections[name] for name in included]
        self.problems = [
            InvalidCollectionConfiguration(each.name)
            for each in self._collections
            if each.name not in BUILT_IN_PATTERNS and not (each.include_regex or each.tensor_names)
        ]
        self._patterns = [_compile(each) for each in self._collections]
        self._excluded = [_joined(each.exclude_regex) for each in self._collections]
        self._schedules = {mode: self._schedule(mode) for mode in ModeKeys}
        self._members: dict[str, int] = {}
        self._treatments: dict[int, dict[str, Treatment | None]] = {}
        self.is_changed = True
        """A tensor has joined a collection since the collections were last written."""

    def due(self, mode: ModeKeys, mode_step: int) -> int:
        mask = 0
        for config, bits in self._schedules[mode]:
            if config.should_save_step(mode_step):
                mask |= bits
        return mask

    def treatment(self, name: str, origin: Origin, mask: int) -> Treatment | None:
        """None when no due collection contains the tensor. A lookup after the first time."""
        known = self._treatments.setdefault(mask, {})
        try:
            return known[name]
        except KeyError:
            treatment = self._decide(self.members(name, origin) & mask)
            if treatment and origin is Origin.LOSS and _is_input(name):
                treatment = replace(treatment, is_scalar=False)
            known[name] = treatment
            return treatment

    def members(self, name: str, origin: Origin) -> int:
        """The collections that contain this tensor, whether due or not."""
        mask = self._members.get(name)
        if mask is None:
            mask = 0
            for bit, collection in enumerate(self._collections):
                if self._holds(bit, name, origin):
                    mask |= 1 << bit
                    if not collection.has_tensor_name(name):
                        collection.add_tensor_name(name)
                        self.is_changed = True
            self._members[name] = mask
        return mask

    def names_in(self, mask: int) -> set[str]:
        return {each.name for bit, each in enumerate(self._collections) if mask >> bit & 1}

    def wanted_of_module(self, path: str, origin: Origin) -> int:
        """The collections that could select any input or output of a module, without running it."""
        mask = 0
        for bit in range(len(self._collections)):
            if any(
                self._holds(bit, f"{path}_{side}_{index}", origin)
                for side in ("output", "input")
                for index in _PROBED_INDICES
            ):
                mask |= 1 << bit
        return mask

    def _schedule(self, mode: ModeKeys) -> list[tuple[SaveConfigMode, int]]:
        """Equal schedules are evaluated once."""
        schedule: list[tuple[SaveConfigMode, int]] = []
        for bit, collection in enumerate(self._collections):
            assert collection.save_config is not None
            config = collection.save_config.get_save_config(mode)
            for position, (known, bits) in enumerate(schedule):
                if known == config:
                    schedule[position] = (known, bits | 1 << bit)
                    break
            else:
                schedule.append((config, 1 << bit))
        return schedule

    def _holds(self, bit: int, name: str, origin: Origin) -> bool:
        collection = self._collections[bit]
        if collection.has_tensor_name(name):
            return True
        excluded = self._excluded[bit]
        if excluded is not None and excluded.search(name):
            return False
        by_origin = _holds_by_origin(collection.name, name, origin)
        pattern = self._patterns[bit][0 if by_origin is None else 1]
        return bool(by_origin) or (pattern is not None and pattern.search(name) is not None)

    def _decide(self, mask: int) -> Treatment | None:
        chosen = [c for bit, c in enumerate(self._collections) if mask >> bit & 1]
        if not chosen:
            return None
        configs = [c.reduction_config for c in chosen if c.reduction_config is not None]
        return Treatment(
            raw=any(config.save_raw_tensor for config in configs),
            columns=tuple(sorted({column for config in configs for column in config.columns})),
            shape=any(config.save_shape for config in configs),
            histograms=tuple(
                c.name for c in chosen if c.save_histogram and c.name != CollectionKeys.LOSSES
            ),
            is_scalar=any(c.name == CollectionKeys.LOSSES for c in chosen),
        )


def _compile(collection: Collection) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """All patterns, and those beside the built-in ones, each as one expression."""
    own = [
        p for p in collection.include_regex if p not in BUILT_IN_PATTERNS.get(collection.name, ())
    ]
    return _joined(collection.include_regex), _joined(own)


def _joined(patterns: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{p})" for p in patterns)) if patterns else None


def _holds_by_origin(collection: str, name: str, origin: Origin) -> bool | None:
    """For the built-in collections of parameters and gradients; None where only patterns count.

    A pattern for "weight" would miss `gamma` and catch the activations of `weight_net`.
    """
    is_bias = "bias" in name.rpartition(".")[2]
    match collection:
        case _ if origin is Origin.OTHER:
            return None
        case CollectionKeys.WEIGHTS:
            return origin is Origin.PARAMETER and not is_bias
        case CollectionKeys.BIASES:
            return origin is Origin.PARAMETER and is_bias
        case CollectionKeys.GRADIENTS:
            return origin is Origin.GRADIENT
        case CollectionKeys.LOSSES if origin is Origin.LOSS:
            return True  # its inputs too: predictions and labels, as the first releases had it
    return None


def _is_input(name: str) -> bool:
    return "_input_" in name
