"""Uploads a job's local files to where the server's jobs find them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from trackside.errors import InvalidSpec, JobExists, ObjectNotFound, StorageError, Violation
from trackside.jobs.channel_check import check_channels
from trackside.jobs.channel_upload import uploads_of, with_uploads
from trackside.jobs.reachable_locations import is_of_this_machine, locations_of
from trackside.records.layout import Home, JobKeys
from trackside.records.spec import Channel, JobSpec
from trackside.remote.api_client import ApiClient
from trackside.storage.locate import Location, locate_object


@dataclass(frozen=True, slots=True)
class JobUploads:
    """One job's uploads: its spec as written on this machine, the packed code, and other files."""

    spec: JobSpec
    client: ApiClient
    home: Path
    source: Iterable[bytes] | None
    files: Mapping[str, bytes]
    _sent: list[Location] = field(default_factory=list)

    def check(self) -> None:
        """`InvalidSpec`, `InputError` or `JobExists` before anything is sent."""
        if wrong := [*_local_paths(self.spec, self.client.url), *_no_text(self.spec)]:
            raise InvalidSpec(wrong)
        here = replace(self.spec, inputs=tuple(filter(_is_here, self.spec.inputs)))
        check_channels(here, Home(self.home))
        self._check_unused()

    def upload(self) -> JobSpec:
        """Returns the spec for the server: with the new locations of this machine's channels."""
        for uri, content in self.files.items():
            self._send(uri, content)
        uploads = uploads_of(self.spec, self.home)
        for each in uploads:
            self._sent.extend(each.targets.values())
            each.send()
        if self.source is not None and self.spec.source is not None:
            self._send(self.spec.source, self.source)
        return with_uploads(self.spec, uploads)

    def take_back(self) -> None:
        """Remove everything uploaded for a job that was refused."""
        for place in self._sent:
            with suppress(StorageError):  # the refusal matters more
                place.store.delete([place.key])

    def _check_unused(self) -> None:
        """Code is uploaded before the name is claimed: another job's code must not be replaced."""
        place = locate_object(JobKeys.of(self.spec).spec, home=self.home, hurried=True)
        try:
            found = [entry.key for entry in place.store.list(place.key)]
        except ObjectNotFound:
            scheme, _, bucket, *_ = place.uri.split("/")
            if scheme != "s3:":
                raise
            self.client.make_bucket(bucket)
            return
        if place.key in found:
            raise JobExists(self.spec.name)

    def _send(self, uri: str, content: bytes | Iterable[bytes]) -> None:
        place = locate_object(uri, home=self.home)
        self._sent.append(place)
        place.store.put(place.key, content)


def _is_here(channel: Channel) -> bool:
    return is_of_this_machine(channel.uri)


def _no_text(spec: JobSpec) -> Iterator[Violation]:
    """Arguments with bytes that JSON cannot represent."""
    for member, words in (
        ("Trackside.Arguments", spec.options.arguments),
        ("Trackside.Command", spec.options.command),
    ):
        for index, word in enumerate(words):
            if any("\ud800" <= character <= "\udfff" for character in word):
                advice = "is no UTF-8, which a job at a server needs"
                yield Violation(f"{member}[{index}]", word, advice)


def _local_paths(spec: JobSpec, url: str) -> Iterator[Violation]:
    for member, uri in locations_of(spec).items():
        if is_of_this_machine(uri):
            advice = f"is of this machine, and the job runs at {url}; give an s3:// location"
            yield Violation(member, uri, advice)
