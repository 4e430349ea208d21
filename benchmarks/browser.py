"""A browser that records what is on its screen, and the servers whose pages it shows.

Time counts from the start of the navigation to a frame of the screen, by the browser's own clock,
so that a chart counts when it can be seen, however a page draws it.
"""

import base64
import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt
from PIL import Image
from playwright.sync_api import Browser, CDPSession, Page

VIEWPORT = {"width": 1280, "height": 900}
PICTURES = Path("benchmarks/.data/page/pictures")
LEAST_COLOURED = 60
"""Pixels that make a curve."""
_COLOURED = 60
"""How far the channels of a pixel are apart that is no text, no axis and no background."""
_DIFFERENT = 50
"""How far a channel is off that JPEG has not changed."""
_ALIKE = 0.01
"""The share of pixels that may differ between two pictures of the same."""
_HEADERS_BYTES = 1000
"""Of a request and its answer, at most."""
MOST_SECONDS = 150.0
Pixels = npt.NDArray[np.uint8]
Box = tuple[int, int, int, int]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Frame:
    time: float
    """Seconds since the epoch."""
    data: bytes

    def pixels(self) -> Pixels:
        return np.asarray(Image.open(io.BytesIO(self.data)).convert("RGB"))

    def part(self, box: Box) -> npt.NDArray[np.int16]:
        left, top, right, bottom = box
        return self.pixels()[max(top, 0) : bottom, max(left, 0) : right].astype(np.int16)

    def num_coloured(self, box: Box) -> int:
        part = self.part(box)
        return int(((part.max(axis=2) - part.min(axis=2)) > _COLOURED).sum()) if part.size else 0

    def has_curve(self, box: Box) -> bool:
        return self.num_coloured(box) >= LEAST_COLOURED

    def is_like(self, other: "Frame", box: Box, most: float) -> bool:
        """Whether at most this share of the pixels differs."""
        differs = np.abs(self.part(box) - other.part(box)).max(axis=2) > _DIFFERENT
        return bool(differs.mean() <= most)

    def keep(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{name}.jpg").write_bytes(self.data)


@dataclass
class Screen:
    """A tab of an empty profile, and the frames it has shown."""

    page: Page
    session: CDPSession
    frames: list[Frame] = field(default_factory=list)
    num_bytes: int = 0

    def start(self) -> None:
        self.session.on("Page.screencastFrame", self._take)
        options = {"format": "jpeg", "quality": 80, "maxWidth": 1280, "maxHeight": 900}
        self.session.send("Page.startScreencast", options)

    def _take(self, event: dict[str, Any]) -> None:
        moment = float(event["metadata"]["timestamp"])
        self.frames.append(Frame(moment, base64.b64decode(event["data"])))
        self.session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    def go(self, url: str) -> float:
        """When the navigation began."""
        self.page.goto(url, wait_until="commit")
        return float(self.page.evaluate("performance.timeOrigin")) / 1000

    def wait(self, is_done: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + MOST_SECONDS
        while not is_done():
            if time.monotonic() > deadline:
                if self.frames:
                    self.frames[-1].keep("failed")
                raise TimeoutError(f"{what} is not on the screen; see {PICTURES}/failed.jpg")
            self.page.wait_for_timeout(20)

    def settle(self, seconds: float = 1.0) -> None:
        """Until nothing has changed on the screen for so long."""
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < seconds:
            if len(self.frames) != seen:
                seen, since = len(self.frames), time.monotonic()
            self.page.wait_for_timeout(50)

    def box(self, selector: str) -> Box | None:
        """Of the first such element."""
        found = self.page.evaluate(
            "selector => { const r = document.querySelector(selector)?.getBoundingClientRect();"
            " return r && r.width && [r.left, r.top, r.right, r.bottom].map(Math.round) }",
            selector,
        )
        return tuple(found) if found else None

    def last_has_curve(self, selector: str) -> bool:
        box = self.box(selector)
        return bool(box and self.frames and self.frames[-1].has_curve(box))

    def first(self, box: Box) -> Frame:
        """The first frame with a curve there."""
        return next(frame for frame in self.frames if frame.has_curve(box))

    def as_last(self, box: Box) -> Frame:
        """The frame from which on the box stays as it is now."""
        found = last = self.frames[-1]
        for frame in reversed(self.frames):
            if not frame.is_like(last, box, _ALIKE):
                break
            found = frame
        return found

    def wait_for_seen(self, text: str) -> float:
        """The seconds from the last key to the picture with this text, by `WATCH`."""
        script = "text => window.seen.find(([seen]) => text ? seen.includes(text) : !seen)"
        self.wait(lambda: self.page.evaluate(script, text), repr(text))
        seconds = float(self.page.evaluate(script, text)[1])
        self.page.evaluate("() => { window.seen = window.seen.slice(-1); }")
        return seconds

    def picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.jpg", type="jpeg")

    def count_bytes(self) -> None:
        """Into `num_bytes`, from now on: what arrives, also of streams, and for each request what
        its headers have at most."""
        self.session.on("Network.dataReceived", self._received)
        self.session.on("Network.requestWillBeSent", self._sent)
        self.session.send("Network.enable")

    def _received(self, event: dict[str, Any]) -> None:
        self.num_bytes += max(event["dataLength"], event["encodedDataLength"])

    def _sent(self, event: dict[str, Any]) -> None:
        self.num_bytes += _HEADERS_BYTES


@contextmanager
def screen(browser: Browser, *, records: bool = True) -> Iterator[Screen]:
    context = browser.new_context(viewport=VIEWPORT, color_scheme="light")
    try:
        page = context.new_page()
        page.set_default_timeout(MOST_SECONDS * 1000)
        shown = Screen(page, context.new_cdp_session(page))
        if records:
            shown.start()
        yield shown
    finally:
        context.close()


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    pid: int


@contextmanager
def trackside_ui(home: Path) -> Iterator[Server]:
    """`trackside ui` on a home, from its first answer on."""
    words = ("ui", "--no-open", "--port", "0")
    environ = {**os.environ, "TRACKSIDE_HOME": str(home)}
    with _process([sys.executable, "-m", "trackside.cli", *words], env=environ) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None, "no address was printed"
        urlopen(f"{found[0]}api/session").read()
        yield Server(found[0], process.pid)


@contextmanager
def tensorboard(folder: Path, *options: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", "0"]
    with _process([*command, *options], stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://localhost:\d+/", line):
                yield Server(found[0], process.pid)
                return
        raise RuntimeError("TensorBoard printed no address")


@contextmanager
def _process(command: list[str], **options: Any) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **options
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
