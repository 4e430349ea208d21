"""Builds HTML from elements. Plain strings are always escaped; only `Html` is not."""

import base64
import hashlib
import html
import re
from collections.abc import Iterable

_VOID = {"meta"}
_CODE = re.compile(r"`([^`\n]+)`")


class Html(str):
    """Markup. Created by `element` and `joined`, never directly from a user's text."""

    __slots__ = ()


Child = str | Html | None
Attribute = str | float | bool | None


def element(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """`class_` is the attribute class; other underscores become hyphens. None and False omit it."""
    opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in _VOID:
        return Html(opening)
    return Html(f"{opening}{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Html:
    return Html("".join(_safe(child) for child in children if child is not None))


def prose(text: str) -> Html:
    """A sentence, with what it has in backticks as code."""
    parts = _CODE.split(text)
    return joined(element("code", part) if at % 2 else part for at, part in enumerate(parts))


def document(title: str, body: Html, *, style: str, script: str) -> bytes:
    """A page that loads nothing and runs only this script, by its hash in the policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = joined(
        [
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", title),
            Html(f"<style>{style}</style>"),
        ]
    )
    page = f'<!doctype html>\n<html lang="en"><head>{head}</head>'
    return f"{page}<body>{body}<script>{script}</script></body></html>\n".encode()


def _safe(child: str | Html) -> str:
    return child if isinstance(child, Html) else html.escape(_shown(child))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    text = f"{value:.7g}" if isinstance(value, float) else str(value)
    return f" {name}" if value is True else f' {name}="{html.escape(_shown(text))}"'


def _shown(text: str) -> str:
    """Makes control characters visible and replaces unpaired surrogates."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return "".join(
        char if char >= " " and char != "\x7f" or char in "\n\t" else f"\\x{ord(char):02x}"
        for char in whole
    )
