"""Provides a host's inputs before its script starts: the code, its checkpoints, its channels."""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from trackside.errors import ArchiveError, InputError, TracksideError
from trackside.files.extract import extract
from trackside.files.permissions import close_tree_to_others
from trackside.records import hosts
from trackside.records.layout import WORKING_FOLDER, HostFolder
from trackside.records.spec import Channel, JobSpec
from trackside.storage.locate import entries_below, locate, locate_object
from trackside.storage.store import check_key
from trackside.storage.thread_pool import StopFlag
from trackside.storage.transfer import SMALL_BYTES, download
from trackside.supervisor.config_files import synced_folders

if TYPE_CHECKING:
    from trackside.supervisor.channel_objects import ChannelObject
    from trackside.supervisor.pipes import Feeder

logger = logging.getLogger(__name__)

ANNOUNCE_SECONDS = 0.5


class Inputs:
    """Owns what stays open while the script runs: the feeders of piped channels."""

    def __init__(self, spec: JobSpec, host: str, folder: HostFolder, home: Path) -> None:
        self._spec = spec
        self._host = host
        self._folder = folder
        self._home = home
        self._feeders: list[Feeder] = []
        self.copied: dict[str, Sequence[ChannelObject]] = {}
        """The objects of channels that were copied as a whole, by the channel's name."""
        # Folders that the script sees outside /opt/ml.
        self.mounts: dict[str, Path] = {
            path: folder.inside(path)
            for path in synced_folders(spec)
            if not path.startswith("/opt/ml/")
        }
        if spec.options.in_place is not None:
            self.mounts[WORKING_FOLDER] = Path(spec.options.in_place)
        self.read_only: frozenset[str] = frozenset()
        self.of_bucket: frozenset[str] = frozenset()

    def provide(
        self,
        meter: "Meter",
        *,
        stop: StopFlag,
        can_mount: bool,
        can_show: Callable[[Path], bool] = lambda folder: True,
    ) -> list[str]:
        """Provide everything. Returns notes for the user; a repeated call continues."""
        self._unpack_source(stop)
        self._restore_checkpoints(meter, stop)
        return self._provide_channels(meter, stop, can_mount, can_show)

    def resume(self) -> None:
        """Feed the pipes of a running script: its feeders died with the supervisor."""
        piped = [channel for channel in self._spec.inputs if self._is_piped(channel)]
        if not piped:
            return
        from trackside.supervisor.channel_objects import assign  # as below
        from trackside.supervisor.channels import feed_again

        data = self._folder.script_folder(self._folder.ml / "input" / "data")
        for channel in piped:
            assignment = assign(self._spec, channel, self._host)
            if assignment is not None:
                self._feed(feed_again(channel, assignment, data, home=self._home))

    def _feed(self, feeder: "Feeder") -> None:
        self._feeders.append(feeder)
        feeder.start()

    def _is_piped(self, channel: Channel) -> bool:
        return (channel.input_mode or self._spec.algorithm.input_mode) == "Pipe"

    def _provide_channels(
        self,
        meter: "Meter",
        stop: StopFlag,
        can_mount: bool,
        can_show: Callable[[Path], bool],
    ) -> list[str]:
        if not self._spec.inputs:
            return []
        # Saves 40 ms at the start of a job without channels.
        from trackside.supervisor.channel_objects import assign
        from trackside.supervisor.channels import provide

        notes: list[str] = []
        for channel in self._spec.inputs:
            assignment = assign(self._spec, channel, self._host)
            if assignment is None:
                continue
            meter.begin(f"Downloading channel {channel.name}")
            data = self._folder.ml / "input" / "data"
            provided = provide(
                channel,
                assignment,
                data,
                home=self._home,
                can_mount=can_mount,
                can_show=can_show,
                expect=meter.expect,
                progress=meter,
                stop=stop,
            )
            self.mounts.update(provided.mounts)
            self.read_only |= provided.read_only
            self.of_bucket |= provided.of_bucket
            notes.extend(provided.notes)
            if provided.objects and assignment.count == 1:
                self.copied[channel.name] = provided.objects
            if provided.feeder is not None:
                self._feed(provided.feeder)
        return notes

    @property
    def is_fed(self) -> bool:
        """Whether there are pipes to feed."""
        return bool(self._feeders)

    def check(self) -> None:
        """Raise the error of a piped channel, if there is one."""
        for feeder in self._feeders:
            try:
                feeder.check()
            except TracksideError:
                raise
            except Exception as error:  # any error of its thread
                raise InputError(f"A piped channel ended: {error!r}") from error

    def close(self) -> None:
        for feeder in self._feeders:
            try:
                feeder.close()
            except InputError as error:
                logger.warning("%s", error)

    def _unpack_source(self, stop: StopFlag) -> None:
        """The code that the user sent, or none: an image or the machine may already have it."""
        in_place = self._spec.options.in_place
        if in_place is not None and not os.path.isdir(in_place):
            raise InputError(f"The folder {in_place!r}, which the job runs in, is not there.")
        source = self._spec.source
        if source is None:
            return
        code = self._folder.ml / "code"
        shutil.rmtree(code, ignore_errors=True)
        # The client that coordination has opened already; who calls this tries again.
        place = locate_object(source.rstrip("/"), home=self._home, hurried=True)
        if place.local is not None and place.local.is_dir():
            shutil.copytree(place.local, code, symlinks=True)
            close_tree_to_others(code)
        elif place.local is not None:
            _extract(place.local, code)
        else:
            with tempfile.TemporaryDirectory(dir=self._folder.root) as temporary:
                archive = Path(temporary, "sourcedir.tar.gz")
                entry = place.store.stat(place.key)
                if entry.size_bytes > SMALL_BYTES:
                    place = locate_object(source.rstrip("/"), home=self._home)
                download(place.store, [(entry, archive)], stop=stop)
                _extract(archive, code)

    def _restore_checkpoints(self, meter: "Meter", stop: StopFlag) -> None:
        if self._spec.checkpoints is None:
            return
        source = locate(self._spec.checkpoints.uri, home=self._home)
        target = self._folder.inside(self._spec.checkpoints.local_path.rstrip("/"))
        meter.begin("Restoring checkpoints")
        files = []
        for name, entry in entries_below(source):
            check_key(name)  # other programs write there too, and a name may be a link
            files.append((entry, target / name))
        meter.expect(len(files), sum(entry.size_bytes for entry, _ in files))
        download(source.store, files, progress=meter, stop=stop)
        for entry, path in files:
            os.utime(path, ns=(entry.modified_ns,) * 2)  # so that the sync recognizes it


class Meter:
    """Counts a transfer into the host's record, and reports it from time to time."""

    def __init__(self, progress: hosts.Progress, announce: Callable[[], None]) -> None:
        self._progress = progress
        self._announce = announce
        self._announced = time.monotonic()
        self._lock = Lock()

    def begin(self, what: str) -> None:
        self._progress.what = what
        self._progress.done_files = self._progress.num_files = 0
        self._progress.done_bytes = self._progress.size_bytes = 0

    def expect(self, num_files: int, size_bytes: int) -> None:
        self._progress.num_files = num_files
        self._progress.size_bytes = size_bytes

    def add(self, num_files: int, size_bytes: int) -> None:
        with self._lock:  # called from several threads
            self._progress.done_files += num_files
            self._progress.done_bytes += size_bytes
            if time.monotonic() - self._announced > ANNOUNCE_SECONDS:
                self._announced = time.monotonic()
                self._announce()


def _extract(archive: Path, code: Path) -> None:
    try:
        extract(archive, code)
    except ArchiveError as error:
        raise InputError(f"The source archive cannot be unpacked: {error}") from error
