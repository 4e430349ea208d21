"""What follows from what Kubernetes says about a group: from objects of its API, as JSON, that
`kubernetes_engine.py` collects. What it does not say is unknown, and never a failure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from trackside.placement.kubernetes_objects import CONTAINER, INDEX_LABEL, KUEUE_QUEUE
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
from trackside.quick_dataclass import dataclass

Object = Mapping[str, Any]

DELETED = (
    "Kubernetes has no such Job any more: somebody has deleted it, or it ended more than a day ago"
)
_OVERDUE_SECONDS = 60.0
"""So long after its grace a pod that is still there is one whose node does not answer."""
_NODE_GONE = ("DeletionByTaintManager", "DeletionByPodGC")
"""Reasons of DisruptionTarget; the others give the machine to somebody else."""
_NODE_REASONS = ("NodeLost", "NodeShutdown", "Terminated", "Shutdown")
"""Of a pod."""
_PULLING = ("ErrImagePull", "ImagePullBackOff")
_NO_IMAGE = ("InvalidImageName", "ErrImageNeverPull")
_NO_SUCH_IMAGE = re.compile(
    r"not found|manifest unknown|does not exist|no match(?:ing manifest)? for|unauthorized"
    r"|access denied|denied:|forbidden|authentication required",
    re.IGNORECASE,
)
"""What registries say to which another try is no answer; others, such as time-outs, may pass."""
_CANNOT_START = ("StartError", "ContainerCannotRun")
_NO_TRACKSIDE = re.compile(r"No module named '?trackside")
_MOST_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    job: dict[str, Any] | None
    """None when there is none of this name and uid."""
    pods: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    """Of the Job and its pods, the latest last."""
    workload: dict[str, Any] | None = None
    """Kueue's, of a Job that is suspended."""


def polls_of(facts: Facts, hosts: Sequence[str], now: datetime) -> dict[str, Poll]:
    """The state of each host. The group begins when all pods run, and ends as a whole."""
    if facts.job is None:
        return dict.fromkeys(hosts, Ended(EndCause.CANCELLED, DELETED))
    pods = _by_index(facts.pods)
    found = {
        host: _without_pod(facts, number)
        if number not in pods
        else _of_pod(facts, pods[number], now)
        for number, host in enumerate(hosts)
    }
    ended = next((each for each in found.values() if isinstance(each, Ended)), None)
    if ended is not None and (ended.cause is EndCause.IMAGE or _is_over(found)):
        return dict.fromkeys(hosts, ended)
    waits = next((each for each in found.values() if isinstance(each, Pending)), None)
    if waits is None:
        return found
    return {host: waits if isinstance(each, Running) else each for host, each in found.items()}


def addresses_of(pods: Sequence[Object], hosts: Sequence[str]) -> dict[str, str]:
    found = {number: pod.get("status", {}).get("podIP") for number, pod in _by_index(pods).items()}
    return {host: found[number] for number, host in enumerate(hosts) if found.get(number)}


def _is_over(found: Mapping[str, Poll]) -> bool:
    return all(isinstance(each, Ended | Exited | Lost) for each in found.values())


def _by_index(pods: Sequence[Object]) -> dict[int, Object]:
    """The latest of each number."""
    found = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
        known = {**pod["metadata"].get("annotations", {}), **pod["metadata"].get("labels", {})}
        if str(known.get(INDEX_LABEL, "")).isdigit():
            found[int(known[INDEX_LABEL])] = pod
    return found


# A host that has no pod


def _without_pod(facts: Facts, number: int) -> Poll:
    assert facts.job is not None
    status = facts.job.get("status", {})
    if number in _indexes(status.get("completedIndexes", "")):
        return Exited(0)
    if failure := _condition(status, "Failed") or _condition(status, "FailureTarget"):
        return _of_failed_job(failure)
    if _condition(status, "Complete"):
        return Exited(0)
    if facts.job["spec"].get("suspend"):
        return _suspended(facts)
    return Pending(_last_warning(facts, facts.job) or "its pod is not made yet")


def _of_failed_job(failure: Object) -> Poll:
    said = _words(failure.get("reason"), failure.get("message"))
    if failure.get("reason") == "DeadlineExceeded":
        return Ended(EndCause.TIME_LIMIT, said)
    if "DisruptionTarget" in said:
        return Lost(said, Gone.TAKEN)
    return Exited(None, said)


def _suspended(facts: Facts) -> Poll:
    """By Kueue, where the Job has a queue: its words are in the Workload."""
    assert facts.job is not None
    status = (facts.workload or {}).get("status", {})
    if evicted := _condition(status, "Evicted"):
        said = _words(evicted.get("reason"), evicted.get("message"))
        return Lost(f"Kueue took its machines: {said}", Gone.TAKEN)
    queue = facts.job["metadata"].get("labels", {}).get(KUEUE_QUEUE)
    if not queue:
        return Pending("its Job is suspended")
    reserved = _condition(status, "QuotaReserved", "False") or {}
    said = str(reserved.get("message") or _last_warning(facts, facts.job))
    return Pending(f"suspended by Kueue in the queue {queue!r}" + (f": {said}" if said else ""))


