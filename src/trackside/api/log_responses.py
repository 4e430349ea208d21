"""What CloudWatch Logs answers: groups, streams and events in the form of its wire, and its no."""

from collections.abc import Sequence
from typing import Any, TypeVar

from trackside.api import tokens
from trackside.api.call import ServiceError
from trackside.api.identity import ACCOUNT
from trackside.api.json_service import Ask
from trackside.api.log_events import event_id
from trackside.api.log_streams import Event, EventStream
from trackside.api.validation import parsed
from trackside.jobs.index import Order

T = TypeVar("T")

CLASS = "STANDARD"
"""Of every group."""


def asked_for(cls: type[T], ask: Ask) -> T:
    try:
        return parsed(cls, ask.given)
    except ServiceError as error:
        raise wrong(error.message) from None


def place_in(token: str, ask: Ask, form: tokens.Form) -> Any:
    try:
        return tokens.place_of(token, ask.given, form)
    except ServiceError as error:
        raise wrong(error.message) from None


def place_between(token: str, ask: Ask, order: Order) -> tuple[Any, int]:
    try:
        return tokens.place_after(token, ask.given, order)
    except ServiceError as error:
        raise wrong(error.message) from None


def group(name: str, created_ms: int, region: str) -> dict[str, Any]:
    arn = _group_arn(name, region)
    return {
        "logGroupName": name,
        "creationTime": created_ms,
        "metricFilterCount": 0,
        "arn": f"{arn}:*",
        "logGroupArn": arn,
        "storedBytes": 0,
        "logGroupClass": CLASS,
    }


def stream(stream: EventStream, group: str, region: str) -> dict[str, Any]:
    told = {
        "logStreamName": stream.name,
        "creationTime": stream.created_ms,
        "arn": f"{_group_arn(group, region)}:log-stream:{stream.name}",
        "storedBytes": 0,
    }
    if (span := stream.span_ms) is not None:
        told["firstEventTimestamp"] = span[0]
        told |= {"lastEventTimestamp": span[1], "lastIngestionTime": span[1]}
    return told


def event(time_ms: int, message: str) -> dict[str, Any]:
    return {"timestamp": time_ms, "message": message, "ingestionTime": time_ms}


def found(events: Sequence[tuple[str, Event]]) -> dict[str, Any]:
    """Each with the name of its stream."""
    told = [
        {
            "logStreamName": name,
            "eventId": event_id(each, name),
            **event(each.time_ms, each.message),
        }
        for name, each in events
    ]
    return {"events": told, "searchedLogStreams": []}


def wrong(text: str) -> ServiceError:
    return ServiceError("InvalidParameterException", text)


def no_group() -> ServiceError:
    return ServiceError("ResourceNotFoundException", "The specified log group does not exist.")


def no_stream() -> ServiceError:
    return ServiceError("ResourceNotFoundException", "The specified log stream does not exist.")


def taken(what: str) -> ServiceError:
    text = f"The specified log {what} already exists"
    return ServiceError("ResourceAlreadyExistsException", text)


def _group_arn(name: str, region: str) -> str:
    return f"arn:aws:logs:{region}:{ACCOUNT}:log-group:{name}"
