"""A stand-in for a Kubernetes cluster: no true one was seen.

`kmock` is the API server, which stores what it is given. `Cluster` plays what matters here of the
Job controller, the scheduler, the kubelet and the garbage collector: a pod's command is a process
in namespaces of its own, which see the Secret and the names of the Service. Needs root.
"""

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kmock

from tests.wait import until
from trackside.placement import kubernetes

NAMESPACE = "team"
IMAGE = "example.com/training:1"
JOBS, PODS = kmock.resource("batch", "v1", "jobs"), kmock.resource("", "v1", "pods")
SECRETS, SERVICES = kmock.resource("", "v1", "secrets"), kmock.resource("", "v1", "services")
EVENTS = kmock.resource("", "v1", "events")
WORKLOADS = kmock.resource("kueue.x-k8s.io", "v1beta1", "workloads")
VENV = Path(__file__).parent.parent / ".venv"
_SETUP = (  # what a container has of its own: volumes, and names of other pods
    "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && "
    "mkdir -p /run/trackside/group /var/lib/trackside && "
    'mount --bind "$1" /run/trackside/group && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'
)


def _now() -> str:
    return datetime.now(UTC).isoformat()


class _Server(kmock.KubernetesEmulator):
    is_away = False
    refused: Any = None
    """A resource that nobody may create."""

    async def _handle(self, request: Any) -> Any:
        if self.is_away:
            raise kmock.KubernetesError(status=503, message="the server is shutting down")
        if request.action == kmock.action.CREATE and request.resource == self.refused:
            raise kmock.KubernetesError(status=403, message="cannot create it: it is broken")
        if request.action == kmock.action.CREATE:
            made = {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
            request.data["metadata"].update(made, namespace=request.namespace)
        is_pod = request.resource == PODS and request.action == kmock.action.DELETE
        if is_pod and (request.data or {}).get("gracePeriodSeconds") == 0:
            key = (PODS, request.namespace, request.name)
            if key in self.objects and not self.objects[key].deleted:
                self.objects[key].patch({"metadata": {"finalizers": []}})
        return await super()._handle(request)


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.is_full = False
        """No node takes a pod."""
        self.pull_error = ""
        """Why images cannot be pulled."""
        self.nodes_away = False
        """Nodes neither report nor end anything."""
        self.server = _Server()
        for resource in (JOBS, PODS, SECRETS, SERVICES, EVENTS, WORKLOADS):
            self.server.resources[resource] = kmock.ResourceInfo(namespaced=True)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._causes: dict[str, dict[str, Any]] = {}
        """What a pod's status has besides, by its name: who killed it."""
        self._hosts = folder / "hosts"
        self._hosts.write_text("127.0.0.1 localhost\n")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    # For tests

    def objects(self, resource: Any) -> dict[str, Any]:
        return {
            key[2]: each.raw
            for key, each in [*self.server.objects.items()]
            if key[0] == resource and not each.deleted
        }

    def pod(self, number: int) -> str:
        """Its name, once it runs."""
        name = f"-{number}"

        def found() -> str:
            running = self.objects(PODS).items()
            return next(
                (each for each, pod in running if each.endswith(name) and "podIP" in pod["status"]),
                "",
            )

        return until(found)

    def free(self) -> None:
        """After a test: as it was in the beginning."""
        self.is_full = self.nodes_away = self.server.is_away = False
        self.pull_error, self.server.refused = "", None
        for resource in (JOBS, PODS):
            for name in self.objects(resource):
                self._remove(resource, name)
        until(lambda: not self._processes and not self.objects(PODS))
        self._causes.clear()
        self._hosts.write_text("127.0.0.1 localhost\n")

    def kill(self, number: int, status: dict[str, Any] | None = None, **container: Any) -> None:
        """SIGKILL to a pod's container; its status says `reason="OOMKilled"`, for instance."""
        name = self.pod(number)
        self._causes[name] = {"status": status or {}, "container": container}
        self._signal(name, signal.SIGKILL)

    def delete(self, number: int) -> None:
        """As a drain does: the container gets SIGTERM."""
        name = self.pod(number)
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        self._patch(PODS, name, {"status": {"conditions": [target]}})
        self._patch(PODS, name, {"metadata": {"deletionTimestamp": _now()}})

    def delete_job(self, name: str) -> None:
        """By somebody else, who asks for the usual propagation."""
        self._remove(JOBS, name)

    # The control plane and the nodes, in a loop

    async def _serve(self) -> None:
        async with self.server, kmock.Server(self.server) as served:
            context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
            content = {
                "current-context": "here",
                "contexts": [{"name": "here", "context": context}],
                "clusters": [{"name": "c", "cluster": {"server": str(served.url).rstrip("/")}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
            draft = self.folder / "draft"
            draft.write_text(json.dumps(content))
            draft.rename(self.kubeconfig)
            while not self._is_over.is_set():
                self._step()
                await asyncio.sleep(0.02)

    def _step(self) -> None:
        jobs, pods = self.objects(JOBS), self.objects(PODS)
        for name, job in jobs.items():
            if not job["spec"]["suspend"] and "status" not in job:
                self._make_pods(name, job)
        for name, pod in pods.items():
            self._play(name, pod)
        for name in [each for each in self._processes if each not in self.objects(PODS)]:
            process = self._processes.pop(name)
            process.kill()  # and with it the container
            process.wait()
        for name, job in jobs.items():
            self._conclude(name, job)
        for resource in (PODS, SECRETS, SERVICES):
            for name, each in self.objects(resource).items():
                owner = each["metadata"]["ownerReferences"][0]["name"]
                if owner in self.objects(JOBS):
                    continue
                if resource == PODS:
                    self._patch(PODS, name, {"metadata": {"deletionTimestamp": _now()}})
                else:
                    self._remove(resource, name)

    def _make_pods(self, name: str, job: dict[str, Any]) -> None:
        self._patch(JOBS, name, {"status": {"startTime": _now()}})
        template = job["spec"]["template"]
        for number in range(job["spec"]["completions"]):
            labels = {
                **template["metadata"]["labels"],
                "batch.kubernetes.io/job-completion-index": str(number),
            }
            pod = {
                "metadata": {
                    "name": f"{name}-{number}",
                    "namespace": NAMESPACE,
                    "creationTimestamp": _now(),
                    "labels": labels,
                    "finalizers": ["batch.kubernetes.io/job-tracking"],
                    "ownerReferences": [{"kind": "Job", "name": name}],
                },
                "spec": {**template["spec"], "nodeName": "node-1"},
                "status": {"phase": "Pending"},
            }
            key = (PODS, NAMESPACE, f"{name}-{number}")
            if key in self.server.objects:
                self.server.objects[key].create(pod)
            else:
                self.server.objects[key] = pod

    def _play(self, name: str, pod: dict[str, Any]) -> None:
        status, process = pod["status"], self._processes.get(name)
        if status["phase"] == "Pending":
            self._begin(name, pod)
        elif status["phase"] == "Running" and process is not None and not self.nodes_away:
            if pod["metadata"].get("deletionTimestamp") and not status.get("isAsked"):
                self._patch(PODS, name, {"status": {"isAsked": True}})
                self._signal(name, signal.SIGTERM)
            if process.poll() is not None:
                self._report_end(name, process.returncode)
        elif status["phase"] in ("Succeeded", "Failed") and pod["metadata"].get(
            "deletionTimestamp"
        ):
            self._remove(PODS, name)

    def _begin(self, name: str, pod: dict[str, Any]) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            return self._remove(PODS, name)
        if self.is_full:
            said = "0/1 nodes are available: 1 Insufficient cpu."
            no = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            return self._patch(PODS, name, {"status": {"conditions": [{**no, "message": said}]}})
        if self.pull_error:
            waiting = {"reason": "ErrImagePull", "message": self.pull_error}
            return self._set_container(name, "Pending", {"waiting": waiting})
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        secret = self.objects(SECRETS).get(owner)
        if secret is None or owner not in self.objects(SERVICES):
            return None
        mounted = self.folder / f"secret.{name}"
        mounted.mkdir(exist_ok=True)
        for file, content in secret["data"].items():
            (mounted / file).write_bytes(base64.b64decode(content))
        number = name.rpartition("-")[2]
        address = f"127.0.1.{10 + len(self._processes)}"
        with self._hosts.open("a") as hosts:
            hosts.write(f"{address} {name}.{owner}\n")
        self._processes[name] = self._run(name, pod, number, mounted)
        self._patch(PODS, name, {"status": {"podIP": address, "conditions": []}})
        return self._set_container(name, "Running", {"running": {"startedAt": _now()}})

    def _run(
        self, name: str, pod: dict[str, Any], number: str, mounted: Path
    ) -> "subprocess.Popen[bytes]":
        container = pod["spec"]["containers"][0]
        variables = {each["name"]: each["value"] for each in container["env"]}
        command = [word.replace("$$", "$") for word in container["command"]]
        of_its_own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        inside = ["sh", "-c", _SETUP, "sh", str(mounted), str(self._hosts)]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*of_its_own, *inside, *command],
                env={
                    "PATH": f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "HOME": "/root",
                    "JOB_COMPLETION_INDEX": number,
                    "OF_THE_POD": name,
                    **variables,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _report_end(self, name: str, code: int) -> None:
        cause = self._causes.get(name, {"status": {}, "container": {}})
        number = code if code >= 0 else 128 - code
        reason = "Completed" if number == 0 else "Error"
        said = "" if number == 0 else (self.folder / f"{name}.log").read_text()[-2048:]
        ended = {"exitCode": number, "reason": reason, "message": said, **cause["container"]}
        phase = "Succeeded" if ended["exitCode"] == 0 else "Failed"
        self._set_container(name, phase, {"terminated": ended})
        self._patch(PODS, name, {"status": cause["status"]})

    def _conclude(self, name: str, job: dict[str, Any]) -> None:
        """Of a pod that has failed: the Job, and with it the other pods."""
        if "conditions" in job.get("status", {}):
            return
        pods = {
            each: pod for each, pod in self.objects(PODS).items() if each.startswith(f"{name}-")
        }
        done = [each for each, pod in pods.items() if pod["status"]["phase"] == "Succeeded"]
        failed = [each for each, pod in pods.items() if pod["status"]["phase"] == "Failed"]
        known = {*filter(None, job.get("status", {}).get("completedIndexes", "").split(","))}
        numbers = known | {each.rpartition("-")[2] for each in done}
        if numbers != known:
            listed = ",".join(sorted(numbers, key=int))
            self._patch(JOBS, name, {"status": {"completedIndexes": listed}})
        if failed:
            said = f"Container supervisor for pod {NAMESPACE}/{failed[0]} failed"
            over = {"type": "Failed", "reason": "PodFailurePolicy", "message": said}
            self._patch(JOBS, name, {"status": {"conditions": [{**over, "status": "True"}]}})
            for each, pod in pods.items():
                if pod["status"]["phase"] in ("Pending", "Running"):
                    self._patch(PODS, each, {"metadata": {"deletionTimestamp": _now()}})

    def _set_container(self, name: str, phase: str, state: dict[str, Any]) -> None:
        statuses = [{"name": "supervisor", "state": state}]
        self._patch(PODS, name, {"status": {"phase": phase, "containerStatuses": statuses}})

    def _patch(self, resource: Any, name: str, content: dict[str, Any]) -> None:
        self.server.objects[resource, NAMESPACE, name].patch(content)

    def _remove(self, resource: Any, name: str) -> None:
        self.server.objects[resource, NAMESPACE, name].delete()

    def _signal(self, name: str, number: int) -> None:
        """To the first process of the container."""
        unshare = self._processes[name].pid
        with suppress(OSError, IndexError):
            first = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
            os.kill(int(first[0]), number)


def disconnect() -> None:
    """This process from every cluster, as the end of a submitter does."""
    for child in kubernetes._children.values():
        child.close()
    kubernetes._children.clear()


@contextmanager
def kubernetes_cluster(folder: Path) -> Iterator[Cluster]:
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder)
    cluster._thread.start()
    try:
        until(cluster.kubeconfig.exists)
        yield cluster
    finally:
        disconnect()  # the server waits for those who are connected
        cluster._is_over.set()
        cluster._thread.join()
        for process in cluster._processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(folder)
