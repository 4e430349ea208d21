"""Which image, or which interpreter, runs a job that a client sends.

Keys with admin rights may name any image. Others may name those of the server's two tables: an
image is pulled with the server's own registry credentials, and its programs run on this machine.
"""

from dataclasses import replace

from trackside.api.access_key import AccessKey
from trackside.containers import image_table
from trackside.containers.image_table import ALLOWED, TABLE, Row
from trackside.errors import Violation
from trackside.jobs.placement_traits import runs_images
from trackside.records.rights import Rights
from trackside.records.spec import DOCKER, JobSpec
from trackside.settings import Settings

IMAGE_FIELD = "AlgorithmSpecification.TrainingImage"


def runs_in_container(spec: JobSpec, settings: Settings) -> bool:
    row = image_table.look_up(spec.algorithm.image, settings.images)
    is_asked_for = spec.is_container or bool(row and row.image)
    return settings.sandbox == DOCKER or is_asked_for or runs_images(settings.placement)


def image_violations(spec: JobSpec, caller: AccessKey, settings: Settings) -> list[Violation]:
    """Why this caller's job cannot have its image; empty if it can."""
    if not runs_in_container(spec, settings):
        return _program_violations(spec)
    image = spec.algorithm.image
    row = image_table.look_up(image, settings.images)
    if row is not None and row.image:
        return []
    if not image:
        advice = (
            "is needed: this server runs jobs in containers, and has no image for those that name "
            f"none; its setting {TABLE} sets one by '*=docker:IMAGE'"
        )
        return [Violation(IMAGE_FIELD, None, advice)]
    is_admin = caller.rights.allow(Rights.ADMIN)
    if is_admin or image_table.is_allowed(image, settings.allow_images):
        return []
    known = [each.pattern for each in image_table.parse(settings.images) if each.image]
    allowed = [each.strip() for each in settings.allow_images.split(",") if each.strip()]
    advice = (
        "is not an image that this key may run here; it may run "
        f"{', '.join([*known, *allowed]) or 'none yet'}. The server's settings {TABLE} and "
        f"{ALLOWED} list them"
    )
    return [Violation(IMAGE_FIELD, image, advice)]


def placed(spec: JobSpec, settings: Settings) -> JobSpec:
    """With the sandbox, image and interpreter that this server chooses, whatever a client sent."""
    row = image_table.look_up(spec.algorithm.image, settings.images)
    own = replace(spec.options, image=None, image_id=None, image_digest=None)
    if runs_in_container(spec, settings):
        image = row.image if row else ""
        return replace(spec, options=replace(own, sandbox=DOCKER, image=image or None))
    if own.python is None:
        own = replace(own, python=_interpreter(row, settings))
    return replace(spec, options=own)


def _interpreter(row: Row | None, settings: Settings) -> str | None:
    """None is the interpreter that Trackside itself runs in."""
    if row is not None:
        return row.interpreter
    if settings.python:
        return image_table.find_program(settings.python, "TRACKSIDE_PYTHON")
    return None


def _program_violations(spec: JobSpec) -> list[Violation]:
    own = spec.options.module or spec.options.command
    if spec.entry_point or spec.algorithm.entrypoint or own:
        return []
    advice = (
        "is not run as a container here; name the script in the hyperparameter sagemaker_program "
        "(entry_point in the SDKs), or a ContainerEntrypoint, or start the server by `trackside "
        "server --sandbox docker`"
    )
    return [Violation(IMAGE_FIELD, spec.algorithm.image, advice)]
