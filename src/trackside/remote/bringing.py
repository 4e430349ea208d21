"""What a job takes along from this machine, brought to where the server's jobs find it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trackside.errors import InvalidSpec, JobExists, ObjectNotFound, Violation
from trackside.jobs.inputs import check_channels
from trackside.layout import Home, JobKeys
from trackside.remote.api_client import ApiClient
from trackside.spec import Channel, JobSpec
from trackside.storage.folder import FolderStore
from trackside.storage.locate import locate, locate_object
from trackside.storage.transfer import upload


@dataclass(frozen=True, slots=True)
class Luggage:
    """One job's: its spec as this machine wrote it, the packed code, and other files."""

    spec: JobSpec
    client: ApiClient
    home: Path
    source: Iterable[bytes] | None
    files: Mapping[str, bytes]

    def check(self) -> None:
        """`InvalidSpec`, `InputError` or `JobExists` before anything is sent."""
        if wrong := [*_places_here(self.spec, self.client.url)]:
            raise InvalidSpec(wrong)
        here = replace(self.spec, inputs=tuple(filter(_is_here, self.spec.inputs)))
        check_channels(here, Home(self.home))
        self._check_unused()

    def bring(self) -> JobSpec:
        """The spec as the server is to have it: with channels of this machine where they are
        then."""
        for uri, content in self.files.items():
            place = locate_object(uri, home=self.home)
            place.store.put(place.key, content)
        inputs = tuple(map(self._brought, self.spec.inputs))
        if self.source is not None and self.spec.source is not None:
            place = locate_object(self.spec.source, home=self.home)
            place.store.put(place.key, self.source)
        return replace(self.spec, inputs=inputs)

    def _check_unused(self) -> None:
        """Code is sent before the name is this job's: that of another job must not be replaced."""
        place = locate_object(JobKeys.of(self.spec).spec, home=self.home, hurried=True)
        try:
            found = [entry.key for entry in place.store.list(place.key)]
        except ObjectNotFound:
            self.client.make_bucket(place.uri.split("/")[2])
            return
        if place.key in found:
            raise JobExists(self.spec.name)

    def _brought(self, channel: Channel) -> Channel:
        if not _is_here(channel):
            return channel
        place = locate(channel.uri, home=self.home)
        assert isinstance(place.store, FolderStore)
        uri = JobKeys.of(self.spec).input(channel.name)
        target = locate(f"{uri}/", home=self.home)
        root = place.store.root
        keys = [entry.key for entry in place.store.list(place.key)]
        upload(target.store, ((root / key, f"{target.key}{key}") for key in keys))
        return replace(channel, uri=f"{uri}/{place.key}")


def _is_here(channel: Channel) -> bool:
    return _is_of_this_machine(channel.uri)


def _is_of_this_machine(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")


def _places_here(spec: JobSpec, url: str) -> Iterator[Violation]:
    """What lies below the output for want of another place is not told besides."""
    output = spec.output.uri
    parts = {
        "CheckpointConfig.S3Uri": spec.checkpoints,
        "TensorBoardOutputConfig.S3OutputPath": spec.tensorboard,
        "DebugHookConfig.S3OutputPath": spec.debug_hook,
        "ProfilerConfig.S3OutputPath": spec.profiler,
    }
    uris = {field: part.uri for field, part in parts.items() if part is not None}
    uris["HyperParameters.sagemaker_submit_directory"] = spec.source
    others = {field: uri for field, uri in uris.items() if uri and not uri.startswith(output)}
    for field, uri in {"OutputDataConfig.S3OutputPath": output, **others}.items():
        if _is_of_this_machine(uri):
            advice = f"is of this machine, and the job runs at {url}; give an s3:// location"
            yield Violation(field, uri, advice)
