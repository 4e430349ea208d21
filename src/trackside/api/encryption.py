"""Secrets encrypted at rest, by a key that only the server's user can read.

Signature Version 4 needs the secret itself for verification, so secrets are not hashed but sealed.
The key is created by this machine, or shared by all servers of a team.
"""

import base64
import binascii
import hmac
import logging
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trackside.errors import InvalidSetting
from trackside.files.permissions import make_folder

logger = logging.getLogger(__name__)

_NONCE_BYTES = 12
_KEY_BYTES = 32
_WAY_OUT = "`trackside keys team-key FILE` makes one; every server of the team is given a copy"


class Seal:
    """`key` is called at each use: a machine's own is created when it is first needed."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def seal(self, secret: str, bound_to: str) -> str:
        """Encrypted; `unseal` needs the same `bound_to`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = AESGCM(self._key()).encrypt(nonce, secret.encode(), bound_to.encode())
        return base64.b64encode(nonce + sealed).decode()

    def unseal(self, text: str, bound_to: str) -> str:
        """`InvalidTag` or a `ValueError` for text that was not sealed with this key and
        `bound_to`."""
        data = base64.b64decode(text, validate=True)
        nonce, sealed = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
        return AESGCM(self._key()).decrypt(nonce, sealed, bound_to.encode()).decode()

    def derived(self, purpose: str) -> str:
        """A secret that cannot be guessed without the key, always the same."""
        made = hmac.digest(self._key(), purpose.encode(), "sha256")
        return base64.b64encode(made).decode()


def machine_key(path: Path) -> bytes:
    """Created on first use."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        make_folder(path.parent)
    # Only the first of two processes creates it; the other reads that one.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    _write(temporary, AESGCM.generate_key(256))
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    return path.read_bytes()


def make_team_key(path: Path) -> None:
    """`InvalidSetting` when the file exists: keys may be sealed with it."""
    try:
        _write(path, base64.b64encode(AESGCM.generate_key(256)) + b"\n")
    except FileExistsError:
        raise InvalidSetting(
            f"{str(path)!r} exists, and access keys may be sealed with what it holds. Name another."
        ) from None
    except OSError as error:
        raise InvalidSetting(
            f"{str(path)!r} cannot be written: {error.strerror}. Name another file."
        ) from None


def read_team_key(path: Path) -> bytes:
    """`InvalidSetting` when there is none in the file."""
    named = f"TRACKSIDE_TEAM_KEY_FILE = {str(path)!r}"
    try:
        found = base64.b64decode(path.read_bytes().strip(), validate=True)
        if path.stat().st_mode & 0o077:
            logger.warning("%s can be read by others, who can open all access keys with it", path)
    except OSError as error:
        raise InvalidSetting(f"{named} cannot be read: {error.strerror}. {_WAY_OUT}.") from None
    except binascii.Error:
        found = b""
    if len(found) != _KEY_BYTES:
        raise InvalidSetting(f"{named} does not hold a team's key. {_WAY_OUT}.")
    return found


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
