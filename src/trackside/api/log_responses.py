"""Responses of CloudWatch Logs: groups, streams and events in its wire format, and its errors."""

from collections.abc import Sequence
from typing import Any, TypeVar

from trackside.api import tokens
from trackside.api.call import ServiceError
from trackside.api.identity import ACCOUNT
from trackside.api.json_service import OperationCall
from trackside.api.log_events import event_id
from trackside.api.log_streams import Event, EventStream
from trackside.api.validation import parsed
from trackside.jobs.index import Order

T = TypeVar("T")

CLASS = "STANDARD"
"""Of every group."""


def parsed_request(cls: type[T], call: OperationCall) -> T:
    try:
        return parsed(cls, call.params)
    except ServiceError as error:
        raise wrong(error.message) from None


def position_in(token: str, call: OperationCall, form: tokens.Form) -> Any:
    try:
        return tokens.position_in(token, call.params, form)
    except ServiceError as error:
        raise wrong(error.message) from None


def position_after(token: str, call: OperationCall, order: Order) -> tuple[Any, int]:
    try:
        return tokens.position_after(token, call.params, order)
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
    response = {
        "logStreamName": stream.name,
        "creationTime": stream.created_ms,
        "arn": f"{_group_arn(group, region)}:log-stream:{stream.name}",
        "storedBytes": 0,
    }
    if (span := stream.span_ms) is not None:
        response["firstEventTimestamp"] = span[0]
        response |= {"lastEventTimestamp": span[1], "lastIngestionTime": span[1]}
    return response


def event(time_ms: int, message: str) -> dict[str, Any]:
    return {"timestamp": time_ms, "message": message, "ingestionTime": time_ms}


def found(events: Sequence[tuple[str, Event]]) -> dict[str, Any]:
    """Each with the name of its stream."""
    response = [
        {
            "logStreamName": name,
            "eventId": event_id(each, name),
            **event(each.time_ms, each.message),
        }
        for name, each in events
    ]
    return {"events": response, "searchedLogStreams": []}


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
