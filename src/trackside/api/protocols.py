"""The protocols of AWS services: JSON 1.1 with a target header, and forms with XML responses.

Each turns a request into an operation with its input, and a response or an error into bytes.
"""

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from trackside.api.bounded_json import read_object
from trackside.api.call import BODY_MOST_BYTES, Call, Reply, ServiceError
from trackside.api.sigv4 import NotSigned, Refusal
from trackside.sigv4 import Request, pairs_of

FORM_TYPE = "application/x-www-form-urlencoded"
_XML_SERVICES = ("cloudfront", "route53", "s3")
"""Prefixes of services with plain GET requests and XML responses; most others with such requests
respond in JSON."""
_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_GZIP = 16 + zlib.MAX_WBITS
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. "
    "Check your AWS Secret Access Key and signing method."
)
_UNKNOWN = "The security token included in the request is invalid."
_TWICE = "A request is signed in the Authorization header or in its URL, not in both."
_UNSIGNED_HEADERS = "There were headers present in the request which were not signed."


class JsonProtocol:
    """JSON 1.1: sagemaker, logs."""

    streams = False
    content_type = "application/x-amz-json-1.1"
    _CODES = {
        Refusal.MISSING: ("MissingAuthenticationTokenException", "Missing Authentication Token."),
        Refusal.MALFORMED: ("IncompleteSignatureException", ""),
        Refusal.MALFORMED_ADDRESS: ("IncompleteSignatureException", ""),
        Refusal.SIGNED_TWICE: ("IncompleteSignatureException", _TWICE),
        Refusal.UNSIGNED_HEADERS: ("InvalidSignatureException", _UNSIGNED_HEADERS),
        Refusal.UNKNOWN_KEY: ("UnrecognizedClientException", _UNKNOWN),
        Refusal.MISMATCH: ("InvalidSignatureException", _MISMATCH),
        Refusal.SKEWED: ("InvalidSignatureException", "Signature expired:"),
        Refusal.EXPIRED: ("InvalidSignatureException", "Signature expired:"),
    }

    def read(self, call: Call) -> tuple[str, dict[str, Any]]:
        """The operation and its input."""
        operation = call.request.headers.get("x-amz-target", "").partition(".")[2]
        try:
            return operation, read_object(_plain(call) or b"{}")
        except ValueError as error:
            raise ServiceError(
                "SerializationException", f"The body is not JSON: {error}."
            ) from None

    def reply(self, response: Mapping[str, Any] | None) -> Reply:
        """None: an operation without output."""
        body = b"" if response is None else json.dumps(response, separators=(",", ":")).encode()
        return Reply(200, body, {"content-type": self.content_type})

    def refused(self, error: ServiceError, request_id: str) -> Reply:
        body = json.dumps({"__type": error.code, "message": error.message}).encode()
        headers = {"content-type": self.content_type, **error.headers}
        return Reply(error.status, body, headers)

    def not_signed(self, error: Exception) -> ServiceError:
        return _signature_error(error, self._CODES, 400)


class QueryProtocol:
    """Forms in, XML out: sts, iam."""

    streams = False
    _CODES = {
        Refusal.MISSING: ("MissingAuthenticationToken", "Request is missing Authentication Token."),
        Refusal.MALFORMED: ("IncompleteSignature", ""),
        Refusal.MALFORMED_ADDRESS: ("IncompleteSignature", ""),
        Refusal.SIGNED_TWICE: ("IncompleteSignature", _TWICE),
        Refusal.UNSIGNED_HEADERS: ("SignatureDoesNotMatch", _UNSIGNED_HEADERS),
        Refusal.UNKNOWN_KEY: ("InvalidClientTokenId", _UNKNOWN),
        Refusal.MISMATCH: ("SignatureDoesNotMatch", _MISMATCH),
        Refusal.SKEWED: ("SignatureDoesNotMatch", "Signature expired:"),
        Refusal.EXPIRED: ("SignatureDoesNotMatch", "Signature expired:"),
    }

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def read(self, call: Call) -> tuple[str, dict[str, str]]:
        text = _plain(call).decode("utf-8", "replace") or call.request.query
        given = dict(parse_qsl(text, keep_blank_values=True))
        return given.pop("Action", ""), given

    def reply(self, operation: str, response: Mapping[str, Any], request_id: str) -> Reply:
        result = f"<{operation}Result>{_xml(response)}</{operation}Result>"
        metadata = f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
        body = (
            f'<{operation}Response xmlns="{self._namespace}">{result}{metadata}'
            f"</{operation}Response>"
        )
        return Reply(200, body.encode(), {"content-type": "text/xml"})

    def refused(self, error: ServiceError, request_id: str) -> Reply:
        kind = "Sender" if error.status < 500 else "Receiver"
        fields = {"Type": kind, "Code": error.code, "Message": error.message}
        body = (
            f"<ErrorResponse><Error>{_xml(fields)}</Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return Reply(error.status, body.encode(), {"content-type": "text/xml", **error.headers})

    def not_signed(self, error: Exception) -> ServiceError:
        return _signature_error(error, self._CODES, 403)


def not_offered(request: Request, name: str, offered: Iterable[str], request_id: str) -> Reply:
    """The error for a service that is not offered, in the protocol of its clients."""
    code = "UnknownOperationException"
    text = f"The service {name!r} is not offered here. Offered: {', '.join(offered)}."
    error = ServiceError(code, text, 404, {"x-amzn-errortype": code})
    if "smithy-protocol" in request.headers:  # CBOR; an empty body is an error without a text
        return Reply(error.status, b"", error.headers)
    form = QueryProtocol("") if _reads_xml(request, name) else JsonProtocol()
    return form.refused(error, request_id)


def _reads_xml(request: Request, service: str) -> bool:
    kind = request.headers.get("content-type", "")
    if "x-amz-target" in request.headers or "json" in kind:
        return False
    is_form = kind.startswith(FORM_TYPE) or "Action" in dict(pairs_of(request.query))
    return is_form or "xml" in kind or service.startswith(_XML_SERVICES)


def _plain(call: Call) -> bytes:
    """The body; botocore compresses large ones for some operations."""
    coding = call.request.headers.get("content-encoding", "")
    if coding != "gzip":
        return call.body
    unpacker = zlib.decompressobj(wbits=_GZIP)
    try:
        body = unpacker.decompress(call.body, BODY_MOST_BYTES)
    except zlib.error as error:
        raise ServiceError(
            "SerializationException", f"The body is not gzip data: {error}."
        ) from None
    if not unpacker.eof:
        text = f"More than {BODY_MOST_BYTES} bytes, or not all of them."
        raise ServiceError("RequestEntityTooLarge", text, 413)
    return body


def numbered(given: Mapping[str, str], name: str) -> list[str]:
    """A list of a form: `ActionNames.member.1=…`."""
    found: list[str] = []
    while (value := given.get(f"{name}.member.{len(found) + 1}")) is not None:
        found.append(value)
    return found


def _signature_error(
    error: Exception, codes: Mapping[Refusal, tuple[str, str]], status: int
) -> ServiceError:
    refusal = error.refusal if isinstance(error, NotSigned) else Refusal.MALFORMED
    code, text = codes.get(refusal, codes[Refusal.MALFORMED])
    return ServiceError(code, f"{text} {error}".strip(), status)


def _xml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{name}>{_xml(inner)}</{name}>" for name, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "".join(f"<member>{_xml(inner)}</member>" for inner in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", str(value)))
