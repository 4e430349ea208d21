"""Bodies of requests with a presigned URL: which of them the client may choose.

A client with a presigned URL may send any body with it, unless the signer bound one by its hash.
That is right for what the URL names: an object's content, its parts, its tags. Any other document,
such as a list of objects to delete, would be written by a client without a key.
"""

import re

from trackside.api.s3.errors import s3_error
from trackside.api.s3.target import Target
from trackside.api.sigv4 import CONTENT_SHA256

SHA256 = re.compile(r"[0-9a-f]{64}")
_ABOUT_ITS_OBJECT = ("uploadid", "partnumber", "tagging", "versionid")
"""Names in the query, in lower case."""


def has_body(target: Target) -> bool:
    return "transfer-encoding" in target.headers or target.headers.get("content-length", "0") != "0"


def check_body_is_bound(target: Target) -> None:
    """AccessDenied for a body that no key has signed."""
    if "authorization" in target.headers or not has_body(target):
        return
    if SHA256.fullmatch(target.headers.get(CONTENT_SHA256, "")) or _is_for_its_object(target):
        return
    text = "With a presigned URL, this body is accepted only if its x-amz-content-sha256 is signed"
    raise s3_error("AccessDenied", f"{text}.")


def _is_for_its_object(target: Target) -> bool:
    if not target.key or target.call.request.method not in ("PUT", "POST"):
        return False
    names = (name.lower() for name in target.query)
    return all(name in _ABOUT_ITS_OBJECT or name.startswith("x-") for name in names)
