"""A job is accepted whole or not at all, by one of any number of submitters."""

import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import ENVIRON, make_jobs, make_spec, num_starts, run_to_end
from tests.wait import until
from trackside.errors import (
    AccessRefused,
    InputError,
    InvalidKey,
    InvalidSpec,
    JobExists,
    JobFailed,
    StorageError,
)
from trackside.files import durable
from trackside.jobs.drafts import DRAFT_SECONDS
from trackside.jobs.jobs import Jobs
from trackside.records.layout import Home
from trackside.records.status import Status
from trackside.settings import Settings


def check_nothing_is_left(home: Home) -> None:
    assert not home.jobs.exists() or os.listdir(home.jobs) == []


def channel(uri: str, **changes: Any) -> dict[str, Any]:
    source = {"S3Uri": uri, **changes}
    return {"ChannelName": "training", "DataSource": {"S3DataSource": source}}


def test_a_submitted_job_runs_and_its_spec_is_in_storage(jobs: Jobs, home: Home):
    spec = make_spec()
    jobs.submit(spec)
    assert run_to_end(jobs).state.status is Status.COMPLETED
    stored = durable.read_json(home.buckets / "out/runs/job-1/trackside/job.json")
    assert stored == spec.to_stored() == durable.read_json(home.job("job-1").spec)
    assert [path.name for path in home.jobs.iterdir()] == ["job-1"]


def test_the_submitter_s_environment_reaches_the_supervisor_and_no_file_of_ours(
    jobs: Jobs, home: Home
):
    jobs.submit(make_spec())
    run_to_end(jobs)
    starts = home.job("job-1").host("algo-1", 1).root / "starts"
    assert starts.read_text().split()[1] == ENVIRON["SECRET_TOKEN"]
    starts.unlink()
    files = [path for path in home.root.rglob("*") if path.is_file()]
    assert files
    assert all(ENVIRON["SECRET_TOKEN"].encode() not in path.read_bytes() for path in files)


