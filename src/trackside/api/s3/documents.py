"""XML in and out: request and response documents of S3."""

import re
import time
from collections.abc import Iterable
from typing import NoReturn
from urllib.parse import quote
from xml.parsers import expat
from xml.sax.saxutils import escape

from trackside.api.call import Reply
from trackside.api.s3.checksums import HEADER
from trackside.api.s3.errors import s3_error
from trackside.api.s3.target import Target
from trackside.api.s3.verified_body import VerifiedBody

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
OWNER_ID = "0" * 63 + "1"
_DOCUMENT_MOST_BYTES = 8 << 20
"""A thousand keys to delete, all of their characters escaped, are less."""
_ELEMENTS_MOST = 100_000
"""A list of 10,000 parts has seven of each when all their checksums are included."""
_DEPTH_MOST = 16
_ATTRIBUTES_MOST = 16
_TAG_MOST_BYTES = 64 << 10
_PIECE_BYTES = 16 << 10
"""Between two of them other threads have their turn."""
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
    headers = dict(target.headers)
    has_body = "content-length" in headers or "transfer-encoding" in headers
    if not has_body:
        headers["content-length"] = "0"  # which must be the signed one, too
    if not has_own_checksum:
        headers = {name: headers[name] for name in headers if not name.startswith(HEADER)}
    body = bytearray()

    def take(data: bytes, _: int) -> None:
        if len(body) + len(data) > _DOCUMENT_MOST_BYTES:
            text = f"The document has more than {_DOCUMENT_MOST_BYTES} bytes."
            raise s3_error("MalformedXML", text)
        body.extend(data)

    intake = VerifiedBody(headers, target.call.signature, take)
    if (intake.size or 0) > _DOCUMENT_MOST_BYTES:
        raise s3_error("MalformedXML", f"The document has more than {_DOCUMENT_MOST_BYTES} bytes.")
    if has_body:
        assert target.call.chunks is not None
        async for chunk in target.call.chunks:
            intake.feed((chunk,))
    intake.finish()
    return bytes(body)


class Element:
    """Of a parsed document, without namespaces: clients differ in whether they send one."""

    __slots__ = ("_children", "_text", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._children: list[Element] = []
        self._text: list[str] = []

    def text(self, name: str) -> str | None:
        found = next((child for child in self._children if child.name == name), None)
        return None if found is None else found.own_text

    @property
    def own_text(self) -> str:
        return "".join(self._text)

    def all(self, name: str) -> list["Element"]:
        return [child for child in self._children if child.name == name]

    @property
    def first(self) -> "Element":
        return self._children[0]

    def add(self, child: "Element") -> None:
        self._children.append(child)

    def add_text(self, text: str) -> None:
        if not self._children:  # text between children is indentation
            self._text.append(text)


def read_document(data: bytes, root: str) -> Element:
    """MalformedXML for invalid XML, and for elements that no document of S3 has. It may be large,
    so it is parsed in a thread."""
    try:
        found = _Reader().read(data)
    except (expat.ExpatError, LookupError, ValueError):  # no XML, or in no encoding
        raise s3_error("MalformedXML") from None
    if found.name != root:
        raise s3_error("MalformedXML", f"Expected a {root} document, not {found.name[:64]!r}.")
    return found


class _Reader:
    """Ends as soon as a document has more of anything than S3's have."""

    def __init__(self) -> None:
        self._num_elements = 0
        self._top = Element("")
        self._open = [self._top]
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        parser.StartDoctypeDeclHandler = self._refuse

    def read(self, data: bytes) -> Element:
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            self._parser.Parse(piece, False)
            if start + len(piece) - self._parser.CurrentByteIndex > _TAG_MOST_BYTES:
                self._refuse()
        self._parser.Parse(b"", True)
        return self._top.first

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._num_elements += 1
        if self._num_elements > _ELEMENTS_MOST or len(self._open) > _DEPTH_MOST:
            self._refuse()
        if len(attributes) > _ATTRIBUTES_MOST:
            self._refuse()
        element = Element(name.rpartition(":")[2])
        self._open[-1].add(element)
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _add_text(self, text: str) -> None:
        self._open[-1].add_text(text)

    def _refuse(self, *_: object) -> NoReturn:
        text = "The document has a type, or more elements or attributes than any of S3's."
        raise s3_error("MalformedXML", text)


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
