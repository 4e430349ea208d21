"""A real Ray cluster on machines of a test's own, with an interpreter that has Ray and nothing of
ours. The first machine is the head; no file is shared between them.

    with ray_cluster("n1", "n2") as cluster:
        cluster.head.run("python", "-m", "trackside.cli", "run", …, variables=cluster.variables)
        cluster.network["n1"].kill(); cluster.boot("n1"); cluster.kill_head(); cluster.start_head()

With `storage=REDIS`, what the head knows outlives it, and its machine. Tests that
break nothing share one cluster, `ray_nodes` of tests/conftest.py, so they must be in the group
"ray" of xdist.
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.machines import INSIDE, Machine, Network, machines
from tests.wait import until
from trackside.placement import ray
from trackside.system import control_group
from trackside.system.control_group import ControlGroup

HEAD = "head"
REDIS = "redis"
"""Where a head may keep its state: in a server on its machine, which only the end of the machine
ends."""
_PORT, _CLIENT_PORT, _REDIS_PORT = 6379, 10001, 6380
_REDIS_PASSWORD = "of-the-tests-abcdef0123456789"
_CORES, _MEMORY = 4, 8 << 30
"""As the nodes say; nobody enforces it."""
_FOLDER = INSIDE / "node"
"""The interpreter of the nodes."""
_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # the machine of the tests is its own affair
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "of-the-tests-0123456789abcdef",
}
_MONITOR = {"RAY_memory_monitor_refresh_ms": "20", "RAY_memory_usage_threshold": "0.45"}
_SILENT = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "5",
}
"""The head takes a node for dead that is silent for some ten seconds."""
_STORED = INSIDE / "storage"
_PATIENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}
"""Nodes leave a head that is away for longer; by Ray's own default after a minute, and on a busy
machine it takes as long to start. KubeRay gives them ten."""


class RayCluster:
    def __init__(
        self,
        network: Network,
        nodes: Sequence[str],
        head_cores: int,
        memory: ControlGroup | None,
        storage: str,
    ) -> None:
        self.network = network
        self.nodes = [network[name] for name in (HEAD, *nodes) if name != HEAD or head_cores]
        """Those that take jobs."""
        self._head_cores = head_cores
        self._memory = memory
        self._storage = storage
        self._seen: set[str] = set()
        """The ids of the nodes that were up, also of those that are gone."""
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._latest: dict[str, subprocess.Popen[bytes]] = {}
        """By machine."""
        for machine in network:
            make_bare_interpreter(machine)
        self._start_storage()
        self._start_nodes(HEAD)
        self._start_nodes(*nodes)

    @property
    def head(self) -> Machine:
        return self.network[HEAD]

    @property
    def address(self) -> str:
        return f"{self.head.address}:{_PORT}"

    @property
    def name(self) -> str:
        """Of the placement, for a submitter that is no node."""
        return f"ray://{self.head.address}:{_CLIENT_PORT}"

    @property
    def variables(self) -> dict[str, str]:
        """What a submitter needs."""
        return {name: _VARIABLES[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}

    def start_head(self) -> None:
        self.start_again(HEAD)

    def kill_head(self) -> None:
        """Its processes, and not its machine."""
        self.kill(self.head, "gcs_server|raylet|ray")

    def boot(self, name: str) -> None:
        """A machine that was killed, and what runs there."""
        self.network[name].boot()
        if name == HEAD:
            self._start_storage()
        self._start_nodes(name)

    def start_again(self, *names: str) -> None:
        """Ray, where it has ended."""
        self._start_nodes(*names)

    def _alive(self) -> list[tuple[str, str]]:
        """The address and the id of each node that the head has."""
        words = self.run_on_head("-c", _NODES, self.address).split()
        return [*zip(words[::2], words[1::2], strict=True)]

    def run_on_head(self, *arguments: str) -> str:
        """What the nodes' interpreter prints there."""
        program = str(_FOLDER / "bin" / "python")
        return self.head.run(program, *arguments, variables={**_VARIABLES, **_BARE}).stdout

    def drain(self, name: str, seconds: int = 300) -> None:
        """As who takes the node away in so many seconds says it."""
        words = ["--node-id", self.run_on_head("-c", _NODE_ID, self.network[name].address).strip()]
        words += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test"]
        words += ["--deadline-remaining-seconds", str(seconds), "--address", self.address]
        self.run_on_head("-m", "ray.scripts.scripts", "drain-node", *words)

    def kill(self, node: Machine, pattern: str) -> None:
        """Of the processes there, those whose command line has the pattern."""
        node.run("pkill", "-KILL", "-f", pattern)

    def _start_nodes(self, *names: str) -> None:
        """Until each is up as a node that there was not before: one that was killed is alive to
        the head for some time, also to the next head that has its storage."""
        former = frozenset(self._seen)
        for name in names:
            self._start_node(name)
        # Each is asked each time: one that gave up is started again.
        until(lambda: False not in {self._is_up(name, former) for name in names}, seconds=240)

    def _is_up(self, name: str, former: frozenset[str]) -> bool:
        """Ray gives a node 30 s to start, which is not enough on a busy machine."""
        address = self.network[name].address
        found = {node for at, node in self._alive() if at == address} - former
        if found:
            self._seen |= found
            return True
        if self._latest[name].poll() is not None:
            self._start_node(name)
        return False

    def _start_node(self, name: str) -> None:
        if name == HEAD:
            options, variables = self._of_storage()
            return self._start(
                self.head,
                *("--head", f"--port={_PORT}", f"--ray-client-server-port={_CLIENT_PORT}"),
                *("--include-dashboard=false", f"--num-cpus={self._head_cores}", *options),
                more=variables,
            )
        options = [f"--address={self.address}", f"--num-cpus={_CORES}"]
        self._start(self.network[name], *options, is_limited=self._memory is not None)

    def _of_storage(self) -> tuple[list[str], dict[str, str]]:
        """What the head is started with for it: options, and variables."""
        if self._storage == REDIS:
            address = f"{self.head.address}:{_REDIS_PORT}"
            return [f"--redis-password={_REDIS_PASSWORD}"], {"RAY_REDIS_ADDRESS": address}
        return [], {}

    def _start_storage(self) -> None:
        """With what it had: nothing that Ray was told is stored is lost with the machine."""
        if self._storage == REDIS:
            self.head.outside(_STORED).mkdir(exist_ok=True)
            words = ["redis-server", "--bind", self.head.address, "--port", str(_REDIS_PORT)]
            words += ["--requirepass", _REDIS_PASSWORD, "--dir", str(_STORED), "--save", ""]
            words += ["--appendonly", "yes", "--appendfsync", "always"]
            with (self.head.disk / "redis.log").open("ab") as log:
                self._daemons.append(self.head.start(*words, output=log))
            where = (self.head.address, _REDIS_PORT)
            until(lambda: socket.create_connection(where, timeout=5)).close()

    def _start(
        self,
        machine: Machine,
        *options: str,
        is_limited: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> None:
        limit, monitor = self._limit() if is_limited else ([], {})
        words = [
            *(
                *limit,
                str(_FOLDER / "bin" / "python"),
                "-m",
                "ray.scripts.scripts",
                "start",
                *options,
            ),
            *(f"--node-ip-address={machine.address}", "--block", "--disable-usage-stats"),
            *("--object-store-memory=100000000", f"--memory={_MEMORY}"),
        ]
        with (machine.disk / "ray.log").open("ab") as log:
            patient = _PATIENT if self._storage else {}
            variables = {**_VARIABLES, **_SILENT, **_BARE, **monitor, **patient, **(more or {})}
            daemon = machine.start(*words, variables=variables, output=log)
        self._daemons.append(daemon)
        self._latest[machine.name] = daemon

    def _limit(self) -> tuple[list[str], dict[str, str]]:
        """A node that has only so much memory, as in a container, and its memory monitor."""
        assert self._memory is not None
        shown = Path("/sys/fs/cgroup/memory")
        shown = shown if shown.exists() else shown.parent
        script = f'echo 0 > "$0/cgroup.procs" && mount --bind "$0" {shown} && exec "$@"'
        assert self._memory.memory is not None, "this user may make no control group here"
        return ["sh", "-c", script, self._memory.memory], _MONITOR

    def collect(self) -> None:
        """What ended with its machine."""
        for daemon in self._daemons:
            daemon.wait(60)


_NODES = """
import sys
from ray._raylet import GcsClientOptions, GlobalStateAccessor
options = GcsClientOptions.create(
    sys.argv[1], None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False
)
state = GlobalStateAccessor(options)
state.connect()
for node in state.get_node_table():
    if node["Alive"]:
        print(node["NodeManagerAddress"], node["NodeID"])
"""
_NODE_ID = """
import sys, ray
ray.init("auto", logging_level="ERROR")
for node in ray.nodes():
    if node["Alive"] and node["NodeManagerAddress"] == sys.argv[1]:
        print(node["NodeID"])
"""
DOCKER = f"unix://{INSIDE}/docker/docker.sock"
_BARE = {"PYTHONPATH": "", "DOCKER_HOST": DOCKER}
"""Nothing of the tests' own environment; where a Docker engine of the node's would be."""


def make_bare_interpreter(machine: Machine) -> None:
    """An environment with Ray and what it needs, without a copy of them."""
    folder = machine.outside(_FOLDER)
    venv.create(folder, with_pip=False, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = folder / "lib" / version / "site-packages"
    for distribution in _needed("ray"):
        for top in {file.parts[0] for file in distribution.files or () if ".." not in file.parts}:
            link = packages / top
            if not link.exists() and top != "__pycache__":
                link.symlink_to(str(distribution.locate_file(top)))


def _needed(name: str) -> Iterator[importlib.metadata.Distribution]:
    names, seen = [name, "grpcio"], {name}
    while names:
        try:
            distribution = importlib.metadata.distribution(names.pop())
        except importlib.metadata.PackageNotFoundError:
            continue
        yield distribution
        for line in distribution.requires or ():
            found = re.match(r"[\w.-]+", line)
            if found and "extra ==" not in line and found[0] not in seen:
                seen.add(found[0])
                names.append(found[0])


def ray_problem() -> str:
    return "" if importlib.util.find_spec("ray") else "Ray's tests need the package `ray`"


def _redis_problem() -> str:
    return "" if shutil.which("redis-server") else "a head's storage needs `redis-server`"


def _check_is_there(name: str, problem: str) -> None:
    if problem and name in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)


def disconnect() -> None:
    """This process from every Ray, as the end of a submitter does."""
    for child in ray._children.values():
        child.close()
    ray._children.clear()


@contextmanager
def ray_cluster(
    *nodes: str, head_cores: int = 0, memory: int = 0, storage: str = ""
) -> Iterator[RayCluster]:
    """Skips without Ray, or Redis where that is the storage, unless TRACKSIDE_REQUIRE names it. The
    head takes jobs itself if it has cores for them. With `memory` the nodes have together only so
    many bytes."""
    _check_is_there("ray", ray_problem())
    if storage == REDIS:
        _check_is_there("redis", _redis_problem())
    group = control_group.make("trackside-test-ray", memory_bytes=memory) if memory else None
    with machines(HEAD, *nodes) as network:
        cluster = RayCluster(network, nodes, head_cores, group, storage)
        yield cluster
        disconnect()
    cluster.collect()
    if group is not None:
        group.remove()
