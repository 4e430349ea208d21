"""XML in and out: the documents that S3 asks for and answers with."""

import re
import time
from collections.abc import Iterable
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from trackside.api.call import Reply
from trackside.api.s3.checksums import HEADER
from trackside.api.s3.errors import s3_error
from trackside.api.s3.intake import Intake
from trackside.api.s3.target import Target

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
OWNER_ID = "0" * 63 + "1"
_DOCUMENT_MOST_BYTES = 10 << 20
_CONTROL = re.compile(r"[\x00-\x1f]")

Node = tuple[str, "str | int | bool | Iterable[Node] | None"]
"""A name with its text or its children; None leaves it out."""


def document(
    root: str, content: Iterable[Node] | str, headers: dict[str, str] | None = None
) -> Reply:
    inner = _escaped(content) if isinstance(content, str) else _written(content)
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{NAMESPACE}">{inner}</{root}>'
    data = body.encode("utf-8", "replace")
    return Reply(200, data, {"content-type": "application/xml", **(headers or {})})


def owner() -> list[Node]:
    return [("ID", OWNER_ID), ("DisplayName", "trackside")]


def iso_time(seconds: float) -> str:
    whole, part = divmod(int(seconds * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{part:03}Z"


def url_encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogateescape"), safe="/-_.~*")


async def whole_body(target: Target, *, has_own_checksum: bool = True) -> bytes:
    """A document's bytes, checked as those of an object are.

    Without a checksum of its own, the header is about something else.
    """
    if "content-length" not in target.headers and "transfer-encoding" not in target.headers:
        return b""
    parts: list[bytes] = []
    headers = target.headers
    if not has_own_checksum:
        headers = {name: headers[name] for name in headers if not name.startswith(HEADER)}
    intake = Intake(headers, target.call.signature, lambda data, _: parts.append(data))
    if (intake.size or 0) > _DOCUMENT_MOST_BYTES:
        raise s3_error("MalformedXML", f"The document has more than {_DOCUMENT_MOST_BYTES} bytes.")
    assert target.call.chunks is not None
    async for chunk in target.call.chunks:
        intake.feed((chunk,))
    intake.finish()
    return b"".join(parts)


class Element:
    """A read document, its name spaces left aside: clients differ in whether they send one."""

    def __init__(self, node: ElementTree.Element) -> None:
        self._node = node

    def text(self, name: str) -> str | None:
        found = next(iter(self.all(name)), None)
        return None if found is None else found.own_text

    @property
    def own_text(self) -> str:
        return self._node.text or ""

    @property
    def name(self) -> str:
        return self._node.tag.rpartition("}")[2]

    def all(self, name: str) -> list["Element"]:
        children = [Element(child) for child in self._node]
        return [child for child in children if child.name == name]


def read_document(data: bytes, root: str) -> Element:
    try:
        found = Element(ElementTree.fromstring(data))
    except ElementTree.ParseError:
        raise s3_error("MalformedXML") from None
    if found.name != root:
        raise s3_error("MalformedXML", f"Expected a {root} document, not {found.name!r}.")
    return found


def _written(children: Iterable[Node]) -> str:
    parts = []
    for name, value in children:
        if value is None:
            continue
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, str):
            text = _escaped(value)
        elif isinstance(value, int):
            text = str(value)
        else:
            text = _written(value)
        parts.append(f"<{name}>{text}</{name.partition(' ')[0]}>")
    return "".join(parts)


def _escaped(text: str) -> str:
    """Control characters as references, as S3 writes them, though XML 1.0 has no such."""
    return _CONTROL.sub(lambda found: f"&#{ord(found[0])};", escape(text, {'"': "&quot;"}))
