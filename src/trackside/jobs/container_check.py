"""Whether this machine can run a job in containers, decided before the job is made."""

from collections.abc import Mapping
from dataclasses import replace

from trackside.containers.engine_client import Engine, EngineError, find_engine
from trackside.containers.images import Image, find_image, obtain_image
from trackside.errors import InvalidSpec, Violation
from trackside.records.spec import DOCKER, JobSpec

_IMAGE_FIELD = "AlgorithmSpecification.TrainingImage"


def with_image(spec: JobSpec, environ: Mapping[str, str]) -> JobSpec:
    """The job with its image's content recorded; the image is pulled if it is missing.

    `InvalidSpec` without an image or an engine, `ImageError` if it cannot be pulled.
    """
    if not spec.image:
        raise InvalidSpec([_needs_image()])
    engine = Engine(find_engine(environ))
    try:
        engine.call("GET", "/version")
    except EngineError as error:
        advice = f"runs in a container. {error}"
        raise InvalidSpec([Violation(_IMAGE_FIELD, spec.image, advice)]) from error
    return _recorded(spec, obtain_image(engine, spec.image, environ))


def check_elsewhere(spec: JobSpec) -> None:
    """Of a job whose hosts are other machines: their engines get the image, not this one's.
    `InvalidSpec` for what containers of several machines cannot have."""
    if not spec.image:
        raise InvalidSpec([_needs_image()])
    if spec.network_isolation and len(spec.hosts) > 1:
        advice = (
            f"cannot be had by containers on several machines ({spec.options.placement}), which "
            "use the machines' own network; leave it out, or use one instance"
        )
        raise InvalidSpec([Violation("EnableNetworkIsolation", True, advice)])


def with_known_image(spec: JobSpec, environ: Mapping[str, str]) -> JobSpec:
    """The same without a pull: what is not here yet is pulled when the job starts."""
    try:
        image = find_image(Engine(find_engine(environ)), spec.image)
    except EngineError:
        return spec
    return spec if image is None else _recorded(spec, image)


def _needs_image() -> Violation:
    advice = "needs an image; name it in AlgorithmSpecification.TrainingImage (image_uri)"
    return Violation("Trackside.Sandbox", DOCKER, advice)


def _recorded(spec: JobSpec, image: Image) -> JobSpec:
    own = replace(spec.options, image_id=image.id, image_digest=image.digest or None)
    return replace(spec, options=own)