def test_a_job_s_folder_is_closed_to_other_users(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    assert stat.S_IMODE(home.job("job-1").root.stat().st_mode) == 0o700


def test_a_supervisor_loads_the_settings_of_its_submitter(settings: Settings):
    assert Settings.load({"PATH": "/bin", **settings.variables}) == settings


def test_a_name_is_used_once(jobs: Jobs):
    jobs.submit(make_spec())
    with pytest.raises(JobExists, match="'job-1'"):
        jobs.submit(make_spec())
    run_to_end(jobs)
    with pytest.raises(JobExists):
        jobs.submit(make_spec())


def test_a_name_taken_in_the_output_location_by_another_machine_is_refused(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    run_to_end(jobs)
    shutil.rmtree(home.job("job-1").root)
    with pytest.raises(JobExists):
        jobs.submit(make_spec())
    check_nothing_is_left(home)


def race(settings: Settings, start: Any, won: Any) -> None:
    start.wait()
    try:
        make_jobs(settings).submit(make_spec())
        won.put(os.getpid())
    except JobExists:
        won.put(None)


def test_of_racing_submitters_one_wins_and_the_others_are_reported(settings: Settings, home: Home):
    context = multiprocessing.get_context("fork")
    start, won = context.Event(), context.Queue()
    racers = [context.Process(target=race, args=(settings, start, won)) for _ in range(8)]
    for racer in racers:
        racer.start()
    start.set()
    answers = [won.get(timeout=120) for _ in racers]
    for racer in racers:
        racer.join(120)
    assert len([answer for answer in answers if answer]) == 1
    run_to_end(make_jobs(settings))
    assert num_starts(home.job("job-1")) == 1
    assert [path.name for path in home.jobs.iterdir()] == ["job-1"]


def test_an_output_location_that_is_not_writable_is_named_and_nothing_is_left(
    jobs: Jobs, home: Home, tmp_path: Path
):
    file = tmp_path / "file"
    file.write_text("not a folder")
    spec = make_spec(OutputDataConfig={"S3OutputPath": str(file)})
    with pytest.raises(InvalidKey, match=f"The output location '{file}' cannot be used"):
        jobs.submit(spec)
    check_nothing_is_left(home)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_refused_output_location_is_reported_as_such(jobs: Jobs, home: Home, tmp_path: Path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(AccessRefused, match="cannot be used"):
        jobs.submit(make_spec(OutputDataConfig={"S3OutputPath": str(closed / "x")}))
    check_nothing_is_left(home)


def test_an_empty_channel_is_reported_in_the_service_s_words(jobs: Jobs, home: Home):
    with pytest.raises(InputError) as caught:
        jobs.submit(make_spec(InputDataConfig=[channel("s3://data/train")]))
    message = str(caught.value)
    assert (
        'No S3 objects found under S3 URL "s3://data/train" given in input data source.' in message
    )
    assert "Channel 'training' would be empty. Put the data there first" in message
    check_nothing_is_left(home)


def test_a_missing_folder_and_an_empty_one_are_distinguished(jobs: Jobs, tmp_path: Path):
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="'training': '.*missing' does not exist"):
        jobs.submit(make_spec(InputDataConfig=[channel(f"file://{missing}")]))
    with pytest.raises(InputError, match="'training': '.*empty' holds no files"):
        jobs.submit(make_spec(InputDataConfig=[channel(str(empty))]))


def test_a_manifest_must_be_there(jobs: Jobs, home: Home):
    manifest = channel("s3://data/list.json", S3DataType="ManifestFile")
    with pytest.raises(InputError, match="there is no manifest at 's3://data/list.json'"):
        jobs.submit(make_spec(InputDataConfig=[manifest]))


def test_a_channel_with_data_is_accepted(jobs: Jobs, home: Home):
    data = home.buckets / "data" / "train" / "part-0"
    data.parent.mkdir(parents=True)
    data.write_text("1")
    jobs.submit(make_spec(InputDataConfig=[channel("s3://data/tra")]))
    assert run_to_end(jobs).state.status is Status.COMPLETED


def test_paths_of_a_job_do_not_depend_on_where_its_supervisor_runs(
    jobs: Jobs, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").touch()
    monkeypatch.chdir(tmp_path)
    spec = make_spec(
        OutputDataConfig={"S3OutputPath": "results"},
        InputDataConfig=[channel("data")],
        CheckpointConfig={"S3Uri": "checkpoints"},
    )
    jobs.submit(spec)
    reported = jobs.describe("job-1")
    source = reported["InputDataConfig"][0]["DataSource"]["S3DataSource"]
    assert source["S3Uri"] == str(tmp_path / "data")
    assert reported["OutputDataConfig"]["S3OutputPath"] == str(tmp_path / "results")
    assert reported["CheckpointConfig"]["S3Uri"] == str(tmp_path / "checkpoints")
    run_to_end(jobs)
    assert (tmp_path / "results/job-1/output/model.tar.gz").exists()


def test_an_unknown_placement_is_refused_with_the_known_ones(jobs: Jobs, home: Home):
    with pytest.raises(
        InvalidSpec, match="Trackside.Placement = 'moon': is not known; known: kubernetes, local, "
    ):
        jobs.submit(make_spec(Trackside={"Placement": "moon"}))
    check_nothing_is_left(home)


def test_an_unknown_sandbox_is_refused_with_the_known_ones(jobs: Jobs, home: Home):
    with pytest.raises(
        InvalidSpec, match="Trackside.Sandbox = 'moon': is not known; known: process, docker"
    ):
        jobs.submit(make_spec(Trackside={"Sandbox": "moon"}))
    check_nothing_is_left(home)


def test_a_container_without_an_image_is_refused(jobs: Jobs, home: Home):
    with pytest.raises(InvalidSpec, match=r"Trackside\.Sandbox = 'docker': needs an image"):
        jobs.submit(make_spec(Trackside={"Sandbox": "docker"}))
    check_nothing_is_left(home)


def test_a_container_without_an_engine_is_refused_with_the_way_to_one(
    settings: Settings, home: Home, tmp_path: Path
):
    jobs = Jobs(settings, {"DOCKER_HOST": f"unix://{tmp_path}/no.sock"})
    image = {"TrainingImage": "my-training"}
    with pytest.raises(InvalidSpec) as caught:
        jobs.submit(make_spec(AlgorithmSpecification=image, Trackside={"Sandbox": "docker"}))
    text = str(caught.value)
    assert "'my-training': runs in a container. No Docker engine at unix://" in text
    assert "sudo systemctl start docker" in text
    assert "Jobs without an image need none" in text
    check_nothing_is_left(home)


def test_a_process_that_the_system_does_not_start_fails_the_job_at_once(
    settings: Settings, home: Home
):
    jobs = Jobs(settings, {"TORN": "a\0b"}, supervisor_command=["true"])
    with pytest.raises(JobFailed, match="The supervisor of algo-1 did not start: embedded null"):
        jobs.submit(make_spec())
    assert jobs.describe("job-1")["TrainingJobStatus"] == "Failed"


def test_a_supervisor_that_is_not_there_fails_the_job_and_its_log_says_so(
    settings: Settings, home: Home
):
    jobs = Jobs(settings, {}, supervisor_command=["/nonexistent/supervisor"])
    jobs.submit(make_spec())
    until(lambda: jobs.describe("job-1")["TrainingJobStatus"] == "Failed")
    reason = jobs.describe("job-1")["FailureReason"]
    assert reason.startswith(
        "InternalServerError: the supervisor of algo-1 died 4 times in a row; its log is"
    )
    log = home.job("job-1").host("algo-1", 1).supervisor_log
    assert str(log) in reason
    assert "/nonexistent/supervisor" in log.read_text()


KILLED_IN = """
import os, signal, sys
from tests.jobs.conftest import make_jobs, make_spec
from trackside.jobs import submit
from trackside.jobs.submit import Submission
from trackside.settings import Settings

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

step, when = sys.argv[1:]
owner = Submission if hasattr(Submission, step) else submit
original = getattr(owner, step)
def dying(*arguments, **options):
    if when == "before":
        die()
    original(*arguments, **options)
    die()
setattr(owner, step, dying)
make_jobs(Settings.load()).submit(make_spec())
"""


def submit_and_die(settings: Settings, step: str, when: str) -> None:
    root = Path(__file__).parents[2]
    environ = {**ENVIRON, **settings.variables, "TRACKSIDE_S3": "embedded"}
    environ["PYTHONPATH"] += f":{root}"
    command = [sys.executable, "-c", KILLED_IN, step, when]
    died = subprocess.run(command, env=environ, cwd=root, check=False)
    assert died.returncode == -signal.SIGKILL


OWN_SOURCE = "s3://out/runs/job-1/source/sourcedir.tar.gz"


def test_the_code_that_comes_with_a_job_is_stored_before_it_starts(jobs: Jobs, home: Home):
    spec = make_spec(hyper={"sagemaker_submit_directory": OWN_SOURCE})
    jobs.submit(spec, source=iter([b"code ", b"of it"]))
    stored = home.buckets / "out/runs/job-1/source/sourcedir.tar.gz"
    assert stored.read_bytes() == b"code of it"
    assert run_to_end(jobs).state.status is Status.COMPLETED


def test_a_job_whose_code_was_never_stored_is_withdrawn(jobs: Jobs, home: Home):
    spec = make_spec(hyper={"sagemaker_submit_directory": OWN_SOURCE})

    def dying() -> Iterator[bytes]:
        yield b"half of"
        shutil.copytree(home.job("job-1").root, home.root / "as it was", dirs_exist_ok=True)
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        jobs.submit(spec, source=dying())
    check_nothing_is_left(home)
    shutil.move(home.root / "as it was", home.job("job-1").root)  # as a SIGKILL leaves it
    jobs.reconcile("job-1")
    check_nothing_is_left(home)
    jobs.submit(spec, source=[b"whole"])
    assert run_to_end(jobs).state.status is Status.COMPLETED


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["_announce", "start_all"])
def test_a_job_whose_submitter_was_killed_after_the_claim_runs_once(
    settings: Settings, home: Home, step: str, when: str
):
    submit_and_die(settings, step, when)
    jobs = make_jobs(settings)
    assert run_to_end(jobs).state.status is Status.COMPLETED
    assert num_starts(home.job("job-1")) == 1
    assert (home.buckets / "out/runs/job-1/trackside/job.json").exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_submitter_killed_before_the_claim_leaves_the_name_free(
    settings: Settings, home: Home, when: str
):
    submit_and_die(settings, "_write_placed", when)
    jobs = make_jobs(settings)
    assert jobs.list() == []
    jobs.submit(make_spec())
    run_to_end(jobs)
    [draft] = [path for path in home.jobs.iterdir() if path.name.startswith(".")]
    long_ago = draft.stat().st_mtime - DRAFT_SECONDS - 1
    os.utime(draft, (long_ago, long_ago))
    jobs.reconcile()
    assert [path.name for path in home.jobs.iterdir()] == ["job-1"]


def test_submitting_imports_nothing_slow(settings: Settings, home: Home):
    script = (
        "import sys; from trackside.jobs.jobs import Jobs; from trackside.settings import Settings;"
        "from trackside.records.spec import JobSpec; import os;"
        f"spec = JobSpec.from_request({make_spec().to_request()!r});"
        "Jobs(Settings.load(), os.environ, supervisor_command=['true']).submit(spec);"
        "print(*sys.modules)"
    )
    environ = {**ENVIRON, **settings.variables, "TRACKSIDE_S3": "embedded"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, check=True, capture_output=True, text=True
    )
    slow = {
        "_hashlib",
        "obstore",
        "rich",
        "typer",
        "asyncio",
        "psutil",
        "concurrent",
        "http",
        "multiprocessing",
    }
    assert slow & set(done.stdout.split()) == set()


def test_any_storage_error_names_the_output_location(jobs: Jobs, home: Home):
    spec = make_spec(OutputDataConfig={"S3OutputPath": "s3://x"})
    with pytest.raises(StorageError, match="The output location 's3://x' cannot be used"):
        jobs.submit(spec)
    check_nothing_is_left(home)


def test_a_source_is_stored_only_by_the_job_that_got_the_name(jobs: Jobs, home: Home):
    place = home.buckets / "code" / "sourcedir.tar.gz"
    spec = make_spec(hyper={"sagemaker_submit_directory": '"s3://code/sourcedir.tar.gz"'})
    jobs.submit(spec, source=iter([b"fir", b"st"]))
    assert place.read_bytes() == b"first"
    with pytest.raises(JobExists):
        jobs.submit(spec, source=iter([b"second"]))
    assert place.read_bytes() == b"first"


def test_only_the_process_itself_may_say_that_its_script_runs_already(jobs: Jobs, home: Home):
    spec = make_spec(Trackside={"Sandbox": "attached"})
    assert spec.is_attached
    with pytest.raises(InvalidSpec, match=r"Trackside\.Sandbox = 'attached'"):
        jobs.submit(spec)
    with pytest.raises(InvalidSpec, match=r"Trackside\.Sandbox = 'attached'"):
        jobs.enqueue(spec, key="k", who="me")
    check_nothing_is_left(home)
