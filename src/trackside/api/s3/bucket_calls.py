"""The operations on buckets: list, create, delete, configuration, deletion of many objects."""

from trackside.api.call import Reply, ServiceError
from trackside.api.s3.bucket import Bucket
from trackside.api.s3.buckets import REGION, Buckets
from trackside.api.s3.documents import (
    Node,
    document,
    iso_time,
    owner,
    read_document,
    whole_body,
)
from trackside.api.s3.errors import s3_error
from trackside.api.s3.object_calls import owners_acl
from trackside.api.s3.required_rights import OWNERS_OWN
from trackside.api.s3.target import Target
from trackside.api.s3.threads import Threads

_PAGE = 1000


class BucketCalls:
    def __init__(self, buckets: Buckets, threads: Threads) -> None:
        self._buckets = buckets
        self._threads = threads

    async def all(self, target: Target) -> Reply:
        most = target.number("max-buckets", 10_000, 10_000)
        after, prefix = target.query.get("continuation-token", ""), target.query.get("prefix", "")
        found = await self._threads.scan(self._buckets.all)
        wanted = [each for each in found if each.name > after and each.name.startswith(prefix)]
        shown: list[Node] = [
            ("Bucket", [("Name", each.name), ("CreationDate", iso_time(each.created))])
            for each in wanted[:most]
        ]
        token = wanted[most - 1].name if len(wanted) > most else None
        return document(
            "ListAllMyBucketsResult",
            [("Owner", owner()), ("Buckets", shown), ("ContinuationToken", token)],
        )

    async def create(self, target: Target) -> Reply:
        data = await whole_body(target)
        region = target.call.region
        if data.strip():
            given = await self._threads.run(read_document, data, "CreateBucketConfiguration")
            region = given.text("LocationConstraint") or region
        if not REGION.fullmatch(region):
            raise s3_error("InvalidLocationConstraint", f"{region!r} is not the name of a region.")
        try:
            await self._threads.run(self._buckets.create, target.bucket, region)
        except ServiceError as error:
            # Only in its oldest region S3 accepts the same creation twice.
            if error.code != "BucketAlreadyOwnedByYou" or region != "us-east-1":
                raise
        return Reply(200, b"", {"location": f"/{target.bucket}"})

    async def head(self, target: Target) -> Reply:
        self._buckets.get(target.bucket)
        region = self._buckets.region(target.bucket) or target.call.region
        return Reply(200, b"", {"x-amz-bucket-region": region})

    async def delete(self, target: Target) -> Reply:
        await self._threads.run(self._buckets.delete, target.bucket)
        return Reply(204)

    async def location(self, target: Target) -> Reply:
        self._buckets.get(target.bucket)
        region = self._buckets.region(target.bucket) or target.call.region
        return document("LocationConstraint", "" if region == "us-east-1" else region)

    async def versioning(self, target: Target) -> Reply:
        self._buckets.get(target.bucket)
        return document("VersioningConfiguration", [])

    async def acl(self, target: Target) -> Reply:
        self._buckets.get(target.bucket)
        return owners_acl()

    async def put_acl(self, target: Target) -> Reply:
        """Only the default; access cannot be opened to others."""
        self._buckets.get(target.bucket)
        if target.headers.get("x-amz-acl") not in OWNERS_OWN:
            raise s3_error("NotImplemented", "Access is a matter of access keys here, not of ACLs.")
        return Reply(200)

    async def payer(self, target: Target) -> Reply:
        self._buckets.get(target.bucket)
        return document("RequestPaymentConfiguration", [("Payer", "BucketOwner")])

    async def nothing(self, target: Target) -> Reply:
        """Logging, notifications, acceleration: an empty document means none."""
        self._buckets.get(target.bucket)
        return document(_EMPTY[next(name for name in _EMPTY if name in target.query)], [])

    async def absent(self, target: Target) -> Reply:
        """Configurations that have a document of their own, and do not exist."""
        self._buckets.get(target.bucket)
        raise s3_error(ABSENT[next(name for name in ABSENT if name in target.query)])

    async def delete_objects(self, target: Target) -> Reply:
        bucket = self._buckets.get(target.bucket)
        given = await self._threads.run(read_document, await whole_body(target), "Delete")
        objects = given.all("Object")
        if not 1 <= len(objects) <= _PAGE:
            raise s3_error("MalformedXML", f"{len(objects)} keys; 1 to {_PAGE} are allowed.")
        named = [(each.text("Key") or "", each.text("VersionId") or "null") for each in objects]
        done = await self._threads.run(_deleted, bucket, named)
        quiet = (given.text("Quiet") or "").lower() == "true"
        return document("DeleteResult", [n for n in done if not quiet or n[0] == "Error"])


_EMPTY = {
    "accelerate": "AccelerateConfiguration",
    "logging": "BucketLoggingStatus",
    "notification": "NotificationConfiguration",
}
ABSENT = {
    "cors": "NoSuchCORSConfiguration",
    "encryption": "ServerSideEncryptionConfigurationNotFoundError",
    "lifecycle": "NoSuchLifecycleConfiguration",
    "object-lock": "ObjectLockConfigurationNotFoundError",
    "ownershipControls": "OwnershipControlsNotFoundError",
    "policy": "NoSuchBucketPolicy",
    "policyStatus": "NoSuchBucketPolicy",
    "publicAccessBlock": "NoSuchPublicAccessBlockConfiguration",
    "replication": "ReplicationConfigurationNotFoundError",
    "tagging": "NoSuchTagSet",
    "website": "NoSuchWebsiteConfiguration",
}
"""Configurations that a bucket never has, by the name in the query."""


def _deleted(bucket: Bucket, named: list[tuple[str, str]]) -> list[Node]:
    nodes: list[Node] = []
    for key, version in named:
        if not key or version != "null":
            wrong = "NoSuchVersion" if key else "MalformedXML"
            nodes.append(("Error", [("Key", key), ("Code", wrong), ("Message", wrong)]))
            continue
        try:
            bucket.delete(key)
        except OSError as error:
            text = error.strerror or "InternalError"
            nodes.append(("Error", [("Key", key), ("Code", "InternalError"), ("Message", text)]))
        else:
            nodes.append(("Deleted", [("Key", key)]))
    return nodes
