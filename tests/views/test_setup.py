"""What a job is made of, of real jobs on this machine and at a server."""

import io
import os
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.server_process import ServerProcess
from tests.wait import until
from trackside import Estimator, TrainingJob
from trackside.errors import ArchiveError, ObjectNotFound
from trackside.jobs.described_locations import keys_of
from trackside.jobs.job_service import JobService
from trackside.sdk import git_state
from trackside.sdk.known_jobs import known_jobs
from trackside.storage.locate import locate_object
from trackside.views.job.job_files import open_file
from trackside.views.job_setup import code_files
from trackside.views.job_setup.code_diff import code_diff
from trackside.views.job_setup.setup import GIT_DIFF, code_of, setup_of

TRAIN = """\
import os
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as file:
    file.write("w")
with open("out.csv", "w") as file:
    file.write("1,2,3")
"""
WAITS = """\
import pathlib, time
while not pathlib.Path('{go}').exists():
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(params=["embedded", "remote"])
def jobs(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> JobService:
    workplace = tmp_path / "work"
    workplace.mkdir()
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setattr(git_state, "WAIT_SECONDS", 60.0)  # the machine may stand still
    (workplace / "train.py").write_text(TRAIN)
    if request.param == "remote":
        request.getfixturevalue("server").use(monkeypatch)
    return known_jobs()


def run(inputs: str | None = None, **arguments: object) -> TrainingJob:
    given = {"entry_point": "train.py", "debugger_hook_config": False, **arguments}
    estimator = Estimator(**given)  # type: ignore[arg-type]
    estimator.fit(inputs, logs="None", job_name=f"job-{time.time_ns()}")
    assert estimator.latest_training_job is not None
    return estimator.latest_training_job


def git(*words: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    subprocess.run(["git", *who, *words], check=True, capture_output=True)


def test_packages_are_known_while_the_script_runs(jobs: JobService):
    name = f"job-{time.time_ns()}"
    Path("train.py").write_text(WAITS.format(go=Path("go").absolute()))
    estimator = Estimator(entry_point="train.py", debugger_hook_config=False)
    estimator.fit(wait=False, job_name=name)

    until(lambda: setup_of(jobs, name).packages)

    setup = setup_of(jobs, name)
    assert setup.python == sys.version.split()[0]
    assert "numpy" in setup.packages
    assert jobs.describe(name)["TrainingJobStatus"] == "InProgress"
    Path("go").touch()
    until(lambda: jobs.describe(name)["TrainingJobStatus"] == "Completed")
    assert setup_of(jobs, name).packages == setup.packages


def test_everything_that_is_recorded_is_shown(jobs: JobService):
    git("init", "-q", "-b", "feature")
    git("add", "train.py")
    git("commit", "-qm", "First")
    Path("train.py").write_text(f"{TRAIN}password = 'hush-4711'\n")
    Path("data").mkdir()
    Path("data", "a.csv").write_text("1,2\n")
    job = run(
        "data",
        arguments=["--amp", "--token", "hush-4711"],
        hyperparameters={"lr": 0.1, "api_key": "hush-4711"},
        environment={"MODE": "fast", "HF_TOKEN": "hush-4711"},
        tags={"team": "vision"},
    )

    setup = setup_of(jobs, job.job_name)

    assert "hush-4711" not in str(setup.to_json())
    assert setup.command.startswith("trackside run train.py --source-dir ")
    assert "--tag team=vision" in setup.command
    assert setup.command_notes == ["secrets, shown as ***"]
    assert setup.typed == shlex.join(sys.orig_argv)
    assert setup.arguments == ["--amp", "--token", "***"]
    assert setup.hyperparameters == {"lr": "0.1", "api_key": "***"}
    assert setup.environment == {"MODE": "fast", "HF_TOKEN": "***"}
    assert setup.git is not None
    assert (setup.git.branch, setup.git.is_changed, setup.git.diff) == ("feature", True, True)
    assert setup.python == sys.version.split()[0]
    assert setup.packages["pytest"] == version("pytest")
    assert setup.machine["kernel"] == f"Linux {os.uname().release}"
    [channel] = setup.channels
    assert (channel.name, channel.mode, channel.files, channel.bytes) == ("training", "File", 1, 4)
    assert len(channel.digest) == 64
    assert [(each.path, each.bytes) for each in setup.files] == [("train.py", len(TRAIN) + 23)]
    assert [each.name for each in setup.artifacts] == ["output/model.tar.gz", "files/out.csv"]
    assert [each.bytes for each in setup.artifacts][1] == 5
    assert setup.history[-1].status == "Completed"
    assert [each.time for each in setup.history] == sorted(each.time for each in setup.history)
    diff = code_of(jobs, job.job_name, GIT_DIFF)
    assert "+password = '***'\n" in diff.text
    text = code_of(jobs, job.job_name, "train.py")
    assert text.text == f"{TRAIN}password = '***'\n"


def test_a_running_job_is_shown_as_far_as_it_is_known(jobs: JobService, tmp_path: Path):
    go = tmp_path / "go"
    Path("train.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
    )
    estimator = Estimator(entry_point="train.py", debugger_hook_config=False)
    estimator.fit(wait=False, job_name=f"job-{time.time_ns()}")
    job = estimator.latest_training_job
    assert job is not None
    until(lambda: setup_of(jobs, job.job_name).machine)
    setup = setup_of(jobs, job.job_name)
    assert [each.path for each in setup.files] == ["train.py"]
    assert setup.artifacts == []
    assert setup.history[-1].status == "Training"
    until(lambda: setup_of(jobs, job.job_name).packages)
    go.touch()
    job.wait(logs="None")
    assert setup_of(jobs, job.job_name).packages


def test_files_are_opened_as_they_were_stored_and_no_others(jobs: JobService):
    job = run()
    file = open_file(jobs, job.job_name, "files/out.csv")
    assert file.pieces is not None
    assert b"".join(file.pieces()) == b"1,2,3"
    model = open_file(jobs, job.job_name, "output/model.tar.gz")
    assert model.pieces is not None
    with tarfile.open(fileobj=io.BytesIO(b"".join(model.pieces()))) as archive:
        assert archive.getnames() == ["weights"]
    for name in ("output", "../job.json", "trackside/job.json", "files/../out.csv", "", "/etc/x"):
        with pytest.raises(ObjectNotFound):
            open_file(jobs, job.job_name, name)


def test_a_list_of_artifacts_that_names_files_of_others_opens_none_of_them(jobs: JobService):
    job = run()
    keys = keys_of(jobs.describe(job.job_name))
    place = locate_object(keys.artifacts, home=jobs.settings.home)
    other = f"{keys.output}/another-job/output/model.tar.gz"
    place.store.put(place.key, f'[{{"uri": "{other}", "size_bytes": 1, "sha256": "0"}}]'.encode())
    assert [each.name for each in setup_of(jobs, job.job_name).artifacts] == ["files/out.csv"]
    with pytest.raises(ObjectNotFound):
        open_file(jobs, job.job_name, "output/model.tar.gz")


def test_the_code_of_two_jobs_is_compared_line_by_line(jobs: JobService):
    Path("helper.py").write_text("x = 1\n")
    first = run(source_dir=".")
    Path("helper.py").unlink()
    Path("train.py").write_text(f"{TRAIN}print(1)\n")
    second = run(source_dir=".")
    changed = code_diff(jobs, first.job_name, second.job_name)
    assert [(each.path, each.status) for each in changed] == [
        ("helper.py", "removed"),
        ("train.py", "changed"),
    ]
    assert changed[1].hunks[0].lines[-1] == ("+", "print(1)")
    assert code_diff(jobs, first.job_name, first.job_name) == []


def test_what_is_not_recorded_is_left_out(jobs: JobService):
    """As of jobs of older versions."""
    job = run()
    keys = keys_of(jobs.describe(job.job_name))
    place = locate_object(keys.spec, home=jobs.settings.home)
    below = [keys.packages("algo-1"), keys.machine("algo-1"), keys.source]
    place.store.delete([locate_object(uri, home=jobs.settings.home).key for uri in below])
    setup = setup_of(jobs, job.job_name)
    assert (setup.python, setup.packages, setup.machine) == ("", {}, {})
    assert (setup.git, setup.files, setup.channels) == (None, [], [])
    for path in ("train.py", GIT_DIFF):
        with pytest.raises(ObjectNotFound):
            code_of(jobs, job.job_name, path)


def test_damaged_records_are_left_out(jobs: JobService):
    job = run()
    keys = keys_of(jobs.describe(job.job_name))
    for uri in (keys.packages("algo-1"), keys.machine("algo-1"), keys.source):
        place = locate_object(uri, home=jobs.settings.home)
        place.store.put(place.key, b"{]")
    setup = setup_of(jobs, job.job_name)
    assert (setup.python, setup.machine, setup.files) == ("", {}, [])
    with pytest.raises(ArchiveError):
        code_of(jobs, job.job_name, "train.py")


def stored_code(
    jobs: JobService, job: TrainingJob, *members: tuple[tarfile.TarInfo, bytes]
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    place = locate_object(keys_of(jobs.describe(job.job_name)).source, home=jobs.settings.home)
    place.store.put(place.key, packed.getvalue())


def test_a_hostile_archive_shows_names_and_nothing_of_this_machine(
    jobs: JobService, monkeypatch: pytest.MonkeyPatch
):
    job = run()
    link = tarfile.TarInfo("link.py")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    stored_code(
        jobs,
        job,
        (tarfile.TarInfo("../../outside.py"), b"x = 1\n"),
        (link, b""),
        (tarfile.TarInfo("<script>.py"), b"\xff\xfe text"),
        (tarfile.TarInfo("model.bin"), b"\0\1\2"),
        (tarfile.TarInfo("large.py"), b"y" * 5000),
    )
    monkeypatch.setattr(code_files, "MOST_TEXT_BYTES", 1000)
    names = [each.path for each in setup_of(jobs, job.job_name).files]
    assert names == ["<script>.py", "large.py", "model.bin", "outside.py"]
    assert code_of(jobs, job.job_name, "<script>.py").text == "\ufffd\ufffd text"
    assert code_of(jobs, job.job_name, "model.bin").binary
    large = code_of(jobs, job.job_name, "large.py")
    assert (len(large.text), large.truncated) == (1000, True)
    for path in ("link.py", "../../outside.py", "/etc/passwd"):
        with pytest.raises(ObjectNotFound):
            code_of(jobs, job.job_name, path)


def test_of_an_archive_beyond_the_limits_the_first_files_are_shown(
    jobs: JobService, monkeypatch: pytest.MonkeyPatch
):
    job = run()
    members = [(tarfile.TarInfo(f"{n}.py"), os.urandom(200_000)) for n in range(10)]
    stored_code(jobs, job, *members)
    monkeypatch.setattr(code_files, "MOST_ARCHIVE_BYTES", 1_000_000)
    assert len(setup_of(jobs, job.job_name).files) in range(2, 7)
    monkeypatch.setattr(code_files, "MOST_PACKED_BYTES", 500_000)
    assert len(setup_of(jobs, job.job_name).files) in range(1, 4)
