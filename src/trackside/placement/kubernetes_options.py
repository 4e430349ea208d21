"""What a job asks of Kubernetes besides its image and resources: the options that it gives."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

NAMESPACE, QUEUE, SERVICE_ACCOUNT = "namespace", "queue", "service-account"
NODE_SELECTOR, TOLERATIONS, PRIORITY = "node-selector", "tolerations", "priority-class"
PULL_SECRET, GPU = "pull-secret", "gpu-resource"
NAMES = (
    NAMESPACE,
    QUEUE,
    SERVICE_ACCOUNT,
    NODE_SELECTOR,
    TOLERATIONS,
    PRIORITY,
    PULL_SECRET,
    GPU,
)
_USUAL_GPU = "nvidia.com/gpu"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_KEY = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_PAIR = re.compile(f"(?P<key>{_KEY})=(?P<value>{_VALUE})")
_TOLERATION = re.compile(
    f"(?P<key>{_KEY})(=(?P<value>{_VALUE}))?(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
)
_FORMS = {
    NAMESPACE: (_LABEL, "is no name of a namespace"),
    QUEUE: (_SUBDOMAIN, "is no name of a LocalQueue of Kueue"),
    SERVICE_ACCOUNT: (_SUBDOMAIN, "is no name of a ServiceAccount"),
    PRIORITY: (_SUBDOMAIN, "is no name of a PriorityClass"),
    PULL_SECRET: (_SUBDOMAIN, "is no name of a Secret"),
    GPU: (_RESOURCE, f"is no extended resource, such as {_USUAL_GPU} or amd.com/gpu"),
}


def option_words(text: str) -> tuple[str, str]:
    """`queue=team` as an option. `ValueError` for other words."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(
            f"{text!r} is no option of kubernetes; write it as NAME=VALUE, as queue=team"
        )
    return name, value


def wrong_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those that a job cannot give, each with the reason."""
    for name, value in options.items():
        if name in _FORMS:
            form, why = _FORMS[name]
            if not form.fullmatch(value):
                yield name, why
        elif name == NODE_SELECTOR:
            if not all(map(_PAIR.fullmatch, value.split(","))):
                yield name, "is no list of labels: KEY=VALUE, with commas between them"
        elif name == TOLERATIONS:
            if not all(map(_TOLERATION.fullmatch, value.split(","))):
                yield name, "is no list of tolerations: KEY[=VALUE][:EFFECT], with commas between"
        else:
            yield name, f"is no option of kubernetes; there are {', '.join(NAMES)}"


def pod_options(options: Mapping[str, str]) -> dict[str, Any]:
    """The members of a pod's spec that they are."""
    found: dict[str, Any] = {}
    if account := options.get(SERVICE_ACCOUNT):
        found["serviceAccountName"] = account
    else:  # a script that asks for nothing cannot speak with the cluster
        found["automountServiceAccountToken"] = False
    if labels := options.get(NODE_SELECTOR):
        pairs = (each.partition("=") for each in labels.split(","))
        found["nodeSelector"] = {key: value for key, _, value in pairs}
    if texts := options.get(TOLERATIONS):
        found["tolerations"] = [*map(_toleration, texts.split(","))]
    if priority := options.get(PRIORITY):
        found["priorityClassName"] = priority
    if secret := options.get(PULL_SECRET):
        found["imagePullSecrets"] = [{"name": secret}]
    return found


def gpu_resource(options: Mapping[str, str]) -> str:
    return options.get(GPU, _USUAL_GPU)


def _toleration(text: str) -> dict[str, str]:
    """As taints are written: `gpu=yes:NoSchedule`; without a value any will do."""
    match = _TOLERATION.fullmatch(text)
    assert match is not None  # `wrong_options` refuses it
    found = {"key": match["key"], "operator": "Exists" if match["value"] is None else "Equal"}
    if match["value"] is not None:
        found["value"] = match["value"]
    if match["effect"]:
        found["effect"] = match["effect"]
    return found
