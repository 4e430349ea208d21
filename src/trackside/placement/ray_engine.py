"""The child process that speaks with Ray: `python -m trackside.placement.ray_engine ADDRESS`.

It alone imports Ray, which may end the process that it is in. Its functions take and return JSON,
and know nothing of jobs; what follows from the facts is decided in `ray_states.py`.
"""

import json
import socket
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trackside.placement import ray_host
from trackside.placement.engine_child import ConnectionLost, serve
from trackside.placement.ray_host import NAMESPACE, note_key, package_key

_ANSWER_SECONDS = 4.0
"""How long all actors of a group may take to say how they are."""
_END_SECONDS = 20.0
"""How long a host may take to kill its processes."""
_LISTEN_SECONDS = 5.0
_PREEMPTED = 3
"""Of Ray's `NodeDeathInfo.Reason`: AUTOSCALER_DRAIN_PREEMPTED."""
_PART_BYTES = 50_000
"""Ray keeps an argument of up to 100 KB with the actor. A larger one would be lost with this
process, and the actor could not start once there is a node for it."""


class Engine:
    def __init__(self, address: str) -> None:
        self._address = address
        self._actors: dict[str, Any] = {}
        """Handles by name: they say why an actor has died, which its name does not."""
        self._has_connected = False

    # What a parent may call

    def cluster(self) -> dict[str, Any]:
        """Its nodes, what is free, and the autoscaler's last status."""
        ray = self._connected()
        return {
            "version": ray.__version__,
            "address": self._shown_address(ray),
            "nodes": [
                {"address": node["NodeManagerAddress"], "resources": node["Resources"]}
                for node in ray.nodes()
                if node["Alive"]
            ],
            "free": ray.available_resources(),
            "autoscaler": self._kept("__autoscaling_status"),
            "second_autoscaler": self._kept("__autoscaler_v2_enabled") == "1",
        }

    def start(
        self,
        group: str,
        hosts: Sequence[str],
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        commands: Sequence[Sequence[str]],
        bundle: str,
        package: Mapping[str, str],
    ) -> dict[str, Any]:
        """A placement group, and in it an actor for each host. Nothing waits for a node."""
        ray = self._connected()
        self._put_package(package)
        groups = import_module("ray.util.placement_group")
        content = zlib.compress(bundle.encode())
        parts = [content[at : at + _PART_BYTES] for at in range(0, len(content), _PART_BYTES)]
        made = groups.placement_group(
            [dict(each) for each in bundles], strategy=strategy, name=group, lifetime="detached"
        )
        try:
            for place, host in enumerate(hosts):
                plan = {
                    **self._plan(group, host, hosts),
                    "place": place,
                    "command": [*commands[place]],
                    "package": package["key"],
                    "fits": package["fits"],
                }
                options = _as_options(bundles[place])
                in_group = _in_group(made, place)
                self._make_actor(plan, parts, scheduling_strategy=in_group, **options)
        except BaseException:
            groups.remove_placement_group(made)
            raise
        return {"session": self._kept("session_name", b"session"), "version": ray.__version__}

    def poll(self, group: str, session: str, hosts: Sequence[str]) -> dict[str, Any]:
        """The facts of `GroupFacts`, which has the same names."""
        ray = self._connected()
        notes = {host: self._note(group, host) for host in hosts}
        table = self._table(group)
        is_same = self._kept("session_name", b"session") == session
        nodes = ray.nodes()
        alive = {node["NodeID"] for node in nodes if node["Alive"]}
        taken = {node["NodeID"] for node in nodes if node.get("DeathReason") == _PREEMPTED}
        asked = [
            host
            for host, note in notes.items()
            if is_same and "code" not in note and note.get("node") in (None, *alive)
        ]
        seen = self._ask([f"{group}.{host}" for host in asked])
        facts = {}
        for host, note in notes.items():
            found = seen.get(f"{group}.{host}", {})
            if found.get("is_gone") and "folder" in note:
                self._look_after(group, host, hosts, note, is_withdrawn=not table)
            facts[host] = _host_facts(note, found, alive, taken)
        stats = table.get("stats") or {}
        return {
            "is_same_cluster": is_same,
            "state": table.get("state", ""),
            "scheduling": stats.get("scheduling_state", ""),
            "strategy": table.get("strategy", ""),
            "bundles": [*table.get("bundles", {}).values()],
            "free": ray.available_resources() if table.get("state") == "PENDING" else {},
            "autoscaler": self._kept("__autoscaling_status"),
            "hosts": facts,
        }

    def addresses(self, group: str, hosts: Sequence[str]) -> dict[str, str]:
        self._connected()
        notes = {host: self._note(group, host) for host in hosts}
        return {host: note["address"] for host, note in notes.items() if "address" in note}

    def stop(self, group: str, hosts: Sequence[str], host: str | None, force: bool) -> None:
        """`host` None for all; a forced stop of all gives the machines back."""
        ray = self._connected()
        asked = [*hosts] if host is None else [host]
        references = []
        for name in asked:
            actor = self._living(group, name, hosts)
            if actor is not None:
                references.append(actor.kill.remote() if force else actor.ask_to_end.remote())
        if references:
            done, late = ray.wait(references, num_returns=len(references), timeout=_END_SECONDS)
            if late:
                raise TimeoutError(f"{len(late)} of {len(references)} hosts did not answer")
            for reference in done:
                self._result(reference)
        if force and host is None:
            self._free(group, hosts)

    # How

    def _connected(self) -> Any:
        try:
            ray = import_module("ray")
        except ImportError as error:
            raise ValueError(
                f"Ray cannot be imported ({error}); install it as the cluster has it, by "
                "`pip install 'trackside[ray]'`"
            ) from error
        if not ray.is_initialized():
            self._connect(ray)
        return ray

    def _connect(self, ray: Any) -> None:
        self._actors.clear()
        check_listens(self._address)
        try:
            ray.init(
                address=self._address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
            )
        except (ConnectionError, RuntimeError) as error:
            if why := _refusal(f"{error} {error.__cause__}"):
                raise ValueError(why) from error
            raise ConnectionError(_plain(error)) from error
        ray.cloudpickle.register_pickle_by_value(ray_host)
        self._has_connected = True

    def keeping_connection(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with `ConnectionLost` when a connection that there was is gone: Ray's
        client says that it is connected all the same, and never connects again, when another head
        has taken the place of the one that it knew."""

        def call(**arguments: Any) -> Any:
            try:
                return function(**arguments)
            except Exception as error:
                if self._has_connected and _is_of_connection(error):
                    raise ConnectionLost(_plain(error)) from error
                raise

        return call

    def _shown_address(self, ray: Any) -> str:
        is_outside = "://" in self._address  # a client does not know the head's own address
        return self._address if is_outside else str(ray.get_runtime_context().gcs_address)

    def _plan(self, group: str, host: str, hosts: Sequence[str]) -> dict[str, Any]:
        return {"group": group, "host": host, "hosts": [*hosts]}

    def _make_actor(self, plan: Mapping[str, Any], parts: Sequence[bytes], **options: Any) -> Any:
        """Ray restarts none: where a node is lost, the whole group is placed anew."""
        name = f"{plan['group']}.{plan['host']}"
        kind = import_module("ray").remote(ray_host.Host)
        self._actors[name] = kind.options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=4,
            **options,
        ).remote(plan, *parts)
        return self._actors[name]

    def _look_after(
        self,
        group: str,
        host: str,
        hosts: Sequence[str],
        note: Mapping[str, Any],
        *,
        is_withdrawn: bool = False,
    ) -> Any:
        """Another actor on the same node, for the supervisor that has survived the first."""
        strategies = import_module("ray.util.scheduling_strategies")
        there = strategies.NodeAffinitySchedulingStrategy(note["node"], soft=False)
        plan = {
            **self._plan(group, host, hosts),
            "folder": note["folder"],
            "is_withdrawn": is_withdrawn,
        }
        return self._make_actor(plan, (), scheduling_strategy=there, num_cpus=0)

    def _living(self, group: str, host: str, hosts: Sequence[str]) -> Any:
        """The actor to give an order to; None when there is nothing that could take one."""
        ray = import_module("ray")
        note = self._note(group, host)
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        if "folder" not in note or "code" in note or note["node"] not in alive:
            return None
        name = f"{group}.{host}"
        if self._ask([name])[name].get("is_gone"):
            return self._look_after(group, host, hosts, note)
        return self._actors[name]

    def _ask(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """How each actor is: its `state`, `is_gone`, or the `problem`."""
        ray = import_module("ray")
        answers: dict[str, dict[str, Any]] = {}
        references = {}
        for name in names:
            try:
                actor = self._actors.get(name) or ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                answers[name] = {"is_gone": True, "problem": "Ray has no actor of its name"}
                continue
            self._actors[name] = actor
            references[name] = actor.state.remote()
        waited = [*references.values()]
        if waited:
            ray.wait(waited, num_returns=len(waited), timeout=_ANSWER_SECONDS)
        for name, reference in references.items():
            answers[name] = self._answer(name, reference)
        return answers

    def _answer(self, name: str, reference: Any) -> dict[str, Any]:
        ray = import_module("ray")
        try:
            return {"state": ray.get(reference, timeout=0)}
        except ray.exceptions.GetTimeoutError:
            return {"problem": f"no answer in {_ANSWER_SECONDS:g} s"}
        except ray.exceptions.ActorUnavailableError as error:
            return {"problem": _plain(error)}
        except _ended(ray) as error:
            self._actors.pop(name, None)
            return {"is_gone": True, "problem": _plain(error)}

    def _result(self, reference: Any) -> None:
        """An actor that died meanwhile has nothing left to do."""
        ray = import_module("ray")
        try:
            ray.get(reference)
        except _ended(ray):
            return

    def _free(self, group: str, hosts: Sequence[str]) -> None:
        ray = import_module("ray")
        groups = import_module("ray.util.placement_group")
        for host in hosts:
            try:
                actor = ray.get_actor(f"{group}.{host}", namespace=NAMESPACE)
            except ValueError:
                continue
            ray.kill(actor, no_restart=True)
        with suppress(ValueError):  # it is gone already
            groups.remove_placement_group(groups.get_placement_group(group))
        for host in hosts:
            self._store()._internal_kv_del(note_key(group, host), namespace=NAMESPACE.encode())
            self._actors.pop(f"{group}.{host}", None)

    def _put_package(self, package: Mapping[str, str]) -> None:
        store, key = self._store(), package_key(package["key"])
        if not store._internal_kv_exists(key, namespace=NAMESPACE.encode()):
            content = Path(package["path"]).read_bytes()
            store._internal_kv_put(key, content, True, namespace=NAMESPACE.encode())

    def _table(self, group: str) -> dict[str, Any]:
        """Of the placement group; empty when it is no more."""
        groups = import_module("ray.util.placement_group")
        try:
            found = groups.placement_group_table(groups.get_placement_group(group))
        except ValueError:
            return {}
        return {} if found.get("state") == "REMOVED" else dict(found)

    def _note(self, group: str, host: str) -> dict[str, Any]:
        kept = self._store()._internal_kv_get(note_key(group, host), namespace=NAMESPACE.encode())
        return dict(json.loads(kept or "{}"))

    def _kept(self, name: str, namespace: bytes | None = None) -> str:
        """What Ray itself keeps under this name."""
        return (self._store()._internal_kv_get(name.encode(), namespace=namespace) or b"").decode()

    @staticmethod
    def _store() -> Any:
        return import_module("ray.experimental.internal_kv")


_REFUSALS = {
    "Could not find any running Ray": "no Ray cluster runs on this machine; submit on a node of it,"
    " set RAY_ADDRESS, or name it: ray:HOST:PORT, or ray://HEAD:10001 from outside",
    "AuthenticationError": "Ray refuses the connection: its token is missing or wrong; set"
    " RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to the cluster's",
    "UNAUTHENTICATED": "Ray refuses the connection: its token is missing or wrong; set"
    " RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to the cluster's",
}
"""By what Ray says: what trying again does not change."""


def _refusal(text: str) -> str:
    """Empty for what may pass."""
    if "mismatch" in text:  # of Ray or of Python; it names both versions
        return f"Ray refuses the connection: {text[:400]}"
    return next((why for part, why in _REFUSALS.items() if part in text), "")


def check_listens(address: str) -> None:
    """`ConnectionError` when nobody is there: Ray itself would try for more than a minute."""
    named = urlsplit(address if "//" in address else f"//{address}")
    try:
        host, port = named.hostname, named.port
    except ValueError:
        return  # Ray says what is wrong with it
    if host is None or port is None:
        return
    try:
        socket.create_connection((host, port), timeout=_LISTEN_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"nobody answers at {host}:{port}: {error}") from error


def _is_of_connection(error: Exception) -> bool:
    return isinstance(error, ConnectionError) or type(error).__module__.partition(".")[0] == "grpc"


def _ended(ray: Any) -> tuple[type[Exception], ...]:
    """What a call of an actor raises that is no more; the latter when the memory monitor has killed
    it, and the call had not been answered."""
    return ray.exceptions.ActorDiedError, ray.exceptions.OutOfMemoryError


def _host_facts(
    note: Mapping[str, Any], found: Mapping[str, Any], alive: set[str], taken: set[str]
) -> dict[str, Any]:
    state = found.get("state") or {}
    return {
        "node": note.get("address", ""),
        "is_node_alive": note.get("node") in alive,
        "is_node_taken": note.get("node") in taken,
        "code": note.get("code", state.get("code")),
        "error": note.get("error", ""),
        "is_withdrawn": note.get("is_withdrawn", False),
        "is_seen": "state" in found,
        "is_gone": bool(found.get("is_gone")),
        "problem": found.get("problem", ""),
    }


def _in_group(group: Any, place: int) -> Any:
    strategies = import_module("ray.util.scheduling_strategies")
    return strategies.PlacementGroupSchedulingStrategy(
        group, placement_group_bundle_index=place, placement_group_capture_child_tasks=False
    )


def _as_options(bundle: Mapping[str, float]) -> dict[str, Any]:
    names = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {names[name]: bundle[name] for name in names if name in bundle}
    others = {name: amount for name, amount in bundle.items() if name not in names}
    return {**options, "resources": others} if others else options


def _plain(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def main() -> None:
    engine = Engine(sys.argv[1])
    functions: dict[str, Callable[..., Any]] = {
        "cluster": engine.cluster,
        "start": engine.start,
        "poll": engine.poll,
        "addresses": engine.addresses,
        "stop": engine.stop,
    }
    kept = {name: engine.keeping_connection(function) for name, function in functions.items()}
    serve(kept, (ConnectionError, TimeoutError), library="ray")


if __name__ == "__main__":
    main()
