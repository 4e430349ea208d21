"""Notification targets of a job: `mail:a@b.c`, `slack:https://…` and `webhook:https://…`.

Only the syntax; `rules/action/notifications` sends.
"""

import re
from urllib.parse import urlsplit

from trackside.quick_dataclass import dataclass

KINDS = ("mail", "slack", "webhook")
SAYS = "mail:ADDRESS, slack:https://… or webhook:https://…"
MOST = 10
_BETWEEN = re.compile(rf",\s*(?=(?:{'|'.join(KINDS)}):)")
"""A web address may contain a comma."""
_MAIL = re.compile(r"[^@\s,;<>:]+@[^@\s,;<>:]+")
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Target:
    kind: str
    address: str

    @classmethod
    def parse(cls, text: str) -> "Target":
        """`ValueError` says what it must be."""
        kind, _, address = text.strip().partition(":")
        is_right = _is_web(address) if kind != "mail" else _MAIL.fullmatch(address)
        if kind not in KINDS or not is_right:
            raise ValueError(f"must be {SAYS}")
        return cls(kind, address)

    @property
    def masked(self) -> str:
        """For everyone who may see the job: anyone with a webhook's address may post there."""
        if self.kind == "mail":
            return f"mail:{self.address}"
        parts = urlsplit(self.address)
        port = f":{parts.port}" if parts.port else ""
        return f"{self.kind}:{parts.scheme}://{parts.hostname}{port}/{_HIDDEN}"


def split(text: str) -> list[str]:
    """Several, separated by commas."""
    return [each.strip() for each in _BETWEEN.split(text)]


def masked(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Of valid targets."""
    return tuple(Target.parse(each).masked for each in texts)


def _is_web(address: str) -> bool:
    try:
        parts = urlsplit(address)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname)
        return is_whole and parts.port != 0 and not re.search(r"\s", address)
    except ValueError:
        return False
