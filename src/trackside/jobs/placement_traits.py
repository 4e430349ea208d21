"""What those who do not place jobs themselves need to know of a placement, by its name."""

from dataclasses import replace

from trackside.errors import InvalidSpec, Violation
from trackside.placement.choose import UnknownPlacement, placement_class
from trackside.records.placed import LOCAL
from trackside.records.spec import PROCESS, JobSpec

_IMAGE_FIELD = "AlgorithmSpecification.TrainingImage"


def runs_images(name: str) -> bool:
    """Whether the engine itself runs the images of jobs; not if it is unknown."""
    if name == LOCAL:
        return False
    try:
        return placement_class(name).runs_images
    except UnknownPlacement:
        return False


def caution_of(name: str) -> str:
    """A sentence for everybody who asks for it; empty if there is nothing to say."""
    if name == LOCAL:
        return ""
    try:
        clause = placement_class(name).caution
    except UnknownPlacement:
        return ""
    return f"{clause}." if clause else ""


def in_its_image(spec: JobSpec) -> JobSpec:
    """The job as its hosts run it: where the engine runs its image, the script is a process in the
    supervisor's container. `InvalidSpec` without an image or a program."""
    name = spec.options.placement
    if not runs_images(name):
        return spec
    if not spec.image:
        advice = f"is needed: {name} runs jobs in images; name one with Trackside in it (--image)"
        raise InvalidSpec([Violation(_IMAGE_FIELD, None, advice)])
    named = spec.entry_point or spec.options.module or spec.options.command
    if not (named or spec.algorithm.entrypoint):
        advice = (
            f"is run by {name} with Trackside in it, which starts a program; name a script "
            "(entry_point), a module, a command or a ContainerEntrypoint"
        )
        raise InvalidSpec([Violation(_IMAGE_FIELD, spec.image, advice)])
    return replace(spec, options=replace(spec.options, sandbox=PROCESS))
