"""One line per request: the caller, the operation and the outcome.

The query of a URL and the credentials that clients send are never in it: both may hold signatures
and secrets.
"""

import logging

from trackside.api.call import Exchange
from trackside.sigv4 import Request

logger = logging.getLogger("trackside.access")

_LONGEST = 256
_LOGIN = "/ui/login/"


def log_request(request: Request, request_id: str, exchange: Exchange, peer: str) -> None:
    """As text, and structured under `request` for formatters."""
    if not logger.isEnabledFor(logging.INFO):
        return
    fields = {
        "request_id": request_id,
        "key": exchange.key_id,
        "peer": peer,
        "method": request.method,
        "path": _shown(request.path),
        "service": exchange.service,
        "operation": exchange.operation or _target(request),
        "status": exchange.status,
        "ms": round(exchange.seconds * 1000, 1),
        "bytes_in": exchange.bytes_in,
        "bytes_out": exchange.bytes_out,
    }
    logger.info(
        "%s %s %s %d %.1f ms in=%d out=%d key=%s peer=%s id=%s",
        fields["method"],
        fields["path"],
        fields["operation"] or "-",
        fields["status"],
        fields["ms"],
        fields["bytes_in"],
        fields["bytes_out"],
        fields["key"] or "-",
        peer,
        request_id,
        extra={"request": fields},
    )


def _shown(path: str) -> str:
    """Without the secret of a login link, which may not have been used up."""
    before, login, _ = path.partition(_LOGIN)
    return f"{before}{login}***" if login else path[:_LONGEST]


def _target(request: Request) -> str:
    """The operation that a rejected request names itself."""
    return request.headers.get("x-amz-target", "")[:_LONGEST]
