"""One program, run on this machine and at a server: what it sees must be the same."""

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import ServerProcess
from tests.wait import until
from trackside import Estimator, TensorBoardOutputConfig, TrainingJob, attach, curves
from trackside.errors import (
    InputError,
    InvalidSpec,
    JobError,
    JobExists,
    JobFailed,
    JobNotFinished,
    JobNotFound,
    JobStopped,
    TracksideError,
)
from trackside.jobs.job_service import JobService
from trackside.jobs.stored_data import Stored
from trackside.records.journal import History
from trackside.records.layout import JobKeys
from trackside.records.status import Secondary, Status, StopCause
from trackside.sdk import git_state
from trackside.sdk.known_jobs import known_jobs
from trackside.storage.locate import locate_object
from trackside.texts.shown_names import wire_name

pytestmark = pytest.mark.timeout(400)

TRAIN = r"""
import os, sys, time
print("begun", sorted(os.listdir(os.environ.get("SM_CHANNEL_TRAINING", "."))), flush=True)
sys.stdout.buffer.write(b"no text: \xff\xfe\r\n50 %\r\n\ntwo\rparts")
sys.stdout.flush()
time.sleep(float(os.environ.get("PAUSE", "0")))
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as file:
    file.write("w")
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "the server's home") as server:
        yield server


@pytest.fixture(params=["embedded", "remote"])
def jobs(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> JobService:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    (tmp_path / "train.py").write_text(TRAIN)
    if request.param == "remote":
        request.getfixturevalue("server").use(monkeypatch)
    return known_jobs()


_serial = iter(range(1000))


def start(*, inputs=None, job_name: str = "", **arguments) -> TrainingJob:
    given = {"entry_point": "train.py", "debugger_hook_config": False, **arguments}
    estimator = Estimator(**given)
    name = job_name or f"job-{next(_serial)}-{time.time_ns()}"
    estimator.fit(inputs, wait=False, job_name=name)
    assert estimator.latest_training_job is not None
    return estimator.latest_training_job


def until_training(job: TrainingJob) -> None:
    until(lambda: job.describe()["SecondaryStatus"] == "Training")


def test_a_folder_of_this_machine_is_the_job_s_channel_and_the_model_comes_back(
    jobs: JobService, tmp_path: Path, capfd
):
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "a.txt").write_text("a")
    (tmp_path / "data" / "sub" / "b.txt").write_text("b")
    job = start(inputs="data")
    job.wait()
    shown = capfd.readouterr().out
    assert "begun ['a.txt', 'sub']" in shown
    assert "Training - Training in progress." in shown
    assert shown.rstrip().endswith("Completed - Training job completed")
    place = locate_object(job.model_data, home=jobs.settings.home)
    with tarfile.open(fileobj=io.BytesIO(place.store.get(place.key))) as model:
        assert model.getnames() == ["weights"]
    assert [each.uri for each in jobs.artifacts(job.name)] == [job.model_data]


def test_a_name_is_found_whole_and_by_its_beginning(jobs: JobService):
    name = f"found_{time.time_ns()}.v2"
    job = start(job_name=name)
    job.wait()
    wire = wire_name(name)
    assert (job.name, job.job_name) == (name, wire)
    assert job.describe()["TrainingJobName"] == attach(name).job_name == wire
    assert jobs.exists(wire)
    assert not jobs.exists(name)
    assert jobs.names_starting(wire[:-3]) == [wire]
    assert jobs.names_starting(wire[1:]) == []
    with pytest.raises(JobExists, match=name):
        start(job_name=name)


def test_details_tell_what_a_job_was_given(jobs: JobService):
    began = time.time() - 60
    first = start(hyperparameters={"lr": 0.1}, tags={"team": "vision"})
    first.wait()
    second = start(arguments=["--amp"], hyperparameters={"lr": 0.2})
    second.wait()
    rows = jobs.list(created_after=began, limit=2)
    assert [row.name for row in rows] == [second.name, first.name]
    assert jobs.list(created_before=began, limit=1) == []
    of_second, of_first = jobs.details(rows)
    assert (of_first.name, of_first.hyperparameters["lr"]) == (first.name, "0.1")
    assert of_first.tags == {"team": "vision"}
    assert first.describe()["Trackside"]["tags"] == {"team": "vision"}
    assert (of_second.name, of_second.tags) == (second.name, {})
    assert [*of_second.arguments] == ["--amp"]
    assert [of_first.curves, of_second.curves] == [first.curves_uri, second.curves_uri]
    assert [*jobs.details([])] == []


def test_the_commit_of_the_source_is_noted(
    jobs: JobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(git_state, "WAIT_SECONDS", 60.0)  # the machine may stand still
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for words in (["init", "-q"], ["add", "train.py"], [*who, "commit", "-qm", "First"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    job = start()
    job.wait()
    git = job.describe()["Trackside"]["options"]["Git"]
    assert (len(git["Commit"]), git["Changed"]) == (40, False)
    (tmp_path / "train.py").write_text(f"{TRAIN}\nAPI_KEY = 'hush-4711'\n")
    job = start()
    job.wait()
    options = job.describe()["Trackside"]["options"]
    assert options["Git"]["Changed"] is True
    assert options["Launch"] == {"Command": [*sys.orig_argv], "Folder": str(tmp_path)}
    keys = JobKeys(job.describe()["OutputDataConfig"]["S3OutputPath"], job.job_name)
    place = locate_object(keys.git_diff, home=jobs.settings.home)
    assert place.store.get(place.key).endswith(b"+\n+API_KEY = '***'\n")


def test_a_single_file_is_a_channel_too(jobs: JobService, tmp_path: Path, capfd):
    (tmp_path / "one.csv").write_text("1,2")
    start(inputs=str(tmp_path / "one.csv")).wait()
    assert "begun ['one.csv']" in capfd.readouterr().out


def test_the_log_comes_byte_for_byte(jobs: JobService):
    job = start()
    followed = b"".join(line.data for line in job.logs(follow=True))
    tail = b"no text: \xff\xfe\r\n50 %\r\n\ntwo\rparts"
    assert tail in followed
    assert b"".join(line.data for line in job.logs()) == followed


def test_each_host_of_a_job_has_a_log_of_its_own(jobs: JobService, capfd):
    job = start(instance_count=2)
    job.wait()
    shown = capfd.readouterr().out
    assert "algo-1 | begun" in shown
    assert "algo-2 | begun" in shown
    one = b"".join(line.data for line in job.logs(host="algo-2"))
    assert one.count(b"begun") == 1
    assert {line.host for line in job.logs()} == {"algo-1", "algo-2"}


def test_who_has_seen_a_part_of_the_log_goes_on_after_it(jobs: JobService):
    job = start()
    lines = list(job.logs(follow=True))
    for seen in (3, len(lines) - 2, len(lines)):
        after = {line.host: line.end for line in lines[:seen]}
        rest = b"".join(line.data for line in jobs.logs(job.name, after=after))
        assert rest == b"".join(line.data for line in lines[seen:])


RESTARTED = r"""
import os, signal, sys
mark = os.path.join(os.environ["MARKS"], os.environ["SM_CURRENT_HOST"])
number = 1 if not os.path.exists(mark) else 2
for line in range(5):
    print(os.environ["SM_CURRENT_HOST"], "attempt", number, "line", line, flush=True)
