"""The rights that a request to another store needs: as for embedded buckets, and more to create
buckets, to open a store to others or to change its rules.
"""

import posixpath
from collections.abc import Mapping

from trackside.api.keys import Rights
from trackside.api.s3.target import Target, decoded, split_path

_READING = ("GET", "HEAD")
_GOVERNING = {"acl", "legal-hold", "retention", "torrent"}
"""Queries for more of an object than its content."""
OWNERS_OWN = ("private", "bucket-owner-full-control", "bucket-owner-read")
"""Canned ACLs that give no access to others."""
_SETTING_RULES = ("x-amz-bypass-governance-", "x-amz-grant-", "x-amz-object-lock-")


def needed_rights(target: Target) -> Rights:
    method = target.call.request.method
    if method in _READING:
        return Rights.READ
    if not target.key and not (method == "POST" and "delete" in target.query):
        return Rights.ADMIN
    if _may_be_another_path(target):
        return Rights.ADMIN
    # What a signer put into the URL counts as a header; a store may obey either.
    in_address = {name.lower(): value for name, value in target.query.items()}
    if in_address.keys() & _GOVERNING:
        return Rights.ADMIN
    if _opens_to_others(target.headers) or _opens_to_others(in_address):
        return Rights.ADMIN
    return Rights.SUBMIT


def _may_be_another_path(target: Target) -> bool:
    """Stores, and proxies before them, resolve empty and dotted names or do not: `//b`, `/./b` and
    `/x/../b` are objects to us, and may be the bucket 'b' to them."""
    path = decoded(target.call.request.path).replace("\\", "/")
    bucket, _, key = split_path(posixpath.normpath("/" + path.lstrip("/")))
    return bucket != target.bucket or bool(key) != bool(target.key)


def _opens_to_others(given: Mapping[str, str]) -> bool:
    if given.get("x-amz-acl", "private") not in OWNERS_OWN:
        return True
    return any(name.startswith(_SETTING_RULES) for name in given)
