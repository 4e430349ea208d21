"""Groups of supervisors on a Ray cluster: a placement group for each, and an actor for each host.

Ray is spoken with by a child process, `ray_engine.py`; nothing here imports it.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from trackside.files.json_record import DamagedRecord
from trackside.files.json_record import record as make
from trackside.placement import ray_options
from trackside.placement.engine_child import EngineAway, EngineChild, EngineError
from trackside.placement.placement import (
    Group,
    Handle,
    Placement,
    PlacementAway,
    Poll,
    Unknown,
)
from trackside.placement.ray_options import (
    can_ever_fit,
    node_lines,
    refusal,
    resources_of,
    strategy_of,
    words,
)
from trackside.placement.ray_states import GroupFacts, HostFacts, has_autoscaler, poll_of
from trackside.placement.travelling_package import packed
from trackside.settings import Settings, environment

_CONNECT_SECONDS = 90.0
"""A call may have to import Ray and to connect first; Ray itself tries for a minute."""
_ADDRESS = "RAY_ADDRESS"
_PROPOSED = {"RAY_CLIENT_RECONNECT_GRACE_PERIOD": "5"}
"""A client that has lost its head tries so long, in seconds, while a look at a job waits for it; we
connect again all the same."""
_SET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_COLOR_PREFIX": "0",
}


class RayPlacement(Placement):
    name: ClassVar[str] = "ray"
    shares_files: ClassVar[bool] = False
    schedules: ClassVar[bool] = True
    takes_address: ClassVar[bool] = True

    @classmethod
    def is_here(cls) -> bool:
        """Ray itself notes the cluster that a machine is a node of in this file."""
        folder = Path(environment().get("RAY_TMPDIR") or "/tmp")
        return _ADDRESS in environment() or (folder / "ray" / "ray_current_cluster").exists()

    @classmethod
    def wrong_options(cls, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        return ray_options.wrong_options(options)

    def expect(self) -> None:
        with suppress(OSError):  # `start` says so
            _child(self._address).begin()

    def start(self, group: Group) -> Handle:
        bundles = [resources_of(host, group.options) for host in group.hosts]
        strategy = strategy_of(group)
        name = f"{group.job}.{group.epoch}.{group.hosts[0].nonce[:8]}"
        package = packed(Settings.load().layout.packages)
        hosts = [host.name for host in group.hosts]
        _, *command = group.command
        try:
            if group.epoch == 1:  # later it has run, and waits until there are such nodes again
                self._check_size(bundles, strategy)
            found = self._call(
                "start",
                group=name,
                hosts=hosts,
                bundles=bundles,
                strategy=strategy,
                commands=[[*command, *host.arguments] for host in group.hosts],
                bundle=group.bundle,
                package={"key": package.key, "path": str(package.path), "fits": package.fits},
            )
        except EngineAway as error:
            raise PlacementAway(str(error)) from error
        return {"group": name, "session": found["session"], "hosts": hosts}

    def poll(self, handle: Handle) -> dict[str, Poll]:
        hosts = _hosts(handle)
        if not hosts:
            return {}
        try:
            facts = _facts(
                self._call("poll", group=handle["group"], session=handle["session"], hosts=hosts)
            )
        except (EngineAway, EngineError, DamagedRecord) as error:
            return dict.fromkeys(hosts, Unknown(str(error)))
        return {host: poll_of(facts, each) for host, each in facts.hosts.items()}

    def addresses(self, handle: Handle) -> dict[str, str]:
        hosts = _hosts(handle)
        if not hosts:
            return {}
        try:
            found: dict[str, str] = self._call("addresses", group=handle["group"], hosts=hosts)
        except (EngineAway, EngineError):
            return {}
        return found

    def interface(self, handle: Handle) -> str:
        return ""

    def offers(self) -> list[str]:
        try:
            found = self._call("cluster")
        except EngineAway as error:
            raise PlacementAway(str(error)) from error
        nodes = [node["resources"] for node in found["nodes"]]
        total: dict[str, float] = {}
        for node in nodes:
            for name in node:
                total[name] = total.get(name, 0.0) + node[name]
        shown = [name for name in ("CPU", "GPU", "memory") if name in total]
        free = words({name: found["free"].get(name, 0.0) for name in shown})
        scaler = ", autoscaler" if self._has_autoscaler(found) else ""
        first = f"Ray {found['version']} at {found['address']}{scaler}; free: {free} of "
        return [first + words({name: total[name] for name in shown}), *node_lines(nodes)]

    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        if not (hosts := _hosts(handle)):
            return
        try:
            self._call("stop", group=handle["group"], hosts=hosts, host=host, force=force)
        except (EngineAway, EngineError) as error:
            raise PlacementAway(str(error)) from error

    def _check_size(self, bundles: list[dict[str, float]], strategy: str) -> None:
        """What no node can ever give: Ray would let it wait for ever. An autoscaler may start
        nodes that are not there yet."""
        found = self._call("cluster")
        nodes = [node["resources"] for node in found["nodes"]]
        if not self._has_autoscaler(found) and not can_ever_fit(bundles, nodes, strategy):
            raise ValueError(refusal(bundles, nodes, strategy))

    @staticmethod
    def _has_autoscaler(cluster: Mapping[str, Any]) -> bool:
        return has_autoscaler(cluster["autoscaler"], cluster["second_autoscaler"])

    def _call(self, name: str, **arguments: Any) -> Any:
        return _child(self._address).call(name, _CONNECT_SECONDS, **arguments)

    @property
    def _address(self) -> str:
        """As `ray.init` takes it: `ray://HEAD:10001` is named so too."""
        if self.where.startswith("//"):
            return f"{self.name}:{self.where}"
        return self.where or environment().get(_ADDRESS, "") or "auto"


_lock = Lock()
_children: dict[str, EngineChild] = {}
"""By address: one connection serves all jobs of this process."""


def _child(address: str) -> EngineChild:
    with _lock:
        if address not in _children:
            module = "trackside.placement.ray_engine"
            _children[address] = EngineChild(module, [address], _variables())
        return _children[address]


def _variables() -> dict[str, str]:
    return {**_PROPOSED, **environment(), **_SET}


def _facts(found: Mapping[str, Any]) -> GroupFacts:
    hosts = {name: make(HostFacts, facts) for name, facts in found["hosts"].items()}
    given = {name: value for name, value in found.items() if name != "hosts"}
    return GroupFacts(hosts=hosts, **given)


def _hosts(handle: Handle) -> list[str]:
    hosts = handle.get("hosts")
    is_ours = isinstance(hosts, list) and {"group", "session"} <= handle.keys()
    return [*map(str, hosts)] if is_ours and hosts else []
