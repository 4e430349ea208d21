"""What a source archive of very many small members costs: against Python's tarfile and GNU tar.

Processor time of a process of its own for each, into memory where the machine has a folder there:
what a disk adds is the same for all.
"""

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from benchmarks.report import Comparison, Target

MEMORY = Path("/dev/shm")
OURS = "trackside"
TARFILE = "tarfile, filter='data'"
GNU_TAR = "GNU tar"

WITH_TRACKSIDE = (
    "import sys; from pathlib import Path; from trackside.files.extract import extract\n"
    "extract(Path(sys.argv[1]), Path(sys.argv[2]))"
)
WITH_TARFILE = (
    "import sys, tarfile\n"
    "with tarfile.open(sys.argv[1]) as tar: tar.extractall(sys.argv[2], filter='data')"
)


def run(quick: bool) -> list[Comparison]:
    members = 20_000 if quick else 200_000
    folder = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="trackside-bench-", dir=folder) as scratch:
        archive = Path(scratch, "many.tar.gz")
        write_archive(archive, members)
        figures = {
            name: processor_seconds(command, archive, Path(scratch, f"target-{number}"))
            for number, (name, command) in enumerate(programs().items())
        }
    return [
        Comparison(
            title=f"Unpacking {members:,} empty files in {members // 1000} folders",
            unit="seconds of processor time",
            figures=figures,
            targets=(Target(TARFILE, 3.0),) if TARFILE in figures else (),
            notes=(f"In {'memory' if folder else 'the temporary folder'}.",),
        )
    ]


def programs() -> dict[str, list[str]]:
    found = {OURS: [sys.executable, "-c", WITH_TRACKSIDE]}
    if hasattr(tarfile, "data_filter"):
        found[TARFILE] = [sys.executable, "-c", WITH_TARFILE]
    if tar := shutil.which("tar"):
        found[GNU_TAR] = ["sh", "-c", f'mkdir "$1" && exec {tar} -xzf "$0" -C "$1"']
    return found


def write_archive(path: Path, members: int) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file, tarfile.open(None, "w|", file) as tar:
        for number in range(members):
            tar.addfile(tarfile.TarInfo(f"folder-{number // 1000}/file-{number}"))


def processor_seconds(command: list[str], archive: Path, target: Path) -> float:
    process = subprocess.Popen([*command, str(archive), str(target)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
