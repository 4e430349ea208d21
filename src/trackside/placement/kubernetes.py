"""Groups of supervisors on Kubernetes: an Indexed Job for each, and a pod for each host.

Experimental: it was tried against a stand-in of the API, and on no true cluster. Kubernetes is
spoken with by a child process, `kubernetes_engine.py`; nothing here imports its client.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from trackside.files.json_record import DamagedRecord
from trackside.files.json_record import record as make
from trackside.placement import kubernetes_objects, kubernetes_options
from trackside.placement.engine_child import EngineAway, EngineChild, EngineError
from trackside.placement.kubernetes_options import NAMESPACE, QUEUE
from trackside.placement.kubernetes_states import Facts, addresses_of, polls_of
from trackside.placement.placement import (
    Group,
    Handle,
    Placement,
    PlacementAway,
    Poll,
    Unknown,
)
from trackside.settings import environment

_SECONDS = 90.0
"""A call may have to import the client, and to get a token by a program of the kubeconfig's."""
_SHOWN = ("cpu", "memory", "nvidia.com/gpu", "amd.com/gpu")


class KubernetesPlacement(Placement):
    name: ClassVar[str] = "kubernetes"
    shares_files: ClassVar[bool] = False
    schedules: ClassVar[bool] = True
    takes_address: ClassVar[bool] = True
    runs_images: ClassVar[bool] = True
    caution: ClassVar[str] = "kubernetes is experimental: it was not yet tried on a true cluster"

    @classmethod
    def is_here(cls) -> bool:
        known = environment()
        usual = Path(known.get("HOME", "/")) / ".kube" / "config"
        return "KUBECONFIG" in known or "KUBERNETES_SERVICE_HOST" in known or usual.exists()

    @classmethod
    def wrong_options(cls, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        return kubernetes_options.wrong_options(options)

    def start(self, group: Group) -> Handle:
        """Nothing runs before the Secret is there, unless Kueue lets it: then the pods wait for
        it."""
        job = kubernetes_objects.job(group)
        name = job["metadata"]["name"]
        kubernetes_objects.secret(group, {"uid": ""})  # refuses one that is too large
        try:
            made = self._call("make_job", namespace=group.options.get(NAMESPACE, ""), job=job)
            handle = {"job": name, "hosts": [host.name for host in group.hosts], **made}
            self._finish(group, handle)
        except EngineAway as error:
            raise PlacementAway(str(error)) from error
        return handle

    def poll(self, handle: Handle) -> dict[str, Poll]:
        hosts = _hosts(handle)
        if not hosts:
            return {}
        try:
            found = self._call("poll", **_place(handle), uid=handle["uid"])
            return polls_of(make(Facts, found), hosts, datetime.now(UTC))
        except (EngineAway, EngineError, DamagedRecord) as error:
            return dict.fromkeys(hosts, Unknown(str(error)))

    def addresses(self, handle: Handle) -> dict[str, str]:
        hosts = _hosts(handle)
        if not hosts:
            return {}
        try:
            return addresses_of(self._call("pods", **_place(handle)), hosts)
        except (EngineAway, EngineError):
            return {}

    def interface(self, handle: Handle) -> str:
        return ""

    def offers(self) -> list[str]:
        try:
            found = self._call("cluster")
        except EngineAway as error:
            raise PlacementAway(str(error)) from error
        where = f"{found['address']}, namespace {found['namespace']}"
        lines = [f"Kubernetes {found['version']} at {where} (experimental)"]
        for node in found["nodes"]:
            shown = [f"{node[name]} {name}" for name in _SHOWN if name in node]
            lines.append(f"node with {', '.join(shown)}")
        return lines

    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        hosts = _hosts(handle)
        if not hosts or (host is not None and host not in hosts):
            return
        number = None if host is None else hosts.index(host)
        try:
            self._call("stop", **_place(handle), number=number, force=force)
        except (EngineAway, EngineError) as error:
            raise PlacementAway(str(error)) from error

    def _finish(self, group: Group, handle: Handle) -> None:
        """The rest of a group whose Job is there; or nothing is left of it."""
        parts = [
            kubernetes_objects.secret(group, {"uid": handle["uid"]}),
            kubernetes_objects.service(group, {"uid": handle["uid"]}),
        ]
        is_queued = QUEUE in group.options
        place = _place(handle)
        try:
            self._call("make_parts", **place, parts=parts, is_queued=is_queued)
        except (EngineAway, EngineError):
            self._call("stop", **place, number=None, force=True)
            raise

    def _call(self, function: str, **arguments: Any) -> Any:
        return _child(self.where).call(function, _SECONDS, **arguments)


_lock = Lock()
_children: dict[tuple[str, str], EngineChild] = {}
"""By context and kubeconfig."""


def _child(context: str) -> EngineChild:
    known = environment()
    key = (context, known.get("KUBECONFIG", ""))
    with _lock:
        if key not in _children:
            module = "trackside.placement.kubernetes_engine"
            _children[key] = EngineChild(module, [context], known)
        return _children[key]


def _place(handle: Handle) -> dict[str, str]:
    return {"namespace": str(handle["namespace"]), "job": str(handle["job"])}


def _hosts(handle: Handle) -> list[str]:
    hosts = handle.get("hosts")
    is_ours = isinstance(hosts, list) and {"job", "namespace", "uid"} <= handle.keys()
    return [*map(str, hosts)] if is_ours and isinstance(hosts, list) else []
