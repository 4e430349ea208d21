"""What a job asks of Ray: the options that it gives, and its hosts' resources in Ray's names."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trackside.placement.placement import Group, HostRequest

STRATEGY, ACCELERATOR, RESOURCE = "strategy", "accelerator", "resources."
STRATEGIES = ("STRICT_SPREAD", "SPREAD", "PACK", "STRICT_PACK")
_OURS = {"CPU": "use --cores", "GPU": "use --gpus", "memory": "use --memory"}
_NAME = re.compile(r"[A-Za-z0-9_:./-]+")
_LITTLE = 0.001
"""Of the resource that marks nodes with a kind of accelerator: enough to be placed there."""
GIB = 1 << 30

Resources = dict[str, float]


def option_words(text: str) -> tuple[str, str]:
    """`strategy=PACK` as an option. `ValueError` for other words."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is no option of ray; write it as NAME=VALUE, as strategy=PACK")
    return name, value


def wrong_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those that a job cannot give, each with the reason."""
    for name, value in options.items():
        resource = name.removeprefix(RESOURCE)
        if name == STRATEGY:
            if value not in STRATEGIES:
                yield name, f"is not known; known: {', '.join(STRATEGIES)}"
        elif name == ACCELERATOR:
            if not _NAME.fullmatch(value):
                yield name, "is no name of Ray's for a kind of accelerator, such as A100"
        elif resource == name or not _NAME.fullmatch(resource):
            known = f"{STRATEGY}, {ACCELERATOR} and {RESOURCE}NAME"
            yield name, f"is no option of ray; there are {known}"
        elif resource in _OURS:
            yield name, f"cannot be given as a resource: {_OURS[resource]}"
        elif not _is_amount(value):
            yield name, "is no amount of a resource: a number above 0"


def _is_amount(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def strategy_of(group: Group) -> str:
    """Each host on a node of its own, unless the job asks otherwise."""
    return group.options.get(STRATEGY, STRATEGIES[0])


def resources_of(host: HostRequest, options: Mapping[str, str]) -> Resources:
    """A bundle of the placement group."""
    found: Resources = {"CPU": float(host.cores)}
    if host.gpus:
        found["GPU"] = float(host.gpus)
    if host.memory_gb:
        found["memory"] = float(int(host.memory_gb * GIB))
    for name, value in options.items():
        if name == ACCELERATOR:
            found[f"accelerator_type:{value}"] = _LITTLE
        elif name.startswith(RESOURCE):
            found[name.removeprefix(RESOURCE)] = float(value)
    return found


def can_ever_fit(bundles: Sequence[Resources], nodes: Sequence[Resources], strategy: str) -> bool:
    """Whether nodes that are empty could take them. All bundles are alike."""
    asked, count = bundles[0], len(bundles)
    per_node = [_times(asked, node) for node in nodes]
    if strategy == "STRICT_SPREAD":
        return sum(each > 0 for each in per_node) >= count
    if strategy == "STRICT_PACK":
        return max(per_node, default=0) >= count
    return sum(per_node) >= count


def _times(asked: Resources, node: Resources) -> int:
    return int(min(node.get(name, 0.0) / amount for name, amount in asked.items()))


def refusal(bundles: Sequence[Resources], nodes: Sequence[Resources], strategy: str) -> str:
    return (
        f"{len(bundles)} hosts are asked for, each with {words(bundles[0])} ({strategy}); the Ray "
        f"cluster has {'; '.join(node_lines(nodes)) or 'no node'}, and no autoscaler"
    )


def node_lines(nodes: Iterable[Resources]) -> list[str]:
    """Nodes of a kind together."""
    kinds: dict[str, int] = {}
    for node in nodes:
        text = words({name: amount for name, amount in node.items() if _is_shown(name)})
        kinds[text] = kinds.get(text, 0) + 1
    return [
        f"{count} node{'s' * (count > 1)}{', each' * (count > 1)} with {text}"
        for text, count in sorted(kinds.items())
    ]


def _is_shown(name: str) -> bool:
    return not name.startswith("node:") and name != "object_store_memory"


def words(resources: Resources) -> str:
    """`4 CPU, 1 GPU, 30 GB`: Ray's names, but memory in units of 2^30 bytes."""
    order = ("CPU", "GPU", "memory")
    names = sorted(resources, key=lambda name: (name not in order, name))
    return ", ".join(_amount(name, resources[name]) for name in names)


def _amount(name: str, amount: float) -> str:
    if name == "memory":
        return f"{amount / GIB:.0f} GB" if amount >= GIB else f"{amount / GIB:.1g} GB"
    if name.startswith("accelerator_type:"):
        return name.partition(":")[2]
    return f"{amount:g} {name}"
