"""What PyTorch's flight recorder knows: the last collectives that this process has entered."""

import json
import logging
import sys
from typing import Any

logger = logging.getLogger(__name__)

_LAST = 5
_REFUSALS = (AttributeError, ImportError, KeyError, RuntimeError, TypeError, ValueError)


def rank_and_size() -> tuple[int, int] | None:
    """Of the process group; None without one."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    except _REFUSALS as error:
        logger.debug("The process group does not say its rank: %s", error)
    return None


def last_collectives() -> list[dict[str, Any]]:
    """Oldest first. `number` counts those of one group; processes compare it, not the state."""
    if rank_and_size() is None:
        return []
    try:
        recorder = sys.modules["torch._C._distributed_c10d"]
        entries = json.loads(recorder._dump_fr_trace_json(True, False)).get("entries", [])
        return [_brief(entry) for entry in entries[-_LAST:]]
    except _REFUSALS as error:  # it is private, and other versions may have another one
        logger.debug("The flight recorder cannot be read: %s", error)
        return []


def _brief(entry: dict[str, Any]) -> dict[str, Any]:
    _, _, name = str(entry["profiling_name"]).rpartition(":")
    return {
        "group": str(entry["process_group"][0]),
        "number": int(entry["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"]),
        "is_p2p": bool(entry["is_p2p"]),
        "name": name,
        "sizes": entry["input_sizes"],
    }
