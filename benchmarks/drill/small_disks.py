"""Disks that are full, out of inodes, or read-only (cases 25 to 28). Mounting them needs root."""

import os
import shutil
import sqlite3
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.drill.case import Case, Result, check, held, partly
from benchmarks.drill.ground import BreakableDisk, Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.left_behind import end_processes_of
from benchmarks.drill.numbered_lines import MARK, count_lines
from benchmarks.drill.server import Server
from benchmarks.training_request import training_request
from trackside.records.status import Status

_OUT = "out"


def _home_on_disk(ground: Ground, size: str = "24m", inodes: int | None = None) -> Path:
    """The ground's home is on the small disk from now on; results go elsewhere."""
    disk = ground.small_disk("disk", size, inodes)
    home = disk / "home"
    home.mkdir()
    ground.home = home
    ground.environment["TRACKSIDE_HOME"] = str(home)
    return disk


def _fill(disk: Path) -> Path:
    """Until not another byte fits; removing the file makes room again."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


_PRINTS = f"""
import os, time
for number in range(3000):
    print("{MARK}", number, flush=True)
    while number == 999 and not os.path.exists(os.environ["FULL"]): time.sleep(0.02)
    while number == 1999 and not os.path.exists(os.environ["GO"]): time.sleep(0.02)
open("/opt/ml/model/m.txt", "w").write("trained")
"""
_OUTLIVES = _PRINTS.replace(
    "    while number == 1999",
    "    if number == 1999: open(os.environ['ALIVE'], 'w').write('2000')\n    while number == 1999",
)


def full_while_printing(ground: Ground) -> Result:
    """The script prints on; what was not kept is counted in the log, and the end is written."""
    disk = _home_on_disk(ground)
    full = ground.folder / "full"
    job = _submit(ground, _PRINTS, FULL=str(full))
    job.wait_for_line(f"{MARK} 999")
    filler = _fill(disk)
    full.touch()
    reported = _keep_full(ground, disk, job, seconds=8.0)
    filler.unlink()
    ground.go()
    history = job.wait_over()
    check(
        history.state.status is Status.COMPLETED,
        f"the training ended {job.status}: {history.failure_reason}",
    )
    log = job.log()
    lines = count_lines(log, 3000)
    check(not lines.doubled and lines.in_order, str(lines))
    markers = [line for line in log.splitlines() if line.startswith(b"[trackside]")]
    if lines.lost:
        check(markers, f"{len(lines.lost)} lines are missing and no marker says so")
    figure = f"{lines}; {len(markers)} markers of bytes not kept; the end is recorded"
    if not reported:
        return partly(figure, "`trackside show` did not say that the disk is full")
    return held(figure)


def _keep_full(ground: Ground, disk: Path, job: DrillJob, seconds: float) -> bool:
    """Whatever room somebody makes is taken; whether `show` told of the full disk."""
    deadline = time.monotonic() + seconds
    reported = False
    while time.monotonic() < deadline:
        _fill(disk)
        shown = ground.trackside("show", job.name, expect=None)
        reported = reported or b"disk full" in shown.stdout.lower() + shown.stderr.lower()
        time.sleep(0.2)
    return reported


def full_while_packing(ground: Ground) -> Result:
    """The archive does not fit beside the model: Failed with the way out, the model untouched."""
    _home_on_disk(ground)
    script = "import os; open('/opt/ml/model/m.bin', 'wb').write(os.urandom(16 << 20))"
    job = ground.submit(script, environment={"TRACKSIDE_UPLOAD_DEADLINE": "3"})
    history = job.wait_over()
    reason = history.failure_reason or ""
    check(job.status == "Failed", f"the job is {job.status}")
    check(f"trackside upload {job.name}" in reason, f"the way out is not in {reason!r}")
    kept = (job.host().ml / "model" / "m.bin").stat().st_size
    check(kept == 16 << 20, f"{kept} of {16 << 20} bytes of the model are kept")
    half = list((ground.home / "buckets").rglob("model.tar.gz*"))
    check(not half, f"half written: {half}")
    return held(f"Failed with the way out, {kept:,} bytes kept, 0 half objects")


def full_under_server(ground: Ground) -> Result:
    """The API says 503, nothing is half made, and it recovers; also when it starts like that."""
    disk = _home_on_disk(ground)
    server = ground.server()
    sagemaker = server.client("sagemaker")
    before = ground.submit("print(1)", at=server, name="before")
    before.wait_over()
    script = str(ground.script("while-full", "print(2)"))
    filler = _fill(disk)
    refused = 0
    for number in range(5):
        done = ground.trackside("run", script, "--name", f"full-{number}", at=server, expect=None)
        check(done.returncode != 0, "a job was taken that nobody could record")
        refused += 1
    listed = sagemaker.list_training_jobs()["TrainingJobSummaries"]
    names = [each["TrainingJobName"] for each in listed]
    check(names == ["before"], f"listed while the disk is full: {names}")
    code = _code_of_create(sagemaker)
    server.kill()
    with suppress(OSError):
        _fill(disk)
    started = _starts(ground, server)
    filler.unlink()
    if not server.is_alive():
        server.start()
    after = ground.submit("print(3)", at=server, name="after")
    history = after.wait_over()
    check(after.status == "Completed", f"{after.status}: {history.failure_reason}")
    integrity = _integrity(ground.home / "index.sqlite")
    check(integrity == "ok", f"the index: {integrity}")
    return held(
        f"{refused + 1} submissions refused ({code}), 1 job listed, {started}; "
        "recovers with space, integrity_check ok"
    )


def _code_of_create(sagemaker: Any) -> str:
    try:
        sagemaker.create_training_job(**training_request("by-boto3"))
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        check(status == 503, f"CreateTrainingJob on a full disk: {status} {error}")
        return f"{status} {error.response['Error']['Code']}"
    check(False, "CreateTrainingJob was accepted on a full disk")
    return ""


def _starts(ground: Ground, server: Any) -> str:
    """It starts, or says in one sentence which disk is full."""
    process = ground.spawn("server", "--listen", f"127.0.0.1:{server.port}", stdout=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while process.poll() is None and not server.answers() and time.monotonic() < deadline:
        time.sleep(0.05)
    if process.poll() is None:
        process.kill()
        process.wait()
        return "a start on the full disk succeeds"
    done = ground.trackside("server", "--listen", f"127.0.0.1:{server.port}", expect=None)
    text = done.stderr.decode(errors="replace").strip()
    check(str(ground.home) in text, f"a start on the full disk says only {text[-300:]!r}")
    return "a start on the full disk names it"


def _integrity(index: Path) -> str:
    connection = sqlite3.connect(index)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()


def no_inodes_or_read_only(ground: Ground) -> Result:
    """No file can be made for a while; a disk turns read-only under open files, as on an error."""
    no_inodes = _no_inodes(ground)
    ground.go_file.unlink()
    return held(f"{no_inodes}; {_read_only(ground)}")


def _no_inodes(ground: Ground) -> str:
    """The training goes on, its end is written when that is possible."""
    disk = _home_on_disk(ground, "64m", inodes=2000)
    full = ground.folder / "full"
    job = _submit(ground, _PRINTS, FULL=str(full))
    job.wait_for_line(f"{MARK} 999")
    (disk / "many").mkdir()
    made = 0
    with suppress(OSError):
        while True:
            (disk / "many" / str(made)).touch()
            made += 1
    check(made > 100, f"only {made} files were made before inodes ended")
    full.touch()
    time.sleep(5)
    refused = ground.trackside("run", str(ground.script("late", "")), "--name", "late", expect=None)
    check(refused.returncode != 0, "a job was taken without an inode for its folder")
    shutil.rmtree(disk / "many")
    ground.go()
    history = job.wait_over()
    check(job.status == "Completed", f"{job.status}: {history.failure_reason}")
    lines = count_lines(job.log(), 3000)
    check(lines.is_exact, str(lines))
    return f"no inodes for 5 s: {lines}, a new job is refused"


def _read_only(ground: Ground) -> str:
    """Training and server go on and say what is the matter; after a reboot all that was on the disk
    is there, and the job has an end. Such a file system does not come back before."""
    disk = ground.breakable_disk("breaks")
    ground.home = disk.place / "home"
    ground.home.mkdir()
    ground.environment["TRACKSIDE_HOME"] = str(ground.home)
    server = ground.server()
    before = ground.submit("print(1)", at=server, name="before-error")
    before.wait_over()
    broken, alive = ground.folder / "broken", ground.folder / "alive"
    job = _submit(ground, _OUTLIVES, at=server, FULL=str(broken), ALIVE=str(alive))
    job.wait_for_line(f"{MARK} 999")
    os.sync()
    disk.turn_read_only()
    broken.touch()
    ground.until(alive.exists, "the script goes on although the disk is read-only")
    answers = _answers_while_read_only(ground, server, job)
    check(alive.read_text() == "2000", "the script did not get as far as it should")
    _reboot(ground, server, disk)
    kept = count_lines(job.raw_log(), 1000)
    check(kept.is_exact, f"of 1,000 lines on the disk: {kept}")
    server.start()
    history = job.wait_over()
    after = ground.submit("print(3)", at=server, name="after-error")
    after.wait_over()
    check(after.status == before.status == "Completed", f"{before.status}, {after.status}")
    integrity = _integrity(ground.home / "index.sqlite")
    check(integrity == "ok", f"the index: {integrity}")
    return (
        f"read-only after an error: the script goes on, {answers}; after a reboot {kept} of 1,000 "
        f"on the disk, the job is {history.state.status}, the next one Completed"
    )


def _answers_while_read_only(ground: Ground, server: Server, job: DrillJob) -> str:
    for at in (None, server):
        shown = ground.trackside("show", job.name, at=at).stdout.decode()
        check("read-only" in shown, f"`trackside show` does not say that the disk is: {shown}")
    sagemaker = server.client("sagemaker")
    names = {
        each["TrainingJobName"] for each in sagemaker.list_training_jobs()["TrainingJobSummaries"]
    }
    check(names == {"before-error", job.name}, f"listed: {sorted(names)}")
    reported = sagemaker.describe_training_job(TrainingJobName=job.name)["TrainingJobStatus"]
    check(reported == "InProgress", f"the job is {reported}")
    code = _code_of_create(sagemaker)
    late = str(ground.script("late-error", ""))
    for at in (None, server):
        refused = ground.trackside("run", late, "--name", "late-error", at=at, expect=None)
        text = refused.stderr.decode()
        check(refused.returncode != 0, "a job was taken that nobody could record")
        check("read-only" in text.lower(), f"`trackside run` says only {text[-300:]!r}")
    return f"`show` says so, reads are answered, new jobs refused ({code})"


def _reboot(ground: Ground, server: Server, disk: BreakableDisk) -> None:
    """Nothing lives on, and the file system is checked and mounted again."""
    server.kill()
    left = end_processes_of(ground.folder)
    check(not left, f"processes that cannot be ended: {left}")
    ground.until(lambda: disk.mount_anew() or True, "the disk is mounted again", seconds=30)


def _submit(ground: Ground, script: str, at: Server | None = None, **variables: str) -> DrillJob:
    given = {"GO": str(ground.go_file), **variables}
    words = [word for name, value in given.items() for word in ("--environment", f"{name}={value}")]
    output = () if at else ("--output", str(ground.folder / _OUT))
    return ground.submit(script, *words, *output, at=at)


CASES = (
    Case(25, "disk full while the script prints", full_while_printing, seconds=25),
    Case(26, "disk full while the model is packed", full_while_packing, seconds=10),
    Case(27, "disk full under the server", full_under_server, seconds=25),
    Case(28, "no inodes, read-only disk", no_inodes_or_read_only, seconds=45),
)
