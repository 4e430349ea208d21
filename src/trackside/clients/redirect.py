"""Sends what botocore would send to hosts of Amazon's to the endpoint of the environment.

SageMaker's SDKs name such a host themselves when they ask who the caller is, which outranks
AWS_ENDPOINT_URL; boto3 before 1.28 and AWS CLI before 2.13 do not know that variable at all. This
runs where there need be no Trackside, under any Python from 3.7 on.
"""

import os
import re
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_EVENT = "before-sign"
"""The last moment at which a request may change; botocore emits it for those it does not sign."""
_AMAZON = re.compile(r"(?:.*\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)")
_BUCKET = re.compile(r"(.+)\.s3[.-].*")


def register(handlers: ModuleType) -> None:
    """With `botocore.handlers`: every session made from now on calls those that it lists."""
    if (_EVENT, on_before_sign) not in handlers.BUILTIN_HANDLERS:
        handlers.BUILTIN_HANDLERS.append((_EVENT, on_before_sign))


def unregister(handlers: ModuleType) -> None:
    """Sessions that have it keep it; it does nothing without AWS_ENDPOINT_URL."""
    if (_EVENT, on_before_sign) in handlers.BUILTIN_HANDLERS:
        handlers.BUILTIN_HANDLERS.remove((_EVENT, on_before_sign))


def on_before_sign(request: Any, **_: Any) -> None:
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        request.url = redirected(request.url, endpoint)


def redirected(url: str, endpoint: str) -> str:
    """The same request at the endpoint, unless the host is not Amazon's."""
    asked, there = urlsplit(url), urlsplit(endpoint)
    host = asked.hostname or ""
    if not _AMAZON.fullmatch(host):
        return url
    bucket = _BUCKET.fullmatch(host)
    path = f"/{bucket[1]}{asked.path}" if bucket else asked.path
    whole = there.path.rstrip("/") + path
    return urlunsplit((there.scheme, there.netloc, whole, asked.query, asked.fragment))
