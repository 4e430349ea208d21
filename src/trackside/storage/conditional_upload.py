"""Uploads to S3 in parts that become the object only if a condition holds.

The object-store library has conditions for single requests only. Addresses, credentials and
retries are as for its requests.
"""

import hashlib
import random
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from trackside.errors import ObjectChanged, ObjectNotFound, StorageError, StoreUnreachable
from trackside.quick_dataclass import dataclass
from trackside.sigv4 import Request, Scope, encoded_name, signed_headers
from trackside.storage.cloud_errors import BucketLabel, of_response
from trackside.storage.credentials import S3Access, surroundings
from trackside.storage.instance_credentials import Keys, keys_for
from trackside.storage.store import NOTHING

if TYPE_CHECKING:
    from trackside.storage.connect import Retry

_PARTS_AT_ONCE = 4
_RENEW_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Response:
    etag: str
    body: bytes


class ConditionalUpload:
    """For one bucket. Thread-safe."""

    def __init__(self, bucket: str, access: S3Access, label: BucketLabel, retry: "Retry") -> None:
        endpoint = access.endpoint or f"https://s3.{access.region}.amazonaws.com"
        self._base = f"{endpoint}/{bucket}"
        self._host = urlsplit(endpoint).netloc
        self._access = access
        self._label = label
        self._retry = retry
        self._keys: Keys | None = None

    def put(self, key: str, chunks: Iterable[bytes], part_bytes: int, replaces: str) -> str:
        """The new object's etag. After an error, `ObjectChanged` among them, no part is left."""
        upload = f"uploadId={encoded_name(self._begin(key))}"
        try:
            etags = self._send_parts(key, upload, _parts(chunks, part_bytes))
            return self._complete(key, upload, etags, replaces)
        except BaseException:
            with suppress(StorageError):
                self._request("DELETE", key, upload)
            raise

    def _begin(self, key: str) -> str:
        found = _text(self._request("POST", key, "uploads=").body, "UploadId")
        if not found:
            raise StorageError(f"{self._label.at(key)}: the store began no upload in parts.")
        return found

    def _send_parts(self, key: str, upload: str, parts: Iterator[bytes]) -> list[str]:
        """Their etags. A few parts are in memory at once."""

        def send(number: int, part: bytes) -> str:
            return self._request("PUT", key, f"partNumber={number}&{upload}", part).etag

        etags: list[str] = []
        waiting: deque[Future[str]] = deque()
        with ThreadPoolExecutor(_PARTS_AT_ONCE) as pool:
            for number, part in enumerate(parts, 1):
                if len(waiting) == _PARTS_AT_ONCE:
                    etags.append(waiting.popleft().result())
                waiting.append(pool.submit(send, number, part))
            etags.extend(future.result() for future in waiting)
        return etags

    def _complete(self, key: str, upload: str, etags: list[str], replaces: str) -> str:
        rows = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;{etag}&quot;</ETag></Part>"
            for number, etag in enumerate(etags, 1)
        )
        body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
        condition = {"if-match": f'"{replaces}"'} if replaces else {"if-none-match": "*"}
        try:
            response = self._request("POST", key, upload, body, condition)
        except (ObjectChanged, ObjectNotFound) as error:
            # The response to an earlier try may have been lost: then the object there is ours.
            ours = _etag_of_parts(etags)
            if ours and self._present(key) == ours:
                return ours
            raise ObjectChanged(
                f"{self._label.at(key)} was replaced by another writer. Read it again."
            ) from error
        return _text(response.body, "ETag").strip('"')

    def _present(self, key: str) -> str:
        with suppress(ObjectNotFound):
            return self._request("HEAD", key, "").etag
        return NOTHING

    def _request(
        self,
        method: str,
        key: str,
        query: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> _Response:
        """The response, when it is a good one; repeated while that may help."""
        retry = self._retry
        last = time.monotonic() + retry.limit_seconds
        pause = retry.first_wait_seconds
        for tries_left in range(retry.max_retries, -1, -1):
            try:
                return self._try(method, key, query, body, headers or {})
            except StoreUnreachable:
                wait = pause * random.uniform(0.5, 1.5)
                if tries_left == 0 or time.monotonic() + wait > last:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, retry.longest_wait_seconds)
        raise AssertionError  # not reached: the last try raises or returns

    def _try(
        self, method: str, key: str, query: str, body: bytes, headers: Mapping[str, str]
    ) -> _Response:
        request = self._signed(method, key, query, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=self._retry.silence_seconds) as response:
                found = _Response((response.headers["ETag"] or "").strip('"'), response.read())
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            raise of_response(error.code, text, self._label, key) from None
        except (OSError, HTTPException) as error:
            raise StoreUnreachable(
                f"{self._label.at(key)} at {self._label.server} cannot be reached: {error}. "
                "Check the address and the network, then try again."
            ) from error
        if method == "POST" and (code := _error_code(found.body)):
            # S3 begins the response to a completion before it knows how that ends.
            status = 503 if code in ("InternalError", "SlowDown", "ServiceUnavailable") else 409
            raise of_response(status, found.body.decode(errors="replace"), self._label, key)
        return found

    def _signed(
        self, method: str, key: str, query: str, body: bytes, headers: Mapping[str, str]
    ) -> urllib.request.Request:
        keys = self._current_keys()
        address = f"{self._base}/{quote(key, safe='/-_.~')}"
        own = {"host": self._host, **headers}
        if keys.token:
            own["x-amz-security-token"] = keys.token
        now = datetime.now(UTC)
        scope = Scope(keys.id, f"{now:%Y%m%d}", self._access.region, "s3")
        digest = hashlib.sha256(body).hexdigest()
        asked = Request(method, urlsplit(address).path, query, own)
        signed = signed_headers(asked, digest, scope, now, keys.secret)
        if method in ("PUT", "POST"):
            signed["content-type"] = "application/octet-stream"
        url = f"{address}?{query}" if query else address
        data = body if method in ("PUT", "POST") else None
        return urllib.request.Request(url, data=data, headers=signed, method=method)

    def _current_keys(self) -> Keys:
        keys = self._keys
        if keys is None or keys.expires - time.time() < _RENEW_SECONDS:
            keys = self._keys = keys_for(self._access, surroundings())
        return keys


def _parts(chunks: Iterable[bytes], part_bytes: int) -> Iterator[bytes]:
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= part_bytes:
            yield bytes(memoryview(waiting)[:part_bytes])
            del waiting[:part_bytes]
    if waiting:
        yield bytes(waiting)


def _etag_of_parts(etags: list[str]) -> str:
    """As S3 makes it; empty where the parts' own are no MD5 sums, as with some encryption."""
    try:
        digests = b"".join(map(bytes.fromhex, etags))
    except ValueError:
        return ""
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(etags)}"


def _error_code(body: bytes) -> str:
    return _text(body, "Code") if b"<Error>" in body or b"<Error " in body else ""


def _text(body: bytes, name: str) -> str:
    try:
        found = ElementTree.fromstring(body).find(f".//{{*}}{name}")
    except ElementTree.ParseError:
        return ""
    return "" if found is None else found.text or ""
