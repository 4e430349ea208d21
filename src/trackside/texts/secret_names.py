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
_ASSIGNED = re.compile(
    r"""(?<![\w.-])(?P<name>[A-Za-z_][\w.-]*)(?P<sign>["']?\]?\s*[:=]\s*)"""
    r"""(?:(?P<quote>["'])(?P<text>[^"'\n]+)|(?P<word>[\w+/=.~-]{6,})(?=[,;]?\s*(?:\#.*)?$))""",
    re.MULTILINE,
)
"""`NAME = "text"`, `name: word`, `"name": "text"`, in code and in configuration."""
_TOKEN = re.compile(
    r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_\w{20,}"
    r"|sk-[\w-]{20,}|xox[abeprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
"""As well-known services make them."""
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)


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


def mask_code(text: str) -> str:
    """Source code or configuration as it may be shown: without texts that are assigned to a name
    that looks secret, tokens of well-known services, private keys, and passwords in addresses.
    """
    text = _PRIVATE_KEY.sub(rf"\1{MASK}\2", text)
    text = _TOKEN.sub(MASK, text)
    return hide_passwords(_ASSIGNED.sub(_masked_assignment, text))


def _masked_assignment(found: re.Match[str]) -> str:
    name, sign, word = found["name"], found["sign"], found["word"]
    if not looks_secret(name):
        return found[0]
    if word is None:
        return f"{name}{sign}{found['quote']}{MASK}"
    is_variable = sign == "=" and name.isupper()
    # Otherwise a word is another name of the code.
    has_digit = any(character.isdigit() for character in word)
    return f"{name}{sign}{MASK}" if is_variable or has_digit else found[0]


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
