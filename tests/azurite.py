"""Azure's own emulator of its blob storage, as a real server on loopback."""

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import pytest

ACCOUNT = "devstoreaccount1"
# The emulator's only key, the same everywhere and printed in its manual.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Azurite:
    url: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": self.url,
        }

    def make_container(self) -> str:
        name = f"container-{uuid.uuid4().hex[:12]}"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        lines = [f"{key}:{value}" for key, value in headers.items()]
        resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        signed = "\n".join(["PUT", *[""] * 11, *lines, resource])
        digest = hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        request = urllib.request.Request(
            f"{self.url}/{name}?restype=container", method="PUT", headers=headers
        )
        urllib.request.urlopen(request, timeout=60).close()
        return name


@contextmanager
def azurite(folder: Path) -> Iterator[Azurite]:
    """Skips without the program, unless TRACKSIDE_REQUIRE names azure."""
    program = shutil.which("azurite-blob")
    if program is None:
        reason = "azurite-blob is not installed (npm install --global azurite)"
        if "azure" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    command = [program, "--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck"]
    with subprocess.Popen(
        [*command, "--disableTelemetry"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Azurite(f"{_address(process)}/{ACCOUNT}")
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "successfully listen" in line.lower():
            return next(word for word in line.split() if word.startswith("http://"))
    raise AssertionError(f"Azurite does not listen: {''.join(said)}")