def _indexes(text: str) -> set[int]:
    """Of `0,2-5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= {*range(int(first), int(last or first) + 1)}
    return found


# A host that has a pod


def _of_pod(facts: Facts, pod: Object, now: datetime) -> Poll:
    status = pod.get("status", {})
    container = _container(status)
    match status.get("phase", "Pending"):
        case "Pending":
            return _pending(facts, pod, container)
        case "Running" if "terminated" not in container.get("state", {}):
            return _running(pod, container, now)
        case "Succeeded":
            return Exited(0)
        case "Running" | "Failed":
            return _failed(pod, container)
        case other:
            return Unknown(_words(f"Kubernetes calls its pod {other}", status.get("message")))


def _running(pod: Object, container: Object, now: datetime) -> Poll:
    node = pod.get("spec", {}).get("nodeName", "")
    ends = pod["metadata"].get("deletionTimestamp")
    if ends:
        late = (now - datetime.fromisoformat(ends)).total_seconds()
        if late > _OVERDUE_SECONDS:
            return Lost(f"its node {node} did not end it in time: Kubernetes has lost the node")
        return Running()
    is_ready = _condition(pod["status"], "Ready", "False") is None
    if not is_ready and "running" in container.get("state", {}):
        return Unknown(f"its pod is not ready: its node {node} may not answer")
    return Running()


def _pending(facts: Facts, pod: Object, container: Object) -> Poll:
    status = pod.get("status", {})
    waiting = container.get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _NO_IMAGE:
        return Ended(EndCause.IMAGE, _words(reason, message))
    if reason in _PULLING:
        said = next(filter(_NO_SUCH_IMAGE.search, [message, *_failures(facts, pod)]), "")
        if said:
            return Ended(EndCause.IMAGE, _words("ErrImagePull", said))
        return Pending(_words(reason, message))
    if unscheduled := _condition(status, "PodScheduled", "False"):
        return Pending(_words(unscheduled.get("message") or unscheduled.get("reason")))
    if reason and reason not in ("ContainerCreating", "PodInitializing"):
        return Pending(_words(reason, message))
    return Pending(_last_warning(facts, pod) or reason or "its pod waits for a node")


def _failed(pod: Object, container: Object) -> Poll:
    status = pod["status"]
    ended = container.get("state", {}).get("terminated", {})
    if ended.get("reason") == "OOMKilled":
        limit = _memory_limit(pod)
        why = "Kubernetes killed its container for lack of memory (OOMKilled)"
        return Ended(EndCause.OUT_OF_MEMORY, f"{why}; its limit is {limit}" if limit else why)
    if status.get("reason") == "DeadlineExceeded":
        return Ended(EndCause.TIME_LIMIT, _words("DeadlineExceeded", status.get("message")))
    if (lost := _taken(status)) is not None:
        return lost
    if not ended:  # it never began there
        said = _words(status.get("reason"), status.get("message"))
        if not said:
            return Exited(None, "its pod failed, and Kubernetes does not say why")
        return Lost(said, Gone.ENGINE)
    return _exited(ended)


def _taken(status: Object) -> Lost | None:
    said = _words(status.get("reason"), status.get("message"))
    if status.get("reason") in _NODE_REASONS:
        return Lost(said)
    if target := _condition(status, "DisruptionTarget"):
        why = _words(target.get("reason"), target.get("message"))
        is_node = target.get("reason") in _NODE_GONE
        return Lost(said or why, Gone.MACHINE if is_node else Gone.TAKEN)
    return Lost(said, Gone.TAKEN) if status.get("reason") == "Evicted" else None


def _exited(ended: Object) -> Poll:
    said = _words(_last_line(ended.get("message") or ""))
    if ended.get("reason") in _CANNOT_START:
        return Ended(EndCause.IMAGE, f"its image cannot be started: {said}")
    if _NO_TRACKSIDE.search(ended.get("message") or ""):
        why = "its image has no Trackside of this version; install it there"
        return Ended(EndCause.IMAGE, f"{why}: {said}")
    return Exited(ended.get("exitCode"), said)


# What objects say


def _container(status: Object) -> Object:
    each: Object
    for each in status.get("containerStatuses", []):
        if each.get("name") == CONTAINER:
            return each
    return {}


def _condition(status: Object, kind: str, value: str = "True") -> Object | None:
    each: Object
    for each in status.get("conditions") or []:
        if each.get("type") == kind and each.get("status") == value:
            return each
    return None


def _memory_limit(pod: Object) -> str:
    for each in pod.get("spec", {}).get("containers", []):
        if each.get("name") == CONTAINER:
            return str(each.get("resources", {}).get("limits", {}).get("memory", ""))
    return ""


def _warnings(facts: Facts, about: Object) -> Iterator[Object]:
    name = about["metadata"]["name"]
    for event in reversed(facts.events):
        if event.get("type") == "Warning" and event.get("involvedObject", {}).get("name") == name:
            yield event


def _last_warning(facts: Facts, about: Object) -> str:
    event = next(_warnings(facts, about), {})
    return _words(event.get("reason"), event.get("message"))


def _failures(facts: Facts, pod: Object) -> Iterator[str]:
    """Of its image, from before Kubernetes began to wait between two tries."""
    return (str(event.get("message", "")) for event in _warnings(facts, pod))


def _words(*parts: object) -> str:
    """`Evicted: The node was low on resource: memory.`"""
    said = ": ".join(" ".join(str(part).split()) for part in parts if part)
    return said[:_MOST_WORDS]


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
