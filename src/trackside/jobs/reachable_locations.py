"""Which locations of a job the machines that run it cannot reach."""

from collections.abc import Iterator
from pathlib import Path

from trackside.errors import Violation
from trackside.records.spec import JobSpec
from trackside.storage.reach import only_here


def is_of_this_machine(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")


def locations_of(spec: JobSpec) -> dict[str, str]:
    """Where the job reads and writes, except for its channels, by the member of the request.
    Locations below the output by default are not listed separately."""
    output = spec.output.uri
    parts = {
        "CheckpointConfig.S3Uri": spec.checkpoints,
        "TensorBoardOutputConfig.S3OutputPath": spec.tensorboard,
        "DebugHookConfig.S3OutputPath": spec.debug_hook,
        "ProfilerConfig.S3OutputPath": spec.profiler,
    }
    uris = {member: part.uri for member, part in parts.items() if part is not None}
    uris["HyperParameters.sagemaker_submit_directory"] = spec.source
    others = {member: uri for member, uri in uris.items() if uri and not uri.startswith(output)}
    return {"OutputDataConfig.S3OutputPath": output, **others}


def unreachable(
    spec: JobSpec,
    home: Path,
    *,
    buckets_url: str = "",
    has_loopback: bool = False,
    uploads_channels: bool = True,
) -> Iterator[Violation]:
    """Locations that only this machine reaches, of a job whose hosts are others: see `only_here`.
    Channels that are uploaded may be anywhere."""
    located = locations_of(spec)
    for number, channel in enumerate(spec.inputs):
        if not (uploads_channels and is_of_this_machine(channel.uri)):
            located[f"InputDataConfig[{number}].DataSource.S3DataSource.S3Uri"] = channel.uri
    for member, uri in located.items():
        if why := only_here(uri, home, buckets_url=buckets_url, has_loopback=has_loopback):
            yield Violation(member, uri, f"{why}, and {spec.options.placement} {_WAY_OUT}")


_WAY_OUT = (
    "runs jobs on others; give an s3:// location and set AWS_ENDPOINT_URL_S3 to a store that they "
    "reach, or submit to a `trackside server` with an address that they reach (--advertise)"
)
