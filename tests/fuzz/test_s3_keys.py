"""Keys of every kind: each is an object of its own in its own bucket, or refused and nowhere.

The model is a dictionary; what the server stores, lists and removes is compared with it.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import quote, unquote

import pytest

from tests.api.raw_requests import SignedClient
from tests.fuzz.asgi import AppClient, Response, Wire
from tests.fuzz.bounded import SEED
from tests.fuzz.rounds import rounds
from trackside.api.app import App
from trackside.api.keys import AccessKeys, Rights
from trackside.api.s3.service import S3

BUCKETS = ("first", "second")
PIECES = ("", ".", "..", "...", "a", "b", "a.part", ".trackside", ".part", "é", "e\u0301", "日本",
          "😀", " ", "+", "%", "%2e%2e", "%00", "\0", "\n", "\x7f", "\\", "..\\", "C:", "~", "*",
          "?", "#", "&", "<x>", '"', "'", ":", ";", "=", "\u202e", "\ufeff", "\uffff", "CON",
          "x" * 255, "x" * 256, "é" * 128, "%hash-", "keys", "records", "-", "--help",
          "$(id)")  # fmt: skip
MOST_KEY_BYTES = 1024
_KEY = re.compile(rb"<Key>(.*?)</Key>", re.S)
_NEXT = re.compile(rb"<NextContinuationToken>(.*?)</NextContinuationToken>")


@dataclass
class Location:
    client: AppClient
    caller: SignedClient
    root: Path
    objects: dict[str, dict[str, bytes]] = field(
        default_factory=lambda: {bucket: {} for bucket in BUCKETS}
    )

    def request(self, method: str, address: str, body: bytes = b"") -> Response:
        return self.client.request(Wire.of(self.caller.signed(method, address, body), body))

    def listed(self, bucket: str, page: int) -> list[str]:
        keys: list[str] = []
        after = ""
        while True:
            query = f"list-type=2&encoding-type=url&max-keys={page}{after}"
            response = self.request("GET", f"/{bucket}?{query}")
            assert response.status == 200, response
            keys += [unquote(key.decode()) for key in _KEY.findall(response.body)]
            token = _NEXT.search(response.body)
            if token is None:
                return keys
            after = f"&continuation-token={quote(token[1].decode(), safe='')}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Location]:
    keys = AccessKeys(tmp_path / "server")
    key, secret = keys.create("somebody", Rights.ADMIN)
    root = tmp_path / "buckets"
    with AppClient(App({"s3": S3(root)}, keys)) as client:
        place = Location(client, SignedClient("http://server:7007", key.id, secret), root)
        for bucket in BUCKETS:
            assert place.request("PUT", f"/{bucket}").status == 200
        yield place


def some_key(rng: Random) -> str:
    key = "/".join(rng.choice(PIECES) for _ in range(rng.choice((1, 1, 2, 3, 5))))
    if rng.random() < 0.1:
        key = "x/" * rng.randrange(480, 520) + key
    return key or "a"


def written(rng: Random, key: str) -> str:
    """The key in an address, with more characters encoded than need be."""
    safe = rng.choice(("/~", "/~-._", "", "/~+!*'()"))
    return quote(key, safe=safe)


def outside(place: Location) -> dict[str, int]:
    """All files beyond the buckets, with their sizes; what the two buckets' folders are called."""
    found: dict[str, int] = {}
    for folder, _, names in os.walk(place.root.parent):
        if not Path(folder).is_relative_to(place.root):
            found |= {
                os.path.join(folder, name): os.path.getsize(f"{folder}/{name}") for name in names
            }
    return found | dict.fromkeys(os.listdir(place.root), 0)


def change(rng: Random, place: Location) -> None:
    """Put, get or delete one; the answer is the model's."""
    bucket = rng.choice(BUCKETS)
    model = place.objects[bucket]
    key = rng.choice([*model]) if model and rng.random() < 0.4 else some_key(rng)
    address = f"/{bucket}/{written(rng, key)}"
    match rng.randrange(3):
        case 0:
            content = rng.randbytes(rng.choice((1, 50)))
            response = place.request("PUT", address, content)
            assert response.status in (200, 400), (key, response)
            assert (response.status == 200) or _may_be_refused(key), (key, response)
            if response.status == 200:
                model[key] = content
        case 1:
            response = place.request("GET", address)
            if key in model:
                assert (response.status, response.body) == (200, model[key]), (key, response)
            else:
                assert response.status in (404, 400), (key, response)
                assert response.body.startswith(b"<?xml"), (key, response)
        case 2:
            response = place.request("DELETE", address)
            assert response.status == 204 or _may_be_refused(key), (key, response)
            model.pop(key, None)


def _may_be_refused(key: str) -> bool:
    """One that is too long, as S3 has it; and NUL, which no file system and no XML can hold."""
    return len(key.encode()) > MOST_KEY_BYTES or "\0" in key


def test_each_key_is_an_object_of_its_own(place: Location):
    rng = Random(f"{SEED}/s3 keys")
    before = outside(place)
    for number in range(rounds(300)):
        change(rng, place)
        if number % 50 == 49:
            page = rng.choice((1, 3, 7, 1000))
            for bucket, model in place.objects.items():
                expected = sorted(model, key=str.encode)
                assert place.listed(bucket, page) == expected
            assert outside(place) == before
    assert all(place.objects.values())
