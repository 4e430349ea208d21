"""S3's errors: each code with its status and default message, and the error document."""

from collections.abc import Mapping
from xml.sax.saxutils import escape

from trackside.api.call import TOO_BUSY, Reply, ServiceError
from trackside.api.sigv4 import NotSigned, Refusal
from trackside.errors import DiskFull
from trackside.files.disk_space import is_full, is_read_only

_CODES: dict[str, tuple[int, str]] = {
    "AccessDenied": (403, "Access Denied"),
    "AuthorizationHeaderMalformed": (400, "The authorization header is malformed."),
    "AuthorizationQueryParametersError": (400, "The presigned URL is malformed."),
    "BadDigest": (400, "The checksum you specified did not match what we received."),
    "BucketAlreadyExists": (409, "The requested bucket name is not available."),
    "BucketAlreadyOwnedByYou": (409, "Your previous request to create the bucket succeeded."),
    "BucketNotEmpty": (409, "The bucket you tried to delete is not empty"),
    "EntityTooLarge": (400, "Your proposed upload exceeds the maximum allowed size"),
    "EntityTooSmall": (400, "Your proposed upload is smaller than the minimum allowed size"),
    "IllegalLocationConstraintException": (400, "The location constraint is not usable."),
    "IncompleteBody": (400, "The body ended before its announced length."),
    "InsufficientStorage": (507, "The server's disk is full."),
    "InternalError": (500, "We encountered an internal error. Try again."),
    "InvalidAccessKeyId": (403, "The AWS Access Key Id you provided does not exist in our records"),
    "InvalidArgument": (400, "Invalid Argument"),
    "InvalidBucketName": (400, "The specified bucket is not valid."),
    "InvalidDigest": (400, "The Content-MD5 you specified was invalid."),
    "InvalidLocationConstraint": (400, "The specified location-constraint is not valid"),
    "InvalidPart": (400, "One or more of the specified parts could not be found."),
    "InvalidPartOrder": (400, "The list of parts was not in ascending order."),
    "InvalidRange": (416, "The requested range is not satisfiable"),
    "InvalidRequest": (400, "Invalid Request"),
    "InvalidTag": (400, "The tag provided was not valid."),
    "KeyTooLongError": (400, "Your key is too long"),
    "MalformedTrailerError": (400, "The trailer of the body cannot be read."),
    "MalformedXML": (400, "The XML you provided was not well-formed or has wrong elements"),
    "MetadataTooLarge": (400, "Your metadata headers exceed the maximum allowed metadata size"),
    "MethodNotAllowed": (405, "The specified method is not allowed against this resource."),
    "MissingContentLength": (411, "You must provide the Content-Length HTTP header."),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchBucketPolicy": (404, "The bucket policy does not exist"),
    "NoSuchCORSConfiguration": (404, "The CORS configuration does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchLifecycleConfiguration": (404, "The lifecycle configuration does not exist"),
    "NoSuchObjectLockConfiguration": (404, "The object has no lock configuration"),
    "NoSuchPublicAccessBlockConfiguration": (404, "The configuration was not found"),
    "NoSuchTagSet": (404, "The TagSet does not exist"),
    "NoSuchUpload": (404, "The specified multipart upload does not exist."),
    "NoSuchVersion": (404, "The specified version does not exist."),
    "NoSuchWebsiteConfiguration": (404, "The bucket has no website configuration"),
    "NotImplemented": (501, "This is not offered here. docs/s3.md lists what is."),
    "ObjectLockConfigurationNotFoundError": (404, "No object lock is configured for the bucket"),
    "OperationAborted": (409, "A conflicting operation is in progress. Try again."),
    "OwnershipControlsNotFoundError": (404, "The bucket ownership controls were not found"),
    "PreconditionFailed": (412, "At least one of the pre-conditions you specified did not hold"),
    "ReplicationConfigurationNotFoundError": (404, "There is no replication configuration"),
    "RequestTimeTooSkewed": (403, "The difference between the clocks is too large."),
    "ServerSideEncryptionConfigurationNotFoundError": (404, "No encryption is configured"),
    "ServiceUnavailable": (503, "The store does not answer. Try again."),
    "SignatureDoesNotMatch": (
        403,
        "The request signature we calculated does not match the signature you provided. "
        "Check your key and signing method.",
    ),
    "XAmzContentSHA256Mismatch": (400, "The body does not have the announced SHA-256."),
}

_S3_CODES = {TOO_BUSY: "SlowDown"}
"""S3's for what the other services call otherwise."""
_REFUSALS = {
    Refusal.MISSING: "AccessDenied",
    Refusal.MALFORMED: "AuthorizationHeaderMalformed",
    Refusal.MALFORMED_ADDRESS: "AuthorizationQueryParametersError",
    Refusal.SIGNED_TWICE: "InvalidArgument",
    Refusal.UNKNOWN_KEY: "InvalidAccessKeyId",
    Refusal.UNSIGNED_HEADERS: "AccessDenied",
    Refusal.NO_PAYLOAD_HASH: "InvalidRequest",
    Refusal.MISMATCH: "SignatureDoesNotMatch",
    Refusal.SKEWED: "RequestTimeTooSkewed",
    Refusal.EXPIRED: "AccessDenied",
}
_MESSAGES = {
    Refusal.SIGNED_TWICE: "Only one auth mechanism allowed; only the X-Amz-Algorithm query "
    "parameter, Signature query string parameter or the Authorization header should be specified",
    Refusal.UNSIGNED_HEADERS: "There were headers present in the request which were not signed",
    Refusal.NO_PAYLOAD_HASH: "Missing required header for this request: x-amz-content-sha256",
    Refusal.EXPIRED: "Request has expired",
}
"""For refusals with a more specific message than their code."""


def s3_error(
    code: str, message: str = "", headers: Mapping[str, str] | None = None
) -> ServiceError:
    status, usual = _CODES[code]
    return ServiceError(code, message or usual, status, headers)


def not_signed(error: Exception) -> ServiceError:
    refusal = error.refusal if isinstance(error, NotSigned) else Refusal.MALFORMED
    code = _REFUSALS[refusal]
    usual = _MESSAGES.get(refusal, _CODES[code][1])
    return s3_error(code, f"{usual.rstrip('.')}. {error}".rstrip())


def of_the_system(error: OSError | DiskFull) -> ServiceError | None:
    """The S3 error for a disk error; None for a defect of ours."""
    if is_read_only(error) or is_read_only(error.__cause__ or error):
        text = "The server's disk is read-only; nothing was stored. Try again when it is writable."
        return s3_error("InsufficientStorage", text)
    if isinstance(error, DiskFull) or is_full(error):
        text = "The server's disk is full; nothing was stored. Free space there, then try again."
        return s3_error("InsufficientStorage", text)
    if isinstance(error, PermissionError):
        return s3_error("AccessDenied", "The server's own user may not do this in its folder.")
    if isinstance(error, NotADirectoryError):
        text = "A link or a file is in the bucket's folder where the server needs a folder."
        return s3_error("AccessDenied", f"{text} Remove it: links are not followed.")
    return None


def error_reply(error: ServiceError, request_id: str) -> Reply:
    if error.status == 304:
        return Reply(304, b"", error.headers)
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{_S3_CODES.get(error.code, error.code)}</Code>"
        f"<Message>{escape(error.message)}</Message>"
        f"<RequestId>{request_id}</RequestId><HostId>{request_id}</HostId></Error>"
    )
    headers = {"content-type": "application/xml", "x-amz-request-id": request_id}
    return Reply(error.status, body.encode("utf-8", "replace"), {**headers, **error.headers})
