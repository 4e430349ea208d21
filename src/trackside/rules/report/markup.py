"""HTML made of elements. Plain texts are escaped, always: only `Html` goes in as it is."""

import base64
import hashlib
import html
from collections.abc import Iterable

_VOID = {"meta"}


class Html(str):
    """Markup. Made by `element`, `joined` and by nothing that has seen a user's text."""

    __slots__ = ()


Child = str | Html | None
Attribute = str | float | bool | None


def element(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """`class_` is the attribute class; other underscores are hyphens. None and False leave out."""
    opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in _VOID:
        return Html(opening)
    return Html(f"{opening}{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Html:
    return Html("".join(_safe(child) for child in children if child is not None))


def document(title: str, body: Html, *, style: str, script: str) -> bytes:
    """A page that loads nothing, and runs this one script and no other: the browser is given its
    hash."""
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
    """Control characters made visible, and halves of surrogate pairs replaced."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return "".join(
        char if char >= " " and char != "\x7f" or char in "\n\t" else f"\\x{ord(char):02x}"
        for char in whole
    )
