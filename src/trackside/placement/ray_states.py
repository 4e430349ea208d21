"""What follows from what Ray says about a group: from the facts that `ray_engine.py` collects."""

import json
import re
from collections.abc import Mapping
from typing import Any

from trackside.placement.placement import (
    EndCause,
    Ended,
    Exited,
    Gone,
    Lost,
    Pending,
    Poll,
    Running,
    Unknown,
)
from trackside.placement.ray_options import Resources, words
from trackside.quick_dataclass import dataclass

MEMORY_MONITOR = "Ray's memory monitor ended its actor, and not the training"
_REMOVED = "its placement group was removed from Ray"
_READ_ONLY_TYPE = re.compile(r"node_[0-9a-f]{56}")
_LOW_MEMORY = ("low on memory", "OutOfMemory", "memory monitor")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    node: str = ""
    """The address of the node that it was started on; empty before that."""
    is_node_alive: bool = True
    is_node_taken: bool = False
    """Whether Ray says that a node that is not alive was preempted."""
    code: int | None = None
    """Of a supervisor that has ended."""
    is_withdrawn: bool = False
    """Whether it was asked to end because the placement group was gone."""
    error: str = ""
    """Why it could not be started."""
    is_seen: bool = False
    """Whether its actor has answered just now: the supervisor runs."""
    is_gone: bool = False
    """Whether Ray says that its actor is no more. The supervisor may live."""
    problem: str = ""
    """Why its actor did not answer, in Ray's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    is_same_cluster: bool = True
    """Whether the cluster is still the one that the group was started on."""
    state: str = ""
    """Of the placement group; empty when Ray has none of this name."""
    scheduling: str = ""
    strategy: str = ""
    bundles: tuple[Resources, ...] = ()
    free: Resources
    autoscaler: str = ""
    """The status that the autoscaler has written last, JSON."""
    hosts: dict[str, HostFacts]


def poll_of(group: GroupFacts, host: HostFacts) -> Poll:
    if host.is_withdrawn:
        return Ended(EndCause.CANCELLED, _REMOVED)
    if host.code is not None:
        return Exited(host.code)
    if not group.is_same_cluster:
        return Lost(
            "the Ray cluster that it was on is no more: its head was started anew", Gone.ENGINE
        )
    if host.error:
        return Exited(None, f"it could not be started on its node: {host.error}")
    if not host.node:
        return _before_start(group, host)
    if not host.is_node_alive:
        return _lost(host)
    if not group.state:
        return Ended(EndCause.CANCELLED, _REMOVED)
    if host.is_seen:
        return Running()
    return Unknown(_why_unseen(host))


def _lost(host: HostFacts) -> Lost:
    if host.is_node_taken:
        return Lost(f"its node {host.node} was taken from Ray", Gone.TAKEN)
    return Lost(f"Ray lost its node {host.node}")


def _before_start(group: GroupFacts, host: HostFacts) -> Poll:
    if not group.state:
        return Exited(None, "Ray does not know it any more", Gone.ENGINE)
    if group.state == "PENDING":
        return Pending(why_pending(group))
    if host.is_gone:
        why = f"its actor ended before it began: {host.problem or 'no reason given'}"
        return Exited(None, why, Gone.MEMORY if _is_of_memory(host) else None)
    return Pending("its actor starts" + (f": {host.problem}" if host.problem else ""))


def _is_of_memory(host: HostFacts) -> bool:
    """Whether Ray's memory monitor has killed its actor."""
    return any(part in host.problem for part in _LOW_MEMORY)


def _why_unseen(host: HostFacts) -> str:
    if _is_of_memory(host):
        return f"{MEMORY_MONITOR}: {host.problem}"
    if host.is_gone:
        return f"its actor is gone, and another one looks after it: {host.problem}"
    return f"its actor does not answer: {host.problem}"


def why_pending(group: GroupFacts) -> str:
    asked = words(group.bundles[0]) if group.bundles else ""
    waits = f"{len(group.bundles)} × {{{asked}}} {group.strategy} is {group.scheduling or 'queued'}"
    free = {name: group.free.get(name, 0.0) for name in (group.bundles or ({},))[0]}
    scaler = autoscaler_words(group.autoscaler)
    return f"{waits}; free: {words(free) or 'nothing'}" + (f"; {scaler}" if scaler else "")


def has_autoscaler(status: str, is_second: bool) -> bool:
    """Ray writes a status without one, too: then the kinds of nodes are the nodes themselves.
    `is_second`: whether it is the second version, which does not write what it is told."""
    if is_second:
        return True
    kinds = _report(status).get("active_nodes")
    return isinstance(kinds, Mapping) and not all(map(_READ_ONLY_TYPE.fullmatch, kinds))


def autoscaler_words(status: str) -> str:
    """What it is doing about it."""
    report = _report(status)
    launches, nodes, failed = (
        report.get(name) or {} for name in ("pending_launches", "pending_nodes", "failed_nodes")
    )
    parts = [f"{count} × {kind} asked for" for kind, count in dict(launches).items()]
    parts += [" ".join(map(str, node)) for node in nodes]
    parts += [f"nodes that failed: {len(failed)}"] if failed else []
    return f"autoscaler: {', '.join(parts)}" if parts else ""


def _report(status: str) -> dict[str, Any]:
    try:
        found = json.loads(status or "{}")
    except ValueError:
        return {}
    report = found.get("autoscaler_report") if isinstance(found, dict) else None
    return report if isinstance(report, dict) else {}
