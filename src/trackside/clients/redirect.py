"""Redirects botocore's requests for Amazon's hosts to AWS_ENDPOINT_URL.

SageMaker's SDKs pass an explicit host for GetCallerIdentity, which overrides AWS_ENDPOINT_URL;
boto3 before 1.28 and AWS CLI before 2.13 do not support that variable. This module also runs in
interpreters without Trackside, with any Python from 3.7.
"""

import os
import re
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_EVENT = "before-sign"
"""The last event at which a request may change; botocore also emits it for unsigned requests."""
_AMAZON = re.compile(r"(?:.*\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)")
_BUCKET = re.compile(r"(.+)\.s3[.-].*")


def register(handlers: ModuleType) -> None:
    """Adds the handler to `botocore.handlers`, for every session created from now on."""
    if (_EVENT, on_before_sign) not in handlers.BUILTIN_HANDLERS:
        handlers.BUILTIN_HANDLERS.append((_EVENT, on_before_sign))


def unregister(handlers: ModuleType) -> None:
    """Existing sessions keep the handler; it does nothing without AWS_ENDPOINT_URL."""
    if (_EVENT, on_before_sign) in handlers.BUILTIN_HANDLERS:
        handlers.BUILTIN_HANDLERS.remove((_EVENT, on_before_sign))


def on_before_sign(request: Any, **_: Any) -> None:
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        request.url = redirected(request.url, endpoint)


def redirected(url: str, endpoint: str) -> str:
    """The URL at the endpoint if the host is Amazon's, else the URL itself."""
    asked, there = urlsplit(url), urlsplit(endpoint)
    host = asked.hostname or ""
    if not _AMAZON.fullmatch(host):
        return url
    bucket = _BUCKET.fullmatch(host)
    path = f"/{bucket[1]}{asked.path}" if bucket else asked.path
    whole = there.path.rstrip("/") + path
    return urlunsplit((there.scheme, there.netloc, whole, asked.query, asked.fragment))
