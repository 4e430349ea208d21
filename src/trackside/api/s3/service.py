"""S3 over the embedded buckets: finds the operation, checks the caller's rights, and replies.

`operations` is the complete list of what is offered; `docs/s3.md` describes it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from trackside.api.budget import Budget
from trackside.api.call import Call, Reply, ServiceError
from trackside.api.keys import Rights
from trackside.api.s3.bucket_calls import ABSENT, BucketCalls
from trackside.api.s3.buckets import Buckets
from trackside.api.s3.copy_calls import CopyCalls
from trackside.api.s3.errors import error_reply, not_signed, of_the_system, s3_error
from trackside.api.s3.list_calls import ListCalls
from trackside.api.s3.listing import listing_budget
from trackside.api.s3.object_calls import ObjectCalls
from trackside.api.s3.presigned_body import check_body_is_bound
from trackside.api.s3.target import Target, read_target
from trackside.api.s3.threads import Threads
from trackside.api.s3.upload_calls import UploadCalls
from trackside.errors import DiskFull

Operation = Callable[[Target], Awaitable[Reply]]
_Row = tuple[Operation, Rights]
_Table = dict[tuple[str, str, str], _Row]
_SERVICE, _BUCKET, _OBJECT = "service", "bucket", "object"


class S3:
    """The `Service` for embedded buckets, which are the folders of `root`."""

    streams = True

    def __init__(self, root: Path, budget: Callable[[], Budget] = listing_budget) -> None:
        """`budget` is what one listing may scan."""
        self._operations = operations(Buckets(str(root)), Threads(), budget)
        self._named = {
            level: {name for _, each, name in self._operations if each == level and name}
            for level in (_SERVICE, _BUCKET, _OBJECT)
        }

    async def handle(self, call: Call) -> Reply:
        target = read_target(call)
        operation, needed = self._find(target)
        if not call.caller.rights.allow(needed):
            text = f"This key has the rights {call.caller.rights!s}; this needs {needed!s}."
            raise s3_error("AccessDenied", text)
        check_body_is_bound(target)
        try:
            reply = await operation(target)
        except (OSError, DiskFull) as error:
            named = of_the_system(error)
            if named is None:
                raise
            raise named from error
        return Reply(reply.status, reply.body, {"x-amz-request-id": call.id, **reply.headers})

    def refused(self, error: ServiceError, request_id: str) -> Reply:
        return error_reply(error, request_id)

    def not_signed(self, error: Exception) -> ServiceError:
        return not_signed(error)

    def _find(self, target: Target) -> _Row:
        level = _OBJECT if target.key else _BUCKET if target.bucket else _SERVICE
        method = target.call.request.method
        if method == "PUT" and "x-amz-copy-source" in target.headers:
            method = "COPY"
        if target.query.get("versionId", "null") != "null":
            raise s3_error("NoSuchVersion")
        name = next((each for each in target.query if each in self._named[level]), "")
        found = self._operations.get((method, level, name))
        if found is None or (not name and target.query.keys() & _NOT_OFFERED):
            raise s3_error("NotImplemented" if name or method == "POST" else "MethodNotAllowed")
        target.call.exchange.operation = f"REST.{method}.{(name or level).upper()}"
        return found


def operations(
    buckets: Buckets, threads: Threads, budget: Callable[[], Budget] = listing_budget
) -> _Table:
    """By method (a PUT with a source is a COPY), level, and the name that the query has."""
    bucket = BucketCalls(buckets, threads)
    listing = ListCalls(buckets, threads, budget)
    one = ObjectCalls(buckets, threads)
    uploads = UploadCalls(buckets, threads)
    reading: dict[tuple[str, str, str], Operation] = {
        ("GET", _SERVICE, ""): bucket.all,
        ("HEAD", _BUCKET, ""): bucket.head,
        ("GET", _BUCKET, ""): listing.objects,
        ("GET", _BUCKET, "list-type"): listing.objects_v2,
        ("GET", _BUCKET, "versions"): listing.versions,
        ("GET", _BUCKET, "uploads"): listing.uploads,
        ("GET", _BUCKET, "location"): bucket.location,
        ("GET", _BUCKET, "versioning"): bucket.versioning,
        ("GET", _BUCKET, "acl"): bucket.acl,
        ("GET", _BUCKET, "requestPayment"): bucket.payer,
        ("GET", _BUCKET, "accelerate"): bucket.nothing,
        ("GET", _BUCKET, "logging"): bucket.nothing,
        ("GET", _BUCKET, "notification"): bucket.nothing,
        **{("GET", _BUCKET, name): bucket.absent for name in ABSENT},
        ("GET", _OBJECT, ""): one.get,
        ("HEAD", _OBJECT, ""): one.head,
        ("GET", _OBJECT, "acl"): one.acl,
        ("GET", _OBJECT, "attributes"): one.attributes,
        ("GET", _OBJECT, "tagging"): one.tags,
        ("GET", _OBJECT, "uploadId"): uploads.parts,
    }
    writing: dict[tuple[str, str, str], Operation] = {
        # A job creates buckets by writing to them, so a key that may submit one may create them
        # too.
        ("PUT", _BUCKET, ""): bucket.create,
        ("POST", _BUCKET, "delete"): bucket.delete_objects,
        ("PUT", _OBJECT, ""): one.put,
        ("COPY", _OBJECT, ""): CopyCalls(buckets, threads).copy,
        ("DELETE", _OBJECT, ""): one.delete,
        ("PUT", _OBJECT, "tagging"): one.put_tags,
        ("DELETE", _OBJECT, "tagging"): one.delete_tags,
        ("PUT", _OBJECT, "acl"): bucket.put_acl,
        ("POST", _OBJECT, "uploads"): uploads.begin,
        ("PUT", _OBJECT, "uploadId"): uploads.put_part,
        ("COPY", _OBJECT, "uploadId"): uploads.copy_part,
        ("POST", _OBJECT, "uploadId"): uploads.complete,
        ("DELETE", _OBJECT, "uploadId"): uploads.abort,
    }
    governing: dict[tuple[str, str, str], Operation] = {
        ("DELETE", _BUCKET, ""): bucket.delete,
        ("PUT", _BUCKET, "acl"): bucket.put_acl,
    }
    rights = {Rights.READ: reading, Rights.SUBMIT: writing, Rights.ADMIN: governing}
    return {row: (each, needed) for needed, rows in rights.items() for row, each in rows.items()}


_NOT_OFFERED = {
    "analytics",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "metrics",
    "restore",
    "retention",
    "select",
    "torrent",
}
"""Names in a query that would change the meaning of a plain request."""
