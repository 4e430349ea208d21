"""Which models are wrapped in DistributedDataParallel, also those that are called past it."""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trackside.capture.model.function_patches import FunctionPatch

_making = FunctionPatch()
_made: list[weakref.ref[DistributedDataParallel]] = []
_MOST = 64


def note_wrapped() -> None:
    """Remember every model that is wrapped from here on; call before the script does it."""
    _making.wrap(DistributedDataParallel, "__init__", after=_on_made)


def _on_made(_: None, model: DistributedDataParallel, *__: Any, **___: Any) -> None:
    if len(_made) < _MOST:
        _made.append(weakref.ref(model))


def wrappers() -> Iterator[DistributedDataParallel]:
    for each in _made:
        model = each()
        if model is not None:
            yield model


@dataclass(slots=True)
class ReplicaFacts:
    """What the code does about its replicas, as far as it shows."""

    num_called: int = 0
    """Training steps that began with a call of DDP."""
    num_past: int = 0
    """Those that began with a call of a module inside a DDP, and not of DDP itself."""
    num_unsynced: int = 0
    """Updates after a forward under `no_sync`."""
    num_synced_too_early: int = 0
    """Of these, those with an earlier forward of DDP, since the update before, outside of it."""
    has_hook: bool = False
    """A communication hook of DDP: it may leave gradients different on purpose."""
    keeps_buffers: bool = False
    """DDP does not send buffers from the first rank to the others."""
    joins: bool = False
    """Under `join`, ranks have different numbers of steps on purpose."""
    is_sharded: bool = False
    """Some parameters are distributed tensors or shards."""
    group: tuple[int, ...] = ()
    """Ranks that DDP averages over."""
    num_collectives: int | None = None
    """Of the default group, since the first sampled training step; None where that is unknown."""
    _collectives_before: int | None = None
    hardware: str = ""

    def see_step(self, root: nn.Module) -> None:
        if isinstance(root, DistributedDataParallel):
            self.num_called += 1
            self.has_hook = self.has_hook or bool(getattr(root, "_comm_hooks", None))
            self.keeps_buffers = not getattr(root, "broadcast_buffers", True)
            joining = getattr(root, "_join_config", None)
            self.joins = self.joins or bool(getattr(joining, "enable", False))
            if not self.group:
                self.group = tuple(torch.distributed.get_process_group_ranks(root.process_group))
        elif any(_is_inside(root, model) for model in wrappers()):
            self.num_past += 1

    def see_collectives(self) -> None:
        """How many there were; unknown where the backend does not count them."""
        try:
            group: Any = torch.distributed.distributed_c10d._get_default_group()
            count = int(group._get_sequence_number_for_group())
            if self._collectives_before is None:
                self._collectives_before = count
            self.num_collectives = count - self._collectives_before
        except (AttributeError, RuntimeError, ValueError):
            self.num_collectives = None

    def see_device(self, device: torch.device) -> None:
        if device.type == "cuda":
            self.hardware = torch.cuda.get_device_name(device)
        else:
            self.hardware = f"{device.type} {torch.backends.cpu.get_cpu_capability()}"


def shared_parameters() -> set[int]:
    """Identities of the parameters that some DDP keeps equal."""
    return {
        id(parameter)
        for model in wrappers()
        for name, parameter in model.module.named_parameters()
        if name not in getattr(model, "parameters_to_ignore", ())
    }


def _is_inside(module: nn.Module, model: DistributedDataParallel) -> bool:
    return any(part is module for part in model.module.modules())
