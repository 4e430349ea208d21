"""Bodies that come with a presigned address: which of them its holder may choose.

Whoever has an address may send any body with it, unless its signer bound one by its hash. That is
right for what the address names: an object's content, its parts, its tags. A document about
anything else, as which objects to delete, would be written by somebody who has no key.
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
    """AccessDenied for a body that nobody with a key has seen."""
    if "authorization" in target.headers or not has_body(target):
        return
    if SHA256.fullmatch(target.headers.get(CONTENT_SHA256, "")) or _is_for_its_object(target):
        return
    text = "With a presigned address, this body is taken only if its x-amz-content-sha256 is signed"
    raise s3_error("AccessDenied", f"{text}.")


def _is_for_its_object(target: Target) -> bool:
    if not target.key or target.call.request.method not in ("PUT", "POST"):
        return False
    names = (name.lower() for name in target.query)
    return all(name in _ABOUT_ITS_OBJECT or name.startswith("x-") for name in names)
