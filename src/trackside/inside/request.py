"""Turns the arguments of `init` into one validated job: configuration, tags, command."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

from trackside.inside.values import shown
from trackside.records.spec import ATTACHED, JobSpec
from trackside.sdk.rule import AnyRule, Rule, built_in
from trackside.texts.truncation import shortened

MOST_PARAMETERS, MOST_NAME, MOST_VALUE = 100, 256, 2500
"""Limits on a job's hyperparameters."""
GRACE_SECONDS = 30
"""How long a run may take to stop before it counts as over; its process continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitArguments:
    """The arguments of `init`; `TypeError` or `ValueError` if invalid."""

    project: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    rules: Sequence[Rule] | None = None
    """None: the built-in check-up."""

    @classmethod
    def of(cls, project: Any, config: Any, tags: Any, rules: Any) -> "InitArguments":
        if project is not None and not isinstance(project, str):
            raise TypeError(
                f"project={shown(project)} is not a string. Give a name, such as 'mnist'."
            )
        if tags is not None and not isinstance(tags, Mapping):
            raise TypeError(
                f"tags={shown(tags)} is not a mapping. Give names and values: {{'a': 'b'}}."
            )
        labels = {"project": project} if project else {}
        labels |= {str(key): str(value) for key, value in (tags or {}).items()}
        return cls(
            project=project or "",
            config=as_mapping(config),
            tags=labels,
            rules=None if rules is None else [*map(_rule, rules)],
        )


def as_mapping(config: Any) -> Mapping[str, Any]:
    """From a mapping, argparse's result, or a dataclass."""
    if config is None:
        return {}
    if isinstance(config, Namespace):
        return vars(config)
    if is_dataclass(config) and not isinstance(config, type):
        return asdict(config)
    if isinstance(config, Mapping):
        return config
    raise TypeError(
        f"config={shown(config)} is not a mapping. Give a dict, argparse's result or a dataclass."
    )


def make_spec(
    name: str, given: InitArguments, output: str, notify: Callable[[str], None]
) -> JobSpec:
    """`notify` gets a message if the configuration is cut. `InvalidSpec` for other problems."""
    request: dict[str, Any] = {
        "TrainingJobName": name,
        "OutputDataConfig": {"S3OutputPath": output},
        "HyperParameters": hyperparameters(given.config, notify),
        "Tags": [{"Key": key, "Value": value} for key, value in given.tags.items()],
        "Trackside": {
            "Sandbox": ATTACHED,
            "Command": sys.orig_argv,
            "GraceSeconds": GRACE_SECONDS,
        },
    }
    return JobSpec.from_request(request)


def hyperparameters(config: Mapping[str, Any], notify: Callable[[str], None]) -> dict[str, str]:
    """`{"model": {"width": 8}}` is `model.width`, as on command lines."""
    found = dict(_flattened(config))
    if len(found) > MOST_PARAMETERS:
        notify(f"of {len(found)} values of config, the first {MOST_PARAMETERS} are kept")
    fitting: dict[str, str] = {}
    for name, value in [*found.items()][:MOST_PARAMETERS]:
        if len(name) > MOST_NAME or len(value) > MOST_VALUE:
            notify(f"config[{shortened(name, 60)!r}] is kept cut to {MOST_VALUE} characters")
        fitting[shortened(name, MOST_NAME)] = shortened(value, MOST_VALUE)
    return fitting


def _flattened(config: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        name = f"{prefix}{key}".replace("=", "-").replace("\0", "")
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{name}.")
        else:
            yield name, value if isinstance(value, str) else _as_text(value)


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):  # keys that are not strings; a cycle
        return shown(value)


def _rule(given: Any) -> Rule:
    if isinstance(given, str):
        return built_in(given)
    if isinstance(given, Rule):
        return given
    what = "watches the machine of a job" if isinstance(given, AnyRule) else "is no rule"
    raise TypeError(
        f"rules has {shown(given)}, which {what}. Give Rule objects, or names of tensor rules as "
        "`trackside rules` lists them."
    )
