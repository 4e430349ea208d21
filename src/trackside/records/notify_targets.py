"""Who is notified about a job: `mail:a@b.c`, `slack:https://…` and `webhook:https://…`, as written.

Only the form is known here; `rules/action/notices` sends.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

KINDS = ("mail", "slack", "webhook")
SAYS = "mail:ADDRESS, slack:https://… or webhook:https://…"
MOST = 10
_BETWEEN = re.compile(rf",\s*(?=(?:{'|'.join(KINDS)}):)")
"""A comma may be in an address on the web."""
_MAIL = re.compile(r"[^@\s,;<>:]+@[^@\s,;<>:]+")
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Target:
    kind: str
    address: str

    @classmethod
    def parse(cls, text: str) -> "Target":
        """`ValueError` with what it must be."""
        kind, _, address = text.strip().partition(":")
        is_right = _is_web(address) if kind != "mail" else _MAIL.fullmatch(address)
        if kind not in KINDS or not is_right:
            raise ValueError(f"must be {SAYS}")
        return cls(kind, address)

    @property
    def masked(self) -> str:
        """For everybody who may see the job: who knows the address of a webhook may post there."""
        if self.kind == "mail":
            return f"mail:{self.address}"
        parts = urlsplit(self.address)
        port = f":{parts.port}" if parts.port else ""
        return f"{self.kind}:{parts.scheme}://{parts.hostname}{port}/{_HIDDEN}"


def split(text: str) -> list[str]:
    """Several, with commas between them."""
    return [each.strip() for each in _BETWEEN.split(text)]


def masked(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Of those that have passed validation."""
    return tuple(Target.parse(each).masked for each in texts)


def _is_web(address: str) -> bool:
    try:
        parts = urlsplit(address)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname)
        return is_whole and parts.port != 0 and not re.search(r"\s", address)
    except ValueError:
        return False