print("no end of a line", end="", flush=True)
if number == 1:
    open(mark, "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_reader_that_is_cut_off_goes_on_where_it_stopped(jobs: JobService, tmp_path: Path):
    (tmp_path / "train.py").write_text(RESTARTED)
    environment = {"MARKS": str(tmp_path)}
    job = start(instance_count=2, max_retry_attempts=3, environment=environment)
    seen: dict[str, list[int]] = {}
    read: dict[tuple[str, int], bytes] = {}
    is_over = False
    while not is_over:
        is_over = True
        kept = json.loads(json.dumps(seen))
        for number, line in enumerate(job.logs(follow=True, after=kept)):
            if number == 7:
                is_over = False
                break
            seen[line.host] = list(line.end)
            read[line.host, line.attempt] = read.get((line.host, line.attempt), b"") + line.data
    assert job.status is Status.COMPLETED
    whole: dict[tuple[str, int], bytes] = {}
    for line in job.logs():
        whole[line.host, line.attempt] = whole.get((line.host, line.attempt), b"") + line.data
    assert read == whole
    assert {attempt for _, attempt in whole} >= {1, 2}
    assert {host for host, _ in whole} == {"algo-1", "algo-2"}
    assert list(job.logs(after=seen)) == list(job.logs(after=seen, follow=True)) == []
    rest = job.logs(host="algo-2", after={**seen, "algo-2": [2, 0]})
    later = [data for (host, attempt), data in whole.items() if host == "algo-2" and attempt > 1]
    assert b"".join(line.data for line in rest) == b"".join(later)


@pytest.mark.parametrize("follow", [False, True])
def test_what_is_no_position_in_the_log_is_refused(jobs: JobService, follow: bool):
    job = start()
    for text in ("[1]", "[0, 0]", "[1, -1]", '["1", "0"]', "17"):
        wrong = json.loads(text)
        with pytest.raises(JobError, match=r"is no position in the log of 'algo-1'"):
            job.logs(follow=follow, after={"algo-1": wrong})
    with pytest.raises(JobError, match=r"has no host 'algo-2'. Its hosts: algo-1"):
        job.logs(follow=follow, after={"algo-2": [1, 0]})
    job.stop()
    jobs.wait(job.name)


def test_a_line_that_has_not_ended_is_shown_while_the_job_runs(jobs: JobService):
    job = start(environment={"PAUSE": "900"})
    data = b""
    for line in job.logs(follow=True):
        data += line.data
        if data.endswith(b"two\rparts"):
            break
    assert job.status is Status.IN_PROGRESS
    job.stop()
    assert jobs.wait(job.name).state.secondary is Secondary.STOPPED


def test_each_status_is_reported_once_and_the_end_comes_after_the_last_line(jobs: JobService):
    items = list(start().follow())
    assert isinstance(items[-1], History)
    assert items[-1].state.status is Status.COMPLETED
    reached = [each.secondary for each in items[-1].transitions]
    assert reached[0] == "Starting"  # and at a server it may wait before it starts
    assert reached[-4:] == ["Downloading", "Training", "Uploading", "Completed"]
    histories = [item for item in items if isinstance(item, History)]
    assert all(before != after for before, after in zip(histories, histories[1:], strict=False))


def test_a_failure_says_the_exit_code_and_the_last_lines(jobs: JobService):
    job = start(environment={"CODE": "7"})
    with pytest.raises(JobFailed) as caught:
        job.wait(logs=False)
    text = str(caught.value)
    assert "Exit code 7 on algo-1." in text
    assert "  | begun" in text
    assert f"`trackside logs {job.name}` prints it." in text


def test_a_stopped_job_keeps_what_it_made(jobs: JobService):
    job = start(environment={"PAUSE": "900"}, grace_seconds=1)
    until_training(job)
    assert jobs.stop(job.name).state.status in (Status.STOPPING, Status.STOPPED)
    assert jobs.wait(job.name).state.status is Status.STOPPED
    assert jobs.stop(job.name).state.status is Status.STOPPED  # again changes nothing
    with pytest.warns(UserWarning, match="is not Completed: somebody stopped it"):
        job.wait(logs=False)
    with pytest.raises(JobStopped) as stopped:
        job.raise_unless_completed()
    assert stopped.value.cause == StopCause.SOMEBODY


def test_arguments_reach_the_script_as_they_are(jobs: JobService, tmp_path: Path):
    (tmp_path / "args.py").write_text("import json, sys; print(json.dumps(sys.argv[1:]))\n")
    given = ["--amp", "", "a b", "model.lr=0.1", "ü😀", "--", "-x"]
    job = start(entry_point="args.py", arguments=given, hyperparameters={"epochs": 3})
    jobs.wait(job.name)
    printed = [line.data for line in job.logs() if line.data.startswith(b"[")]
    assert [json.loads(line) for line in printed] == [["--epochs", "3", *given]]
    assert job.describe()["Trackside"]["options"]["Arguments"] == given


def test_a_command_and_a_module_run_in_a_copy_of_the_folder(jobs: JobService, tmp_path: Path):
    (tmp_path / "args.py").write_text("import json, sys; print(json.dumps(sys.argv[1:]))\n")
    shell = ["sh", "-c", 'exec python args.py "$@"', "sh", "a b", "", "ü"]
    by_command = start(entry_point=None, command=shell)
    by_module = start(entry_point=None, module="args", arguments=["a b", "", "ü"])
    for job in (by_command, by_module):
        jobs.wait(job.name)
        job.raise_unless_completed()
        printed = [line.data for line in job.logs() if line.data.startswith(b"[")]
        assert [json.loads(line) for line in printed] == [["a b", "", "ü"]]
    assert by_command.describe()["Trackside"]["options"]["Command"] == shell


def test_arguments_in_one_text_are_refused(jobs: JobService):
    with pytest.raises(InvalidSpec, match=r"arguments = '--amp x': must be a list"):
        start(arguments="--amp x")


def test_a_job_has_a_time_limit_only_when_it_asks_for_one(jobs: JobService):
    free = start()
    assert free.describe()["Trackside"]["max_runtime_seconds"] is None
    assert free.describe()["StoppingCondition"] == {"MaxRuntimeInSeconds": 28 * 86400}
    cut = start(environment={"PAUSE": "900"}, grace_seconds=1, max_run=1)
    assert cut.describe()["Trackside"]["max_runtime_seconds"] == 1
    jobs.wait(cut.name)
    with pytest.raises(JobStopped, match="it reached its time limit of 1 s"):
        cut.raise_unless_completed()
    jobs.wait(free.name)
    free.raise_unless_completed()


def test_a_wait_that_takes_too_long_says_where_the_job_is(jobs: JobService):
    job = start(environment={"PAUSE": "900"}, grace_seconds=1)
    with pytest.raises(JobNotFinished, match=r"still \w+ after 0.3 s"):
        jobs.wait(job.name, timeout_seconds=0.3)
    job.stop()
    jobs.wait(job.name)


def test_a_description_has_the_same_members_and_types(jobs: JobService):
    job = start(tags={"team": "vision"}, hyperparameters={"CreationTime": 3})
    jobs.wait(job.name)
    reported = job.describe()
    assert (
        reported["TrainingJobArn"]
        == f"arn:aws:sagemaker:local:000000000000:training-job/{job.name}"
    )
    assert {key: type(value).__name__ for key, value in reported.items()} == {
        "TrainingJobName": "str",
        "TrainingJobArn": "str",
        "RoleArn": "str",
        "OutputDataConfig": "dict",
        "AlgorithmSpecification": "dict",
        "HyperParameters": "dict",
        "ResourceConfig": "dict",
        "StoppingCondition": "dict",
        "EnableManagedSpotTraining": "bool",
        "EnableNetworkIsolation": "bool",
        "EnableInterContainerTrafficEncryption": "bool",
        "ModelArtifacts": "dict",
        "TrainingJobStatus": "str",
        "SecondaryStatus": "str",
        "SecondaryStatusTransitions": "list",
        "CreationTime": "datetime",
        "LastModifiedTime": "datetime",
        "TrainingStartTime": "datetime",
        "TrainingEndTime": "datetime",
        "TrainingTimeInSeconds": "int",
        "BillableTimeInSeconds": "int",
        "Trackside": "dict",
    }
    assert reported["SecondaryStatusTransitions"][0]["StartTime"].tzinfo is not None
    assert reported["HyperParameters"]["CreationTime"] == "3"
    assert reported["Trackside"]["hosts"]["algo-1"]["exit_code"] == 0


def test_jobs_are_listed_newest_first_and_chosen_by_name_and_status(jobs: JobService):
    stem = f"listed-{time.time_ns()}"
    for number in range(3):
        jobs.wait(start(job_name=f"{stem}-{number}", environment={"CODE": str(number)}).name)

    def names(**wanted) -> list[str]:
        found = jobs.list(name_contains=stem, **wanted)
        return [each.name.removeprefix(f"{stem}-") for each in found]

    assert names() == ["2", "1", "0"]
    assert names(newest_first=False, limit=2) == ["0", "1"]
    assert names(status=Status.COMPLETED) == ["0"]
    assert names(status="Failed", limit=1) == ["2"]
    assert names(owner=jobs.owner, limit=1) == ["2"]
    assert names(owner="somebody else") == []
    assert jobs.list(name_contains=f"{stem}.") == []
    [summary] = jobs.list(name_contains=f"{stem}-0")
    assert summary.output == "s3://trackside"
    assert summary.training_started is not None
    assert summary.ended is not None
    assert summary.owner == jobs.owner
    assert jobs.describe(summary.name)["Trackside"]["owner"] == jobs.owner


def test_tags_are_changed_and_a_job_is_forgotten(jobs: JobService):
    job = start(tags={"team": "vision"}, environment={"PAUSE": "900"}, grace_seconds=1)
    put = jobs.change_tags(job.name, put={"a": "1"}, remove=["team"])
    assert put == jobs.tags(job.name) == {"a": "1"}
    with pytest.raises(JobNotFinished):
        jobs.delete(job.name)
    job.stop()
    jobs.wait(job.name)
    until(lambda: _is_deleted(jobs, job.name))
    with pytest.raises(JobNotFound):
        attach(job.name)


def test_a_job_has_a_note_that_can_be_replaced(jobs: JobService):
    job = start()
    text = "lr was too high;\ntry 1e-4 ✓"
    assert jobs.set_note(job.name, text) == text
    jobs.wait(job.name)
    assert job.describe()["Trackside"]["note"] == text
    assert jobs.tags(job.name) == {}
    [details] = jobs.details([row for row in jobs.list() if row.name == job.name])
    assert (details.note, details.num_hosts) == (text, 1)
    assert jobs.set_note(job.name, "") == job.describe()["Trackside"]["note"] == ""
    with pytest.raises(TracksideError, match="4,?000"):
        jobs.set_note(job.name, "x" * 4001)
    with pytest.raises(JobNotFound):
        jobs.set_note("none-of-these", "x")


def test_a_deleted_job_says_what_stays_or_takes_it_along(jobs: JobService):
    kept, gone = start(), start(tensorboard_output_config=TensorBoardOutputConfig("s3://curves"))
    for job in (kept, gone):
        jobs.wait(job.name)
    place = locate_object(gone.model_data, home=jobs.settings.home)
    until(lambda: _is_deleted(jobs, gone.name, data=True))
    assert list(place.store.list(f"{gone.name}/")) == []
    left: list[Stored] = []
    until(lambda: _is_deleted(jobs, kept.name, left))
    reported = {each.kind: each for each in left}
    assert reported["output"].uri == f"s3://trackside/{kept.name}/output"
    assert (
        reported["output"].size_bytes
        == place.store.stat(f"{kept.name}/output/model.tar.gz").size_bytes
    )
    assert "source" in reported


def _is_deleted(jobs: JobService, name: str, left: list[Stored] | None = None, **options) -> bool:
    try:
        stays = jobs.delete(name, **options)
        if left is not None:
            left += stays
    except JobNotFinished:
        return False  # its supervisor is still leaving
    return True


def test_a_name_is_taken_once(jobs: JobService, tmp_path: Path):
    job = start()
    jobs.wait(job.name)
    before = _etag(jobs, job)
    (tmp_path / "train.py").write_text("print('another')")
    with pytest.raises(JobExists, match=job.name):
        start(job_name=job.name)
    assert _etag(jobs, job) == before


def _etag(jobs: JobService, job: TrainingJob) -> str | None:
    uri = f"s3://trackside/{job.name}/source/sourcedir.tar.gz"
    place = locate_object(uri, home=jobs.settings.home)
    return place.store.stat(place.key).etag


def test_a_channel_without_data_is_refused(jobs: JobService, tmp_path: Path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="holds no files"):
        start(inputs="nothing")
    with pytest.raises(InputError, match="No S3 objects found"):
        start(inputs="s3://trackside/not/there")


def test_who_asks_for_what_is_not_there_is_reported(jobs: JobService):
    with pytest.raises(JobNotFound, match="nothing-here"):
        attach("nothing-here")
    with pytest.raises(JobNotFound):
        jobs.changes("nothing-here")
    job = start()
    jobs.wait(job.name)
    with pytest.raises(JobError, match="no host 'algo-9'"):
        list(job.logs(host="algo-9"))


def test_curves_are_read_from_where_the_job_wrote_them(jobs: JobService, tmp_path: Path):
    (tmp_path / "train.py").write_text(
        "from trackside import SummaryWriter\n"
        "with SummaryWriter('/opt/ml/output/tensorboard') as writer:\n"
        "    for step in range(10): writer.add_scalar('loss', 1 / (step + 1), step)\n"
    )
    config = TensorBoardOutputConfig("s3://trackside/tb")
    job = start(tensorboard_output_config=config)
    jobs.wait(job.name)
    assert jobs.failure_of(job.name) is None
    assert job.curves_uri == f"s3://trackside/tb/{job.name}/tensorboard-output"
    [series] = [each for each in curves.read(job.curves_uri).scalars.values() if each.tag == "loss"]
    assert list(series.steps) == list(range(10))
    assert [str(place) for place in jobs.curve_places(job.name)] == [job.curves_uri]
    assert "tensorboard" in {each.kind for each in jobs.artifacts(job.name)}


def test_what_a_script_leaves_beside_itself_is_brought_back(jobs: JobService, tmp_path: Path):
    (tmp_path / "train.py").write_text(
        "from trackside import SummaryWriter\n"
        "with SummaryWriter('runs') as writer: writer.add_scalar('loss', 1.0, 0)\n"
        "open('out.csv', 'w').write('step,loss')\n"
    )
    job = start()
    jobs.wait(job.name)
    assert jobs.failure_of(job.name) is None
    out, events = job.kept_files()
    assert (out.path, out.size_bytes) == ("out.csv", 9)
    assert events.path.startswith("runs/events.out.tfevents.")
    back = tmp_path / "back"
    assert job.bring_back(back) == [back / "out.csv", back / events.path]
    assert (back / "out.csv").read_text() == "step,loss"
    [series] = curves.read(back).scalars.values()
    assert series.run == "runs"
