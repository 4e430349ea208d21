"""Images on this machine: found by name, and pulled if they are missing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Any

from trackside.containers import registry_credentials
from trackside.containers.engine_client import Engine, EngineError, EngineRefused
from trackside.containers.image_names import login_command, registry_of, with_tag
from trackside.errors import ImageError
from trackside.quick_dataclass import dataclass

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Image:
    id: str
    """Of its content, as `sha256:…`: no two images share one."""
    digest: str = ""
    """By which others pull the same, as `registry/name@sha256:…`; empty if it was built here."""


@dataclass(slots=True)
class Layer:
    state: str = ""
    done_bytes: int = 0
    size_bytes: int = 0

    @property
    def is_done(self) -> bool:
        return self.state in ("Pull complete", "Already exists")


class Pull:
    """How far the pull of an image is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.layers: dict[str, Layer] = {}

    @property
    def done_bytes(self) -> int:
        return sum(layer.done_bytes for layer in self.layers.values())

    @property
    def size_bytes(self) -> int:
        """Of the layers whose size is known by now."""
        return sum(layer.size_bytes for layer in self.layers.values())

    def note(self, message: Mapping[str, Any]) -> None:
        """One message of the engine. Extraction counts again from 0: the download alone counts."""
        state, layer_id = message.get("status", ""), message.get("id")
        if not layer_id or state.startswith("Pulling from"):
            return
        layer = self.layers.setdefault(layer_id, Layer())
        layer.state = state
        progress = message.get("progressDetail") or {}
        if state == "Downloading":
            layer.done_bytes = int(progress.get("current") or 0)
            layer.size_bytes = max(layer.size_bytes, int(progress.get("total") or 0))
        elif state in ("Download complete", "Extracting", "Pull complete"):
            layer.done_bytes = layer.size_bytes


Show = Callable[[Pull], None]
_show: ContextVar[Show | None] = ContextVar("show_pull", default=None)


@contextmanager
def pulls_shown(show: Show) -> Iterator[None]:
    """Inside, `show` is called with each message about a pull."""
    token = _show.set(show)
    try:
        yield
    finally:
        _show.reset(token)


def find_image(engine: Engine, name: str) -> Image | None:
    """None if this machine does not have it; `EngineError` without an engine."""
    try:
        found = engine.call("GET", f"/images/{name}/json")
    except EngineRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return None
    digests = found.get("RepoDigests") or [""]
    return Image(str(found["Id"]), str(digests[0]))


def obtain_image(engine: Engine, name: str, environ: Mapping[str, str]) -> Image:
    """The image, pulled if this machine does not have it. `ImageError` if it cannot be had."""
    try:
        return find_image(engine, name) or _pulled(engine, name, environ)
    except EngineError as error:
        raise ImageError(str(error)) from error


def _pulled(engine: Engine, name: str, environ: Mapping[str, str]) -> Image:
    pull, show = Pull(name), _show.get()
    headers = registry_credentials.header_for(registry_of(name), environ)
    try:
        messages = engine.stream("/images/create", {"fromImage": with_tag(name)}, headers)
        with closing(messages):
            for message in messages:
                if text := message.get("error"):
                    raise EngineRefused(_NOT_FOUND, str(text))
                pull.note(message)
                if show is not None:
                    show(pull)
    except EngineRefused as error:
        raise ImageError(missing(name, str(error))) from error
    image = find_image(engine, name)
    if image is None:
        raise ImageError(missing(name, "the engine ended the pull early"))
    return image


def missing(name: str, reason: str) -> str:
    registry = registry_of(name)
    return (
        f"There is no image {name!r} on this machine, and {registry} did not give it: "
        f"{reason.rstrip('.')}. Correct the name (`docker images` lists those that are here), log "
        f"in by `{login_command(registry)}`, or build it by `trackside image build SCRIPT -t "
        f"{name}`."
    )
