"""Which names and values look like secrets, and what is shown in place of them."""

import re
from collections.abc import Iterable

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
"""Of words that are written as one: PGPASSWORD."""
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
    """Whether it is an address with a user or password in it, or holds one."""
    return _USER.search(value) is not None


def hidden(name: str, value: str) -> str:
    """The value as it may be shown to whoever sees the name."""
    return MASK if looks_secret(name) else hide_passwords(value)


def mask_text(text: str, secrets: Iterable[str]) -> str:
    """Free text, as a script wrote it, without these values and without passwords in addresses."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SEARCHED:
            text = text.replace(secret, MASK)
    return hide_passwords(text)


def hide_passwords(text: str) -> str:
    """Those in addresses."""
    return _PASSWORD.sub(f"{MASK}@", text)
