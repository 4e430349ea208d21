"""A rule's actions, as the user configures them; the evaluator runs them.

The first three and their wire format are SageMaker's; the others are our own.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import fields

from trackside.quick_dataclass import dataclass

_PREFIX = r"[A-Za-z0-9-]+"
_ADDRESS = r"[^@\s]+@[^@\s]+\.[^@\s.]+"
_PHONE = r"\+\d{1,15}"
_WEB = r"https?://\S+"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


@dataclass(frozen=True, slots=True)
class StopTraining:
    """Stop this job or, with a prefix, the one running job whose name starts with it."""

    training_job_prefix: str | None = None

    def __post_init__(self) -> None:
        if self.training_job_prefix is not None:
            _check(self, "training_job_prefix", _PREFIX, "letters, digits and dashes")


@dataclass(frozen=True, slots=True)
class Email:
    email_address: str

    def __post_init__(self) -> None:
        _check(self, "email_address", _ADDRESS, "an address such as name@example.com")


@dataclass(frozen=True, slots=True)
class SMS:
    phone_number: str

    def __post_init__(self) -> None:
        _check(self, "phone_number", _PHONE, "a number in E.164 form, such as +4930123456")


@dataclass(frozen=True, slots=True)
class Webhook:
    """POST the finding as JSON to this address, or to the one in the settings.

    Calls to this address are signed with the variable of the job's environment that
    `secret_variable` names, and unsigned without one.
    """

    url: str | None = None
    secret_variable: str | None = None

    def __post_init__(self) -> None:
        if self.url is not None:
            _check(self, "url", _WEB, "an http:// or https:// address")
        if self.secret_variable is not None:
            _check(self, "secret_variable", _VARIABLE, "the name of a variable")


@dataclass(frozen=True, slots=True)
class Command:
    """Run a shell command on this machine, with the finding as JSON on standard input."""

    command: str

    def __post_init__(self) -> None:
        _check(self, "command", r"(?s).*\S.*", "a command of the shell")


@dataclass(frozen=True, slots=True)
class SaveFlightRecorder:
    """Have the hook write the last steps that it holds in memory."""


Action = StopTraining | Email | SMS | Webhook | Command | SaveFlightRecorder


class ActionList:
    """Several actions of one rule; one alone needs no list."""

    def __init__(self, *actions: Action) -> None:
        for action in actions:
            if not isinstance(action, Action):
                raise TypeError(f"{action!r} is no action. Known: {', '.join(_KNOWN)}.")
        self.actions = actions

    def __repr__(self) -> str:
        return f"ActionList{self.actions!r}"


Actions = Action | ActionList | Sequence[Action]


def as_list(actions: Actions | None) -> ActionList | None:
    """As a list, whichever form was given; None when there is nothing to do."""
    if actions is None or isinstance(actions, ActionList):
        return actions
    return ActionList(*(actions if isinstance(actions, list | tuple) else (actions,)))


def action_json(actions: ActionList, job_name: str) -> str:
    """As SageMaker's SDK writes it: JSON with a backslash before every quote."""
    written = json.dumps([_record(action, job_name) for action in actions.actions])
    return written.replace('"', '\\"')


_KNOWN = tuple(each.__name__ for each in Action.__args__)
_ENDPOINTS = ("email_address", "phone_number")


def _record(action: Action, job_name: str) -> dict[str, str]:
    record = {"name": type(action).__name__.lower()}
    for field in fields(action):
        value = getattr(action, field.name)
        if field.name == "training_job_prefix":
            value = value or job_name
        record["endpoint" if field.name in _ENDPOINTS else field.name] = value
    return {key: value for key, value in record.items() if value is not None}


def _check(action: Action, name: str, pattern: str, says: str) -> None:
    value = getattr(action, name)
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        kind = type(action).__name__
        raise ValueError(f"{kind}({name}={value!r}): {name} must be {says}.")
