"""A service with a JSON protocol: its operations, the rights they need, and where they run.

An operation is a plain function; it may block, so it never runs on the event loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trackside.api.call import Call, Reply, ServiceError
from trackside.api.fair_pool import ThreadPools
from trackside.api.identity import ACCOUNT, ROLE, unknown_operation
from trackside.api.keys import AccessKey, Rights
from trackside.api.protocols import JsonProtocol
from trackside.errors import ERROR_HEADER, DatabaseError, TracksideError

_RETRY_SECONDS = 2

Response = Mapping[str, Any] | None
"""None for an operation without output."""


@dataclass(frozen=True, slots=True)
class OperationCall:
    """A caller's request for an operation."""

    params: Mapping[str, Any]
    region: str
    caller: AccessKey
    action: str
    """Such as `sagemaker:StopTrainingJob`."""


@dataclass(frozen=True, slots=True)
class Operation:
    needs: Rights
    run: Callable[[OperationCall], Response]
    is_heavy: bool = False
    """Whether it scans so much that other calls must not wait for it."""


class JsonService(JsonProtocol):
    def __init__(
        self,
        name: str,
        operations: Mapping[str, Operation],
        service_error: Callable[[TracksideError], ServiceError],
        pools: ThreadPools | None = None,
    ) -> None:
        """`pools` are those of a whole server; without them the service has its own."""
        self._name = name
        self.operations = operations
        self._service_error = service_error
        """Translates our errors to codes of the service."""
        self._pools = pools or ThreadPools()

    async def handle(self, call: Call) -> Reply:
        name, params = self.read(call)
        return self.reply(await self.outcome(call, name, params))

    async def outcome(self, call: Call, name: str, params: Mapping[str, Any]) -> Response:
        """The operation's response; `ServiceError` when it is unknown or fails."""
        operation = self._permitted(name, call.caller)
        call.exchange.operation = name
        try:
            operation_call = OperationCall(params, call.region, call.caller, f"{self._name}:{name}")
            pool = self._pools.heavy if operation.is_heavy else self._pools.quick
            return await pool.run(partial(operation.run, operation_call))
        except DatabaseError as error:
            raise _unavailable() from error
        except TracksideError as error:
            found = self._service_error(error)
            # For our own client, which raises the same error again.
            headers = {**found.headers, ERROR_HEADER: error.code}
            raise ServiceError(found.code, found.message, found.status, headers) from error

    def _permitted(self, name: str, caller: AccessKey) -> Operation:
        operation = self.operations.get(name)
        if operation is None:
            raise unknown_operation(self._name, name, list(self.operations))
        if not caller.rights.allow(operation.needs):
            why = f"Its key may {caller.rights}; this needs a key that may {operation.needs}."
            raise denied(f"{self._name}:{name}", caller, why)
        return operation


def denied(action: str, caller: AccessKey, why: str) -> ServiceError:
    who = f"arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE}/{caller.id}"
    text = f"User: {who} is not authorized to perform: {action}. {why}"
    return ServiceError("AccessDeniedException", text)


def _unavailable() -> ServiceError:
    """Nothing was stored, so clients can retry, as all of them do."""
    return ServiceError(
        "ServiceUnavailable",
        "The database of this server does not answer. Jobs continue; try again in a moment.",
        503,
        {"retry-after": str(_RETRY_SECONDS)},
    )
