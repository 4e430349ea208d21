"""What a case stands on: a fresh folder with a TRACKSIDE_HOME, the command line, a server, jobs.

When the case is over every process that works in the folder is ended, and that none is left is
checked; the folder goes too, unless it holds evidence.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from benchmarks.drill.case import Broke, NotShown, check
from benchmarks.drill.job import DrillJob
from benchmarks.drill.left_behind import end_processes_of
from benchmarks.drill.numbered_lines import NUMBERED
from benchmarks.drill.server import TRACKSIDE, Server
from trackside.errors import JobNotFound

T = TypeVar("T")

_OURS = ("AWS_", "S3_", "TRACKSIDE_", "SM_", "SAGEMAKER_", "GOOGLE_", "AZURE_")
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.005, 0.1
_COMMAND_SECONDS = 120.0


class Ground:
    def __init__(self, folder: Path, tell: Callable[[str], None] = lambda text: None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.evidence_folder = folder / "evidence"
        self.has_evidence = False
        self.tell = tell
        """Shows how far a long case is, on a terminal."""
        self.environment = _clean_environment(folder, self.home)
        """Of all that the case starts; a case may change it."""
        self.closing = ExitStack()
        """What is undone at the end, such as a mount."""
        self._num_jobs = 0

    def trackside(
        self,
        *arguments: str,
        at: Server | None = None,
        environment: Mapping[str, str] | None = None,
        expect: int | None = 0,
        seconds: float = _COMMAND_SECONDS,
    ) -> "subprocess.CompletedProcess[bytes]":
        """A command as a user types it; `at` a server, or for this home without one.

        `Broke` when it does not exit with `expect`; None takes any code.
        """
        done = subprocess.run(
            [*TRACKSIDE, *arguments],
            env={
                **self.environment,
                **(at.client_environment if at else {}),
                **(environment or {}),
            },
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
        )
        if expect is not None and done.returncode != expect:
            errors = done.stderr.decode(errors="replace").strip()[-600:]
            raise Broke(f"`trackside {' '.join(arguments)}` exited {done.returncode}: {errors}")
        return done

    def spawn(
        self, *arguments: str, at: Server | None = None, stdout: int = subprocess.DEVNULL
    ) -> "subprocess.Popen[bytes]":
        """A command of `trackside` that goes on beside the case."""
        process = subprocess.Popen(
            [*TRACKSIDE, *arguments],
            env={**self.environment, **(at.client_environment if at else {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
        )
        self.closing.callback(_reap, process)
        return process

    def server(
        self,
        *options: str,
        home: Path | None = None,
        program: Sequence[str] = TRACKSIDE,
        **variables: str,
    ) -> Server:
        """A running `trackside server` on loopback, with a port that stays its own.

        `program` is another one than `trackside`, such as one that dies at some point.
        """
        environment = {**self.environment, "TRACKSIDE_HOME": str(home or self.home), **variables}
        server = Server(home or self.home, environment, (*program, "server", *options))
        self.closing.callback(server.close)
        server.start()
        return server

    def submit(
        self,
        script: str,
        *options: str,
        name: str = "",
        at: Server | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> DrillJob:
        """`trackside run` on a script with this text; returns when the job is on disk."""
        self._num_jobs += 1
        name = name or f"drill-{self._num_jobs}"
        arguments = ("run", str(self.script(name, script)), "--name", name, *options)
        self.trackside(*arguments, at=at, environment=environment)
        return self.job(name, at=at)

    def script(self, name: str, text: str) -> Path:
        """A file with this text, in a folder of its own."""
        path = self.folder / "scripts" / name / "train.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return path

    def submit_numbered(
        self,
        lines: int,
        *options: str,
        pause: float = 0.01,
        hold_at: int | None = None,
        at: Server | None = None,
        name: str = "",
    ) -> DrillJob:
        """A job that prints numbered lines; with `hold_at` it waits there for `ground.go()`."""
        held = () if hold_at is None else ("-p", f"hold-at={hold_at}", "-p", f"go={self.go_file}")
        figures = ("-p", f"lines={lines}", "-p", f"pause={pause}")
        return self.submit(NUMBERED, *figures, *held, *options, at=at, name=name)

    def job(self, name: str, *, at: Server | None = None, home: Path | None = None) -> DrillJob:
        return DrillJob(self, name, at, home)

    @property
    def go_file(self) -> Path:
        return self.folder / "go"

    def go(self) -> None:
        """Scripts that wait go on."""
        self.go_file.touch()

    def until(
        self,
        condition: Callable[[], T],
        what: str,
        *,
        seconds: float = 60.0,
        pause: float = _LONGEST_SECONDS,
    ) -> T:
        """The first truthy answer; `Broke` when there is none in time. It is asked once more when
        the time is up: the machine may have stood still meanwhile."""
        deadline = time.monotonic() + seconds
        wait = min(_SHORTEST_SECONDS, pause)
        while True:
            is_late = time.monotonic() > deadline
            try:
                if answer := condition():
                    return answer
            except (OSError, ValueError, JobNotFound):
                pass  # files, servers and processes come and go while one looks at them
            if is_late:
                raise Broke(f"not within {seconds:g} s: {what}")
            time.sleep(wait)
            wait = min(pause, wait * 1.2)

    def evidence(self, name: str, data: bytes | str) -> Path:
        """Kept beyond the end of the case; the path is for `Result.seen`."""
        self.evidence_folder.mkdir(exist_ok=True)
        path = self.evidence_folder / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        self.has_evidence = True
        return path

    def small_disk(self, name: str, size: str = "24m", inodes: int | None = None) -> Path:
        """A file system of its own, unmounted at the end; `NotShown` without the right to mount."""
        place = self.folder / name
        place.mkdir()
        options = f"size={size}" + (f",nr_inodes={inodes}" if inodes else "")
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)],
            capture_output=True,
            text=True,
        )
        if mounted.returncode != 0:
            raise NotShown(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
        self.closing.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)
        return place

    def breakable_disk(self, name: str, megabytes: int = 64) -> "BreakableDisk":
        """Unmounted at the end; `NotShown` without mkfs.ext4 or the right to mount."""
        place = self.folder / name
        place.mkdir()
        disk = BreakableDisk(self.folder / f"{name}.img", place)
        with disk.image.open("wb") as file:
            file.truncate(megabytes << 20)
        try:
            _run("mkfs.ext4", "-q", str(disk.image))
            disk.mount()
        except OSError as error:
            raise NotShown(f"no ext4 can be mounted here: {error}") from error
        self.closing.callback(subprocess.run, ["umount", "--lazy", str(place)], check=False)
        return disk


class BreakableDisk:
    """An ext4 file system in a file, which turns read-only under open files as after an error."""

    def __init__(self, image: Path, place: Path) -> None:
        self.image, self.place = image, place

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.place))

    def turn_read_only(self) -> None:
        """For as long as anything of it is in use."""
        _run("mount", "-o", "remount,abort", str(self.place))

    def mount_anew(self) -> None:
        """As after a reboot; `OSError` while something uses it."""
        if os.path.ismount(self.place):
            _run("umount", str(self.place))
        if used := _run("losetup", "--associated", str(self.image)):
            raise OSError(f"the disk is still in use: {used}")
        _run("e2fsck", "-p", str(self.image), expect=(0, 1))
        self.mount()


def _run(*words: str, expect: tuple[int, ...] = (0,)) -> str:
    """What it printed."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in expect:
        raise OSError(f"`{' '.join(words)}` exited {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def fresh_ground(
    *, keep: bool, tell: Callable[[str], None] = lambda text: None
) -> Iterator[Ground]:
    """Nothing of it runs or is mounted afterwards, however the case ends."""
    folder = Path(tempfile.mkdtemp(prefix="trackside-drill-"))
    ground = Ground(folder, tell)
    ground.home.mkdir()
    try:
        yield ground
    finally:
        with _undisturbed():
            left = end_processes_of(folder)
            ground.closing.close()
            if not keep and not ground.has_evidence:
                shutil.rmtree(folder, ignore_errors=True)
            elif not keep:
                _leave_only(ground.evidence_folder)
    check(not left, f"processes are left that cannot be ended: {left}")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not keep the first from being cleaned up after."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave_only(evidence: Path) -> None:
    for path in evidence.parent.iterdir():
        if path != evidence:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def _reap(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def _clean_environment(folder: Path, home: Path) -> dict[str, str]:
    """No setting of whoever runs the drill leaks in, and none of theirs is written to."""
    theirs = {name: text for name, text in os.environ.items() if not name.startswith(_OURS)}
    user = folder / "user"
    user.mkdir()
    path = os.pathsep.join(path for path in sys.path if path)
    return {**theirs, "HOME": str(user), "TRACKSIDE_HOME": str(home), "PYTHONPATH": path}
