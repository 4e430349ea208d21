"""Whether an estimator's job runs in a container: if it names an image."""

from collections.abc import Iterator, Mapping
from typing import Any

from trackside.errors import Violation
from trackside.records.spec import DOCKER
from trackside.settings import Settings


def choose_sandbox(request: dict[str, Any], settings: Settings) -> bool:
    """Whether this machine runs it in a container; the request then says so.

    TRACKSIDE_IMAGES may name another image for it, or an interpreter of this machine.
    """
    image = request.get("AlgorithmSpecification", {}).get("TrainingImage")
    if image is None:
        return False
    from trackside.containers import image_table  # most jobs name no image

    options = request.get("Trackside", {})
    row = image_table.look_up(image, settings.images)
    if row is not None and row.program:
        request["Trackside"] = {"Python": row.interpreter, **options}
        return False
    chosen = {"Image": row.image} if row is not None else {}
    request["Trackside"] = {**options, "Sandbox": DOCKER, **chosen}
    return True


def container_problems(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    image = arguments.get("image_uri")
    if image is None:
        if arguments.get("shm_gb") is not None:
            advice = "is the size of a container's /dev/shm; give image_uri too, or leave it out"
            yield Violation("shm_gb", arguments["shm_gb"], advice)
        if arguments.get("read_only_root"):
            advice = "is for the files of an image; give image_uri too, or leave it out"
            yield Violation("read_only_root", True, advice)
    elif arguments.get("in_place"):
        advice = "is for processes of this machine; leave it out, so that the image gets a copy"
        yield Violation("in_place", True, advice)
