"""Which names and values look like secrets. Who hides or withholds them decides what to do."""

import re

_SECRET_WORDS = frozenset(
    {
        *("secret", "secrets", "password", "passwd", "passphrase", "token", "private"),
        *("credential", "credentials", "creds", "apikey", "accesskey"),
    }
)
_SECRET_ENDINGS = ("password", "passwd", "secret")
"""Of words that are written as one: PGPASSWORD."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IN_ADDRESS = re.compile(r"://[^/\s@]+@")


def looks_secret(name: str) -> bool:
    """`api_key` and `hubToken` do; `max_tokens`, `tokenizer` and `monkey` do not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not _SECRET_WORDS.isdisjoint(words) or words[-1:] == ["key"]:
        return True
    return any(word.endswith(_SECRET_ENDINGS) for word in words) or words[1:] == ["pwd"]


def names_a_user(value: str) -> bool:
    """Whether it is an address with a user or password in it, or holds one."""
    return _IN_ADDRESS.search(value) is not None
