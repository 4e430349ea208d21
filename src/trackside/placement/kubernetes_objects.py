"""The objects of a group in Kubernetes: an Indexed Job, a headless Service that gives its pods
names, and a Secret with the bundle. Service and Secret belong to the Job and go with it.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any

from trackside.placement.kubernetes_options import QUEUE, gpu_resource, pod_options
from trackside.placement.machine_sizes import asked_of_each
from trackside.placement.placement import Group

CONTAINER = "supervisor"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
JOB_LABEL, EPOCH_LABEL, GROUP_LABEL = "trackside/job", "trackside/epoch", "trackside/group"
"""Of all objects of a group; the last one is of no other group."""
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
MOST_BUNDLE = 1_000_000
"""Kubernetes takes at most 1 MiB in a Secret."""
_BUNDLE = "bundle.json"
_BUNDLE_FOLDER = "/run/trackside/group"
_HOME = "/var/lib/trackside"
_UPLOAD_SECONDS = 30
"""What the end of a job needs besides its grace."""
_KEPT_SECONDS = 86_400
"""How long a Job that has ended can be asked how it ended."""
_MOST_NAME = 54
"""With a pod's number behind it, it is a name of DNS."""
_HOST = "trackside.placement.kubernetes_host"

Manifest = dict[str, Any]


def name_of(group: Group) -> str:
    """The same for the same group, and for no other; begins with a letter."""
    tail = f"-{group.epoch}-{group.hosts[0].nonce[:8]}".lower()
    plain = re.sub(r"[^a-z0-9]+", "-", f"ts-{group.job.lower()}")
    return plain[: _MOST_NAME - len(tail)].strip("-") + re.sub(r"[^a-z0-9-]", "", tail)


def labels_of(group: Group) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "trackside",
        JOB_LABEL: group.job,
        EPOCH_LABEL: str(group.epoch),
        GROUP_LABEL: name_of(group),
    }


def job(group: Group) -> Manifest:
    """Suspended: it begins when its Secret and its Service are there, or when Kueue lets it."""
    name, labels, count = name_of(group), labels_of(group), len(group.hosts)
    queue = group.options.get(QUEUE)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {**labels, **({KUEUE_QUEUE: queue} if queue else {})}},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "backoffLimit": 0,
            "suspend": True,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "podFailurePolicy": {"rules": _failure_rules()},
            "template": {"metadata": {"labels": labels}, "spec": _pod(group, name)},
        },
    }


def service(group: Group, owner: Mapping[str, Any]) -> Manifest:
    """Without an address of its own: `NAME-0.NAME` is the first pod, once it runs."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned(group, owner),
        "spec": {"clusterIP": "None", "selector": labels_of(group)},
    }


def secret(group: Group, owner: Mapping[str, Any]) -> Manifest:
    """`ValueError` for a request that Kubernetes cannot carry."""
    if len(group.bundle) > MOST_BUNDLE:
        raise ValueError(
            f"the job's request has {len(group.bundle)} bytes with its variables, and a Secret of "
            f"Kubernetes takes at most {MOST_BUNDLE}; put long values into a file of its source"
        )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _owned(group, owner),
        "type": "Opaque",
        "immutable": True,
        "data": {_BUNDLE: base64.b64encode(group.bundle.encode()).decode()},
    }


def _owned(group: Group, owner: Mapping[str, Any]) -> Manifest:
    name = name_of(group)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": owner["uid"]}
    return {"name": name, "labels": labels_of(group), "ownerReferences": [reference]}


def _failure_rules() -> list[Manifest]:
    """Nothing is tried again by Kubernetes. By these rules its Job says why, also when the pod is
    no more."""
    taken = {"type": "DisruptionTarget", "status": "True"}
    failed = {"containerName": CONTAINER, "operator": "NotIn", "values": [0]}
    return [
        {"action": "FailJob", "onPodConditions": [taken]},
        {"action": "FailJob", "onExitCodes": failed},
    ]


def _pod(group: Group, name: str) -> Manifest:
    return {
        "restartPolicy": "Never",
        "subdomain": name,
        "terminationGracePeriodSeconds": group.grace_seconds + _UPLOAD_SECONDS,
        "enableServiceLinks": False,
        "containers": [_container(group, name)],
        "volumes": [
            {"name": "bundle", "secret": {"secretName": name, "defaultMode": 0o444}},
            {"name": "home", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
        **pod_options(group.options),
    }


def _container(group: Group, name: str) -> Manifest:
    python, *command = group.command
    hosts = ",".join(host.name for host in group.hosts)
    variables = {
        "TRACKSIDE_HOME": f"{_HOME}/home",
        "TRACKSIDE_GROUP_FILE": f"{_BUNDLE_FOLDER}/{_BUNDLE}",
    }
    return {
        "name": CONTAINER,
        "image": group.image,
        "command": [*map(_literal, (python, "-P", "-m", _HOST, name, hosts, *command))],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": resources(group),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "bundle", "mountPath": _BUNDLE_FOLDER, "readOnly": True},
            {"name": "home", "mountPath": _HOME},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def resources(group: Group) -> Manifest:
    """Of each pod. Cores are no limit: a script may use those that nobody else needs."""
    each = asked_of_each(group.hosts)
    limits = {}
    if each.memory_gb:
        limits["memory"] = f"{int(each.memory_gb * 1024)}Mi"
    if each.gpus:
        limits[gpu_resource(group.options)] = str(each.gpus)
    return {"requests": {"cpu": str(each.cores), **limits}, "limits": limits}


def _literal(word: str) -> str:
    """Kubernetes puts variables in the place of `$(NAME)`."""
    return word.replace("$", "$$")
