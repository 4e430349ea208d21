"""A service that takes forms, or JSON that stands for them: CloudWatch, whose clients use either.

The operations are the same plain functions that a `JsonService` has.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from trackside.api.call import Call, Reply, ServiceError
from trackside.api.json_service import JsonService
from trackside.api.protocols import FORM_TYPE, QueryProtocol

_CONVERTED: dict[str, Callable[[str], Any]] = {
    "Period": int,
    "MaxDatapoints": int,
    "ReturnData": lambda text: text == "true",
    "IncludeLinkedAccounts": lambda text: text == "true",
    "StartTime": lambda text: _seconds(text),
    "EndTime": lambda text: _seconds(text),
    "Timestamp": lambda text: _seconds(text),
    "StorageResolution": int,
}
"""Members that are not strings, by name."""
_VALUE = re.compile(r"MetricData\.member\.\d+\.Value")
"""Unlike the values of dimensions, which are texts."""
_MOMENTS = ("Timestamp", "Timestamps")
_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_LEVELS_MOST = 16


class FormLikeJsonService(JsonService):
    """JSON 1.0, with the error codes that clients of the form protocol know."""

    content_type = "application/x-amz-json-1.0"

    def refused(self, error: ServiceError, request_id: str) -> Reply:
        kind = "Sender" if error.status < 500 else "Receiver"
        headers = {**error.headers, "x-amzn-query-error": f"{error.code};{kind}"}
        named = _EXCEPTIONS.get(error.code, error.code)
        translated = ServiceError(named, error.message, error.status, headers)
        return super().refused(translated, request_id)


_EXCEPTIONS = {
    "InvalidParameterValue": "InvalidParameterValueException",
    "InvalidParameterCombination": "InvalidParameterCombinationException",
    "InternalServiceError": "InternalServiceFault",
}
"""Names in the JSON protocol; programs check for the codes on the left."""


class FormService(QueryProtocol):
    """The same operations, with forms as requests and XML as responses."""

    def __init__(self, namespace: str, service: JsonService) -> None:
        super().__init__(namespace)
        self._service = service

    async def handle(self, call: Call) -> Reply:
        kind = call.request.headers.get("content-type", "")
        if not kind.startswith(FORM_TYPE):
            text = f"{kind!r} is not supported here. Use JSON with X-Amz-Target, or a form."
            raise ServiceError("UnsupportedProtocol", text, 415)
        name, form = self.read(call)
        form.pop("Version", None)
        given = nested(form)
        if "ExtendedStatistics" in given:
            text = "ExtendedStatistics are only offered in JSON, which boto3 now uses."
            raise ServiceError("InvalidParameterValue", text)
        response = await self._service.outcome(call, name, given)
        return self.reply(name, _with_dates(response or {}), call.id)


def nested(form: Mapping[str, str]) -> dict[str, Any]:
    """`Dimensions.member.1.Name=a` as `{"Dimensions": [{"Name": "a"}]}`."""
    tree: dict[str, Any] = {}
    for path, value in form.items():
        *parents, last = path.replace(".member.", ".").split(".")
        if len(parents) > _LEVELS_MOST:
            raise _malformed(path)
        inner = tree
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise _malformed(path)
        inner[last] = _converted(path, last, value)
    listed: dict[str, Any] = _listed(tree)
    return listed


def _converted(path: str, name: str, value: str) -> Any:
    try:
        if _VALUE.fullmatch(path):
            return float(value)
        return _CONVERTED[name](value) if name in _CONVERTED else value
    except (ValueError, OverflowError):
        raise _malformed(path) from None


def _listed(tree: Any) -> Any:
    """Objects whose names are all numbers are lists."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(_NUMBER.fullmatch(name) for name in tree):
        return [_listed(tree[name]) for name in sorted(tree, key=int)]
    return {name: _listed(inner) for name, inner in tree.items()}


def _malformed(path: str) -> ServiceError:
    return ServiceError("MalformedInput", f"The member {path[:256]!r} of the form cannot be read.")


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _with_dates(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _with_dates(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_dates(inner, name) for inner in value]
    if name in _MOMENTS:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return value
