"""The child process that speaks with Kubernetes: `python -m trackside.placement.kubernetes_engine
[CONTEXT]`.

It alone imports the client, which takes a second and starts programs that a kubeconfig names. Its
functions take and return JSON; what follows from the facts is decided in `kubernetes_states.py`.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn
from urllib.parse import urlencode

from trackside.placement.engine_child import serve
from trackside.placement.kubernetes_objects import GROUP_LABEL, INDEX_LABEL

_SECONDS = (5.0, 20.0)
"""To connect, and to answer."""
_KUEUE = "/apis/kueue.x-k8s.io/v1beta1"
_NOT_FOUND, _CONFLICT, _UNAUTHORIZED = 404, 409, 401
_DONE = range(200, 300)
_REFUSED = (400, 403, 404, 405, 422)
_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class NotFound(ValueError):
    """There is no such object."""


class Engine:
    def __init__(self, context: str) -> None:
        self._context = context
        self._client: Any = None
        self._namespace = ""

    # What a parent may call

    def cluster(self, namespace: str = "") -> dict[str, Any]:
        """Its version, where it is, and its nodes if this user may see them."""
        version = self._call("GET", "/version")["gitVersion"]
        try:
            nodes = self._call("GET", "/api/v1/nodes")["items"]
        except ValueError:
            nodes = []
        return {
            "version": version,
            "address": self._client.configuration.host,
            "namespace": namespace or self._namespace,
            "nodes": [node.get("status", {}).get("allocatable", {}) for node in nodes],
        }

    def make_job(self, namespace: str, job: dict[str, Any]) -> dict[str, str]:
        """Its namespace and uid. One that is there already is the same: only an answer was lost."""
        self._connect()
        where = f"/apis/batch/v1/namespaces/{namespace or self._namespace}/jobs"
        made = self._make(where, job)
        return {"namespace": namespace or self._namespace, "uid": made["metadata"]["uid"]}

    def make_parts(
        self, namespace: str, parts: list[dict[str, Any]], job: str, is_queued: bool
    ) -> None:
        """What the Job needs besides; then it may begin. One in a queue is begun by Kueue."""
        plural = {"Secret": "secrets", "Service": "services"}
        for part in parts:
            self._make(f"/api/v1/namespaces/{namespace}/{plural[part['kind']]}", part)
        if not is_queued:
            self._call("PATCH", _job(namespace, job), {"spec": {"suspend": False}})

    def poll(self, namespace: str, job: str, uid: str) -> dict[str, Any]:
        """The facts of `Facts`, which has the same names."""
        try:
            found = self._call("GET", _job(namespace, job))
        except NotFound:
            return {"job": None}
        if found["metadata"].get("uid") != uid or found["metadata"].get("deletionTimestamp"):
            return {"job": None}
        pods = self.pods(namespace, job)
        names = {job, *(pod["metadata"]["name"] for pod in pods)}
        workload = self._workload(namespace, uid) if found["spec"].get("suspend") else None
        events = self._events(namespace, names) if _is_waiting(pods, found) else []
        return {"job": found, "pods": pods, "events": events, "workload": workload}

    def pods(self, namespace: str, job: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{namespace}/pods"
        found = self._call("GET", path, selector=f"{GROUP_LABEL}={job}")["items"]
        return [pod for pod in found if pod["metadata"].get("labels", {}).get(GROUP_LABEL) == job]

    def stop(self, namespace: str, job: str, number: int | None, force: bool) -> None:
        """`number` None for all; a forced stop of all removes everything: the Job last, for its
        pods are asked to end when it is gone."""
        options = {"gracePeriodSeconds": 0} if force else {}
        for pod in self.pods(namespace, job):
            if number is None or _number(pod) == number:
                path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
                self._delete(path, options)
        if force and number is None:
            self._delete(_job(namespace, job), {"propagationPolicy": "Background"})

    # How

    def _events(self, namespace: str, names: set[str]) -> list[dict[str, Any]]:
        """Of these objects; empty where this user may not see events."""
        try:
            found = self._call("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
        except ValueError:
            return []
        mine = [event for event in found if event.get("involvedObject", {}).get("name") in names]
        return sorted(mine, key=lambda event: str(event.get("lastTimestamp") or ""))

    def _workload(self, namespace: str, uid: str) -> dict[str, Any] | None:
        """Kueue's, where there is one and this user may see it."""
        label = "kueue.x-k8s.io/job-uid"
        path = f"{_KUEUE}/namespaces/{namespace}/workloads"
        try:
            found = self._call("GET", path, selector=f"{label}={uid}")["items"]
        except ValueError:
            return None
        mine = [each for each in found if each["metadata"].get("labels", {}).get(label) == uid]
        return mine[0] if mine else None

    def _make(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._call("POST", path, content)
        except FileExistsError:
            return self._call("GET", f"{path}/{content['metadata']['name']}")

    def _delete(self, path: str, options: Mapping[str, Any]) -> None:
        try:
            self._call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
        except NotFound:
            return

    def _call(
        self, method: str, path: str, body: object = None, *, selector: str = ""
    ) -> dict[str, Any]:
        """The answer's JSON. By the client's connection alone: its methods and models differ from
        version to version, and refuse what they do not know."""
        self._connect()
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        status, text = self._answer(method, f"{path}{query}", kind, body)
        if status not in _DONE:
            self._raise(status, _message(status, text), path)
        return dict(json.loads(text))

    def _answer(self, method: str, path: str, kind: str, body: object) -> tuple[int, str]:
        exceptions = import_module("kubernetes.client.exceptions")
        settings = self._client.configuration
        secrets = {
            each["key"]: each["value"]
            for each in settings.auth_settings().values()
            if each["in"] == "header" and each["value"]
        }
        try:
            answer = self._client.rest_client.request(
                method,
                f"{settings.host}{path}",
                headers={"Accept": "application/json", "Content-Type": kind, **secrets},
                body=body,
                _request_timeout=_SECONDS,
            )
        except exceptions.ApiException as error:  # of versions before 36 also for an answer
            return int(error.status or 0), _decoded(error.body) or str(error.reason)
        return int(answer.status), _decoded(answer.data or answer.read())

    def _raise(self, status: int, said: str, path: str) -> NoReturn:
        if status == _NOT_FOUND:
            raise NotFound(f"Kubernetes: {said} ({path})")
        if status == _CONFLICT:
            raise FileExistsError(said)
        if status == _UNAUTHORIZED:
            self._client = None  # a token may have been renewed
        if status in _REFUSED and "exceeded quota" not in said:
            raise ValueError(f"Kubernetes refuses it: {said}")
        raise ConnectionError(f"Kubernetes: {said}")

    def _connect(self) -> None:
        if self._client is not None:
            return
        try:
            config = import_module("kubernetes.config")
            client = import_module("kubernetes.client")
        except ImportError as error:
            raise ValueError(
                f"the client of Kubernetes cannot be imported ({error}); install it by "
                "`pip install 'trackside[kubernetes]'`"
            ) from error
        settings = client.Configuration()
        try:
            self._namespace = self._load(config, settings)
        except config.ConfigException as error:
            raise ValueError(
                f"no cluster is set up here: {error}; set KUBECONFIG, or name a context: "
                "kubernetes:CONTEXT"
            ) from error
        settings.retries = False
        self._client = client.ApiClient(settings)

    def _load(self, config: Any, settings: Any) -> str:
        """The context's namespace. In a pod without a kubeconfig: the pod's own."""
        try:
            contexts, active = config.list_kube_config_contexts()
        except config.ConfigException:
            if self._context or not os.path.exists(_NAMESPACE_FILE):
                raise
            config.load_incluster_config(client_configuration=settings)
            with open(_NAMESPACE_FILE) as file:
                return file.read().strip()
        name = self._context or active["name"]
        config.load_kube_config(context=name, client_configuration=settings)
        found: dict[str, Any] = next((each for each in contexts if each["name"] == name), {})
        return str(found.get("context", {}).get("namespace") or "default")


def _job(namespace: str, name: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"


def _number(pod: Mapping[str, Any]) -> int:
    metadata = pod["metadata"]
    known = {**metadata.get("annotations", {}), **metadata.get("labels", {})}
    return int(known.get(INDEX_LABEL, -1))


def _is_waiting(pods: list[dict[str, Any]], job: Mapping[str, Any]) -> bool:
    """Whether there is a reason to wait that events say."""
    phases = [pod.get("status", {}).get("phase", "Pending") for pod in pods]
    return len(pods) < job["spec"]["completions"] or "Pending" in phases


def _decoded(content: bytes | str | None) -> str:
    return content.decode(errors="replace") if isinstance(content, bytes) else content or ""


def _message(status: int, text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (KeyError, TypeError, ValueError):
        return f"{status} {text[:200]}".strip()


def main() -> None:
    engine = Engine(sys.argv[1])
    functions: dict[str, Callable[..., Any]] = {
        "cluster": engine.cluster,
        "make_job": engine.make_job,
        "make_parts": engine.make_parts,
        "poll": engine.poll,
        "pods": engine.pods,
        "stop": engine.stop,
    }
    serve(functions, (ConnectionError, TimeoutError))


if __name__ == "__main__":
    main()
