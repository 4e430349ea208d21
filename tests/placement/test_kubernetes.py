"""What a group is in Kubernetes, and what follows from what Kubernetes says about it."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import kubernetes_validate
import pytest

from trackside.placement import kubernetes_objects
from trackside.placement.kubernetes_options import option_words, pod_options, wrong_options
from trackside.placement.kubernetes_states import DELETED, Facts, addresses_of, polls_of
from trackside.placement.placement import (
    EndCause,
    Ended,
    Exited,
    Gone,
    Group,
    HostRequest,
    Lost,
    Pending,
    Poll,
    Running,
    Unknown,
)

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
VERSIONS = ["1.29", "1.33", kubernetes_validate.latest_version()]
OPTIONS = {
    "namespace": "team",
    "queue": "research",
    "service-account": "trainer",
    "node-selector": "gpu=a100,zone=b",
    "tolerations": "gpu=yes:NoSchedule,spot",
    "priority-class": "low",
    "pull-secret": "registry",
    "gpu-resource": "amd.com/gpu",
}


def group(**changes: Any) -> Group:
    hosts = tuple(
        HostRequest(name=f"algo-{number}", nonce="0123456789ab", cores=4, memory_gb=7.5, gpus=1)
        for number in (1, 2)
    )
    usual = Group(
        job="My-Job",
        attempt=1,
        epoch=3,
        hosts=hosts,
        command=("python3", "-P", "-m", "trackside.supervisor"),
        image="example.com/training:1",
        grace_seconds=100,
        bundle='{"secret": "hush-4711"}',
    )
    return replace(usual, **changes)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["plain", "all options"])
def test_its_objects_are_valid(version: str, options: dict[str, str]):
    made = group(options=options)
    owner = {"uid": "u"}
    for each in (
        kubernetes_objects.job(made),
        kubernetes_objects.secret(made, owner),
        kubernetes_objects.service(made, owner),
    ):
        kubernetes_validate.validate(each, version, strict=True)


def test_one_job_has_a_pod_for_each_host_and_tries_nothing_again():
    job = kubernetes_objects.job(group())
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert (spec["backoffLimit"], spec["suspend"]) == (0, True)
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Never", 130)
    assert pod["automountServiceAccountToken"] is False
    [container] = pod["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "7680Mi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "7680Mi", "nvidia.com/gpu": "1"},
    }
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["FailJob", "FailJob"]
    assert "kueue.x-k8s.io/queue-name" not in job["metadata"]["labels"]
    queued = kubernetes_objects.job(group(options={"queue": "research"}))
    assert queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"


def test_secrets_are_in_the_secret_alone_which_goes_with_the_job():
    made = group()
    job, secret = kubernetes_objects.job(made), kubernetes_objects.secret(made, {"uid": "u-1"})
    assert "hush" not in json.dumps([job, kubernetes_objects.service(made, {"uid": "u-1"})])
    assert base64.b64decode(secret["data"]["bundle.json"]) == made.bundle.encode()
    [owner] = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", job["metadata"]["name"], "u-1")


def test_a_request_that_no_secret_can_carry_is_refused():
    with pytest.raises(ValueError, match="takes at most 1000000"):
        kubernetes_objects.secret(group(bundle="x" * 1_000_001), {"uid": ""})


@pytest.mark.parametrize(
    ("job", "name"),
    [
        ("My-Job", "ts-my-job-3-01234567"),
        ("9lives", "ts-9lives-3-01234567"),
        ("a" * 63, f"ts-{'a' * 40}-3-01234567"),
        ("a" * 39 + "-b", f"ts-{'a' * 39}-3-01234567"),
    ],
)
def test_names_are_those_of_dns(job: str, name: str):
    assert kubernetes_objects.name_of(group(job=job)) == name
    assert len(f"{name}-999") <= 63


def test_words_of_the_command_are_no_variables_of_kubernetes():
    [container] = kubernetes_objects.job(group(command=("python3", "-c", "$(HOME)")))["spec"][
        "template"
    ]["spec"]["containers"]
    assert container["command"][-1] == "$$(HOME)"


def test_options():
    assert option_words("node-selector=gpu=a100") == ("node-selector", "gpu=a100")
    with pytest.raises(ValueError, match="write it as NAME=VALUE"):
        option_words("queue")
    assert not [*wrong_options(OPTIONS)]
    wrong = {
        "namespace": "Team",
        "queue": "",
        "gpu-resource": "gpu",
        "node-selector": "gpu",
        "tolerations": "a:Never",
        "hostNetwork": "true",
    }
    assert [name for name, _ in wrong_options(wrong)] == [*wrong]
    assert pod_options(OPTIONS) == {
        "serviceAccountName": "trainer",
        "nodeSelector": {"gpu": "a100", "zone": "b"},
        "tolerations": [
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists"},
        ],
        "priorityClassName": "low",
        "imagePullSecrets": [{"name": "registry"}],
    }


# What Kubernetes says


def job(*conditions: dict[str, str], **members: Any) -> dict[str, Any]:
    made = kubernetes_objects.job(group())
    spec = {**made["spec"], "suspend": members.pop("suspend", False)}
    metadata = {**made["metadata"], "labels": members.pop("labels", {})}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [*conditions], **members}}


def condition(kind: str, status: str = "True", **members: str) -> dict[str, str]:
    return {"type": kind, "status": status, **members}


def pod(number: int = 0, phase: str = "Running", **members: Any) -> dict[str, Any]:
    state = members.pop("state", {"running": {}} if phase == "Running" else {})
    ends = {"deletionTimestamp": members.pop("ends")} if "ends" in members else {}
    index = {"batch.kubernetes.io/job-completion-index": str(number)}
    statuses = [{"name": "supervisor", "state": state}] if state else []
    return {
        "metadata": {"name": f"pod-{number}", "annotations": index, **ends},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "supervisor", "resources": {"limits": {"memory": "4Gi"}}}],
        },
        "status": {"phase": phase, "containerStatuses": statuses, **members},
    }


def event(message: str, about: str = "pod-0", reason: str = "Failed") -> dict[str, Any]:
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"name": about},
    }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return pod(phase="Pending", state={"waiting": {"reason": reason, "message": message}})


def over(code: int, reason: str = "Error", message: str = "", **members: Any) -> dict[str, Any]:
    ended = {"exitCode": code, "reason": reason, "message": message}
    return pod(phase="Failed", state={"terminated": ended}, **members)


UNSCHEDULED = condition(
    "PodScheduled",
    "False",
    reason="Unschedulable",
    message="0/3 nodes are available: 3 Insufficient cpu.",
)
NOT_FOUND = 'failed to resolve reference "example.com/no:1": example.com/no:1: not found'


@pytest.mark.parametrize(
    ("found", "poll"),
    [
        (pod(), Running()),
        (pod(ends="2026-11-18T12:01:00Z"), Running()),
        (
            pod(ends="2026-11-18T11:58:00Z"),
            Lost("its node n1 did not end it in time: Kubernetes has lost the node"),
        ),
        (
            pod(conditions=[condition("Ready", "False")]),
            Unknown("its pod is not ready: its node n1 may not answer"),
        ),
        (pod(phase="Unknown"), Unknown("Kubernetes calls its pod Unknown")),
        (pod(phase="Succeeded"), Exited(0)),
        (
            pod(phase="Pending", conditions=[UNSCHEDULED]),
            Pending("0/3 nodes are available: 3 Insufficient cpu."),
        ),
        (pod(phase="Pending"), Pending("its pod waits for a node")),
        (waiting("ContainerCreating"), Pending("ContainerCreating")),
        (
            waiting("CreateContainerConfigError", "image will run as root"),
            Pending("CreateContainerConfigError: image will run as root"),
        ),
        (
            waiting("ImagePullBackOff", "Back-off pulling image: i/o timeout"),
            Pending("ImagePullBackOff: Back-off pulling image: i/o timeout"),
        ),
        (
            waiting("InvalidImageName", "couldn't parse image name"),
            Ended(EndCause.IMAGE, "InvalidImageName: couldn't parse image name"),
        ),
        (
            waiting("ErrImagePull", NOT_FOUND),
            Ended(EndCause.IMAGE, f"ErrImagePull: {NOT_FOUND}"),
        ),
        (
            over(137, "OOMKilled"),
            Ended(
                EndCause.OUT_OF_MEMORY,
                "Kubernetes killed its container for lack of memory (OOMKilled); its limit is 4Gi",
            ),
        ),
        (
            over(
                137,
                reason="Error",
                conditions=[condition("DisruptionTarget", reason="PreemptionByScheduler")],
            ),
            Lost("PreemptionByScheduler", Gone.TAKEN),
        ),
        (
            over(137, conditions=[condition("DisruptionTarget", reason="DeletionByTaintManager")]),
            Lost("DeletionByTaintManager", Gone.MACHINE),
        ),
        (over(2, message="one\nlast words\n"), Exited(2, "last words")),
        (
            over(128, "StartError", 'exec: "python3": executable file not found in $PATH'),
            Ended(
                EndCause.IMAGE,
                'its image cannot be started: exec: "python3": executable file not found in $PATH',
            ),
        ),
        (
            over(1, message="/usr/bin/python3: No module named trackside"),
            Ended(
                EndCause.IMAGE,
                "its image has no Trackside of this version; install it there: "
                "/usr/bin/python3: No module named trackside",
            ),
        ),
        (
            pod(phase="Failed"),
            Exited(None, "its pod failed, and Kubernetes does not say why"),
        ),
    ],
)
def test_states_of_a_pod(found: dict[str, Any], poll: Poll):
    assert polls_of(Facts(job=job(), pods=[found]), ["algo-1"], NOW) == {"algo-1": poll}


def failed(**members: Any) -> dict[str, Any]:
    return pod(phase="Failed", **members)


@pytest.mark.parametrize(
    ("found", "poll"),
    [
        (
            failed(reason="Evicted", message="The node was low on resource: memory."),
            Lost("Evicted: The node was low on resource: memory.", Gone.TAKEN),
        ),
        (
            failed(reason="NodeShutdown", message="Pod was rejected"),
            Lost("NodeShutdown: Pod was rejected", Gone.MACHINE),
        ),
        (
            failed(reason="DeadlineExceeded", message="Pod was active too long"),
            Ended(EndCause.TIME_LIMIT, "DeadlineExceeded: Pod was active too long"),
        ),
        (
            failed(reason="OutOfcpu", message="Node didn't have enough resource"),
            Lost("OutOfcpu: Node didn't have enough resource", Gone.ENGINE),
        ),
    ],
)
def test_reasons_of_a_pod(found: dict[str, Any], poll: Poll):
    assert polls_of(Facts(job=job(), pods=[found]), ["algo-1"], NOW) == {"algo-1": poll}


KUEUE = {"kueue.x-k8s.io/queue-name": "research"}
NO_QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for cpu"

UNRESERVED = condition("QuotaReserved", "False", message=NO_QUOTA)


@pytest.mark.parametrize(
    ("facts", "poll"),
    [
        (Facts(job=None), Ended(EndCause.CANCELLED, DELETED)),
        (Facts(job=job()), Pending("its pod is not made yet")),
        (
            Facts(
                job=job(),
                events=[event("exceeded quota: small", job()["metadata"]["name"], "FailedCreate")],
            ),
            Pending("FailedCreate: exceeded quota: small"),
        ),
        (Facts(job=job(completedIndexes="0,2-3")), Exited(0)),
        (
            Facts(job=job(condition("Failed", reason="DeadlineExceeded", message="too long"))),
            Ended(EndCause.TIME_LIMIT, "DeadlineExceeded: too long"),
        ),
        (
            Facts(
                job=job(
                    condition(
                        "Failed",
                        reason="PodFailurePolicy",
                        message="Pod a has condition DisruptionTarget matching FailJob rule",
                    )
                )
            ),
            Lost(
                "PodFailurePolicy: Pod a has condition DisruptionTarget matching FailJob rule",
                Gone.TAKEN,
            ),
        ),
        (Facts(job=job(suspend=True)), Pending("its Job is suspended")),
        (
            Facts(
                job=job(suspend=True, labels=KUEUE),
                workload={
                    "status": {
                        "conditions": [condition("QuotaReserved", "False", message=NO_QUOTA)]
                    }
                },
            ),
            Pending(f"suspended by Kueue in the queue 'research': {NO_QUOTA}"),
        ),
        (
            Facts(
                job=job(suspend=True, labels=KUEUE),
                workload={"status": {"conditions": [condition("Evicted", reason="Preempted")]}},
            ),
            Lost("Kueue took its machines: Preempted", Gone.TAKEN),
        ),
    ],
)
def test_states_without_a_pod(facts: Facts, poll: Poll):
    assert polls_of(facts, ["algo-1"], NOW) == {"algo-1": poll}


def test_an_image_that_is_not_there_is_known_from_the_events_of_before():
    facts = Facts(
        job=job(), pods=[waiting("ImagePullBackOff", "Back-off")], events=[event(NOT_FOUND)]
    )
    [ended] = polls_of(facts, ["algo-1"], NOW).values()
    assert ended == Ended(EndCause.IMAGE, f"ErrImagePull: {NOT_FOUND}")


def both(first: dict[str, Any], second: dict[str, Any]) -> list[Poll]:
    second["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": "1"}
    found = polls_of(Facts(job=job(), pods=[first, second]), ["algo-1", "algo-2"], NOW)
    return [*found.values()]


def test_a_group_begins_when_all_of_it_runs():
    waits = Pending("0/3 nodes are available: 3 Insufficient cpu.")
    assert both(pod(), pod(1, "Pending", conditions=[UNSCHEDULED])) == [waits, waits]
    assert both(pod(), pod(1)) == [Running(), Running()]


def test_what_ended_one_host_for_good_is_the_end_of_the_group_once_nothing_of_it_runs():
    killed = over(137, "OOMKilled")
    first, second = both(pod(), killed)
    assert first == Running()
    assert isinstance(second, Ended)
    assert both(over(143), over(137, "OOMKilled")) == [second, second]


def test_an_image_that_one_host_cannot_have_is_the_end_of_all():
    first, second = both(pod(), waiting("ErrImagePull", NOT_FOUND))
    assert first == second == Ended(EndCause.IMAGE, f"ErrImagePull: {NOT_FOUND}")


def test_addresses_are_those_of_the_pods():
    pods = [pod(0, podIP="10.0.0.7"), pod(1, "Pending")]
    assert addresses_of(pods, ["algo-1", "algo-2"]) == {"algo-1": "10.0.0.7"}
