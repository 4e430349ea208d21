"""Whether this machine can run a job in containers, decided before the job is made."""

from collections.abc import Mapping

from trackside.containers.engine_client import Engine, EngineError, find_engine
from trackside.errors import InvalidSpec, Violation
from trackside.records.spec import DOCKER, JobSpec

IMAGE_FIELD = "AlgorithmSpecification.TrainingImage"


def check_container(spec: JobSpec, environ: Mapping[str, str]) -> None:
    """`InvalidSpec`, with the way out, for a job without an image or a machine without an
    engine."""
    if not spec.image:
        advice = "needs an image; name it in AlgorithmSpecification.TrainingImage (image_uri)"
        raise InvalidSpec([Violation("Trackside.Sandbox", DOCKER, advice)])
    try:
        Engine(find_engine(environ)).call("GET", "/version")
    except EngineError as error:
        advice = f"runs in a container. {error}"
        raise InvalidSpec([Violation(IMAGE_FIELD, spec.image, advice)]) from error
