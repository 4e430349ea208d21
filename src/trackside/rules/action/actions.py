"""Parses a rule's actions from `action_json`, in every spelling in use.

`action_taker.py` decides when to take them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.rules.parameters import parse_bool

_ADDRESS = re.compile(r"[^@\s,;<>]+@[^@\s,;<>]+")
_FORM = """write a list such as [{"name": "stoptraining"}, {"name": "email", "endpoint": "a@b"}]"""


@dataclass(frozen=True, slots=True)
class StopTraining:
    prefix: str = ""
    """Prefix of the name of the job to stop; the rule's own job if it matches, or if empty."""

    @property
    def key(self) -> str:
        return "stoptraining"


@dataclass(frozen=True, slots=True)
class Email:
    address: str

    @property
    def key(self) -> str:
        return f"email {self.address}"


@dataclass(frozen=True, slots=True)
class Command:
    command: str

    @property
    def key(self) -> str:
        return f"command {self.command}"


@dataclass(frozen=True, slots=True)
class SaveFlightRecorder:
    @property
    def key(self) -> str:
        return "save_flight_recorder"


@dataclass(frozen=True, slots=True)
class Notify:
    """Every other action, text messages included: the webhook's receiver handles it."""

    name: str
    details: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""
    """The address; the one in the settings if not given."""
    secret_variable: str = ""
    """The variable of the job's environment with the secret that signs calls to `url`."""

    @property
    def key(self) -> str:
        return f"{self.name} {self.url or self.details.get('endpoint', '')}".strip()


Action = StopTraining | Email | Command | SaveFlightRecorder | Notify


def actions_of(parameters: Mapping[str, str]) -> tuple[Action, ...]:
    """Actions in a rule's parameters. `ValueError` says what is wrong and how to fix it."""
    actions = list(parse_actions(parameters.get("action_json") or ""))
    if parse_bool(parameters.get("stop_training_on_fire") or None):
        # A parameter of StalledTrainingRule that predates actions.
        actions.append(StopTraining(_plain(parameters.get("training_job_name_prefix"))))
    return tuple(dict.fromkeys(actions))


def parse_actions(text: str) -> tuple[Action, ...]:
    """The SDK escapes its quotes, which makes it invalid JSON; a single action needs no list."""
    if _plain(text) == "":
        return ()
    try:
        given = json.loads(text)
    except ValueError:
        try:
            given = json.loads(text.replace('\\"', '"'))
        except ValueError as error:
            raise ValueError(f"action_json = {text!r} is not JSON ({error}): {_FORM}.") from None
    return tuple(_action(each) for each in (given if isinstance(given, list) else [given]))


def _action(given: Any) -> Action:
    if not isinstance(given, dict) or not isinstance(given.get(_key(given, "name")), str):
        raise ValueError(f"action_json has {given!r}, an action without a name: {_FORM}.")
    members = {key.lower(): value for key, value in given.items()}
    name = members.pop("name").strip().lower()
    match name:
        case "stoptraining" | "stop_training":
            return StopTraining(_plain(members.get("training_job_prefix")))
        case "email":
            return Email(_address(members.get("endpoint")))
        case "command":
            return Command(_command(members.get("command")))
        case "save_flight_recorder" | "saveflightrecorder":
            return SaveFlightRecorder()
        case _:
            url = members.pop("url", None)
            secret = _plain(members.pop("secret_variable", None))
            return Notify(name, _Frozen(members), "" if url is None else _web_address(url), secret)


def _key(given: Mapping[str, Any], name: str) -> str:
    return next((key for key in given if key.lower() == name), name)


def _address(value: Any) -> str:
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value.strip()):
        raise ValueError(f"The action email has endpoint {value!r}, which is not a mail address.")
    return value.strip()


def _web_address(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/]+\S*", value):
        raise ValueError(f"The url {value!r} of an action is not an http:// or https:// address.")
    return value


def _command(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"The action command has command {value!r}. Give a shell command.")
    return value


def _plain(value: Any) -> str:
    return "" if value in (None, "None", "null") else str(value).strip()


class _Frozen(dict[str, Any]):
    """Fields as received, hashable so that actions can be compared."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(json.dumps(self, sort_keys=True))
