"""Recognizes names and values that look secret, and masks them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MASK = "***"
# Shorter values would hide ordinary words of a message.
_SHORTEST_SEARCHED = 6

_SECRET_WORDS = frozenset(
    {
        *("secret", "secrets", "password", "passwd", "passphrase", "token", "private"),
        *("credential", "credentials", "creds", "apikey", "accesskey"),
    }
)
_SECRET_ENDINGS = ("password", "passwd", "secret")
"""Ends of compound names: PGPASSWORD."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_USER = re.compile(r"://[^/\s@]+@")
_PASSWORD = re.compile(r"(?<=://)[^/\s@:]+:[^/\s@]+@")


def looks_secret(name: str) -> bool:
    """`api_key` and `hubToken` do; `max_tokens`, `tokenizer` and `monkey` do not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not _SECRET_WORDS.isdisjoint(words) or words[-1:] == ["key"]:
        return True
    return any(word.endswith(_SECRET_ENDINGS) for word in words) or words[1:] == ["pwd"]


def names_a_user(value: str) -> bool:
    """Whether it is, or contains, an address with a user or password."""
    return _USER.search(value) is not None


def hidden(name: str, value: str) -> str:
    """The value as it may be shown to a reader who sees the name."""
    return MASK if looks_secret(name) else hide_passwords(value)


def mask_text(text: str, secrets: Iterable[str]) -> str:
    """A script's text without these values and without passwords in addresses."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SEARCHED:
            text = text.replace(secret, MASK)
    return hide_passwords(text)


def hide_in_arguments(arguments: Sequence[str]) -> list[str]:
    """A program's arguments as they may be shown: `--token ***`, `--token=***`, `hub.token=***`."""
    parts = map(_secret_part, ["", *arguments], arguments)
    return [
        f"{text[: -len(secret)]}{MASK}" if secret else hide_passwords(text)
        for text, secret in zip(arguments, parts)  # noqa: B905 for older Pythons in containers
    ]


def secrets_in_arguments(arguments: Sequence[str]) -> list[str]:
    return [secret for secret in _secret_parts(arguments) if secret]


def _secret_parts(arguments: Sequence[str]) -> list[str]:
    """For each argument its secret suffix; "" for most."""
    return list(map(_secret_part, ["", *arguments], arguments))


def _secret_part(before: str, argument: str) -> str:
    name, _, value = argument.partition("=")
    if value and looks_secret(name):
        return value
    is_option = before.startswith("-") and "=" not in before
    if is_option and looks_secret(before) and not argument.startswith("--"):
        return argument
    return ""


def hide_passwords(text: str) -> str:
    """Those in addresses."""
    return _PASSWORD.sub(f"{MASK}@", text)
