"""What differs for a client that is not where the job runs: the way there, and servers that die."""

import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.fault_proxy import Fault, FaultProxy
from tests.server_process import TRACKSIDE, ServerProcess
from tests.wait import until
from trackside import Estimator, Rule, TensorBoardOutputConfig, TrainingJob, rule_configs
from trackside.errors import (
    InputError,
    InvalidSpec,
    JobExists,
    JobNotFinished,
    KeyRefused,
    OnlyAtServer,
    ServerError,
    StorageError,
)
from trackside.jobs.logs import LogLine
from trackside.profiles import Key, Server
from trackside.records.journal import History
from trackside.records.layout import Home
from trackside.records.status import Status
from trackside.remote.remote_jobs import RemoteJobs
from trackside.sdk.known_jobs import jobs_of_this_machine, known_jobs
from trackside.settings import Settings
from trackside.storage.locate import locate_object

TRAIN = """
import os, time
for number in range(int(os.environ.get("NUM_LINES", "3"))):
    print("line", number, flush=True)
    while number == 3 and not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
"""


@pytest.fixture(autouse=True)
def script(workplace: Path) -> None:
    (workplace / "train.py").write_text(TRAIN)


def start(name: str = "", **arguments) -> TrainingJob:
    given = {"entry_point": "train.py", "debugger_hook_config": False, **arguments}
    estimator = Estimator(**given)
    estimator.fit(wait=False, job_name=name or f"job-{time.time_ns()}")
    assert estimator.latest_training_job is not None
    return estimator.latest_training_job


def run_to_end(job: TrainingJob) -> None:
    history = known_jobs().wait(job.name)
    assert history.state.status is Status.COMPLETED, history.failure_reason


def test_a_follower_goes_on_when_the_server_was_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with ServerProcess(tmp_path / "server home") as server:
        server.use(monkeypatch)
        go = tmp_path / "go"
        job = start(environment={"NUM_LINES": "40", "GO": str(go)})
        seen: list[History | LogLine] = []
        collected: list[bytes] = []

        def collect() -> None:
            for item in job.follow():
                seen.append(item)
                if isinstance(item, LogLine):
                    collected.append(item.data)

        follower = threading.Thread(target=collect)
        follower.start()
        until(lambda: b"line 3\n" in collected)
        server.kill()
        go.touch()
        until(lambda: _has_written(server.home, job.name, b"line 20\n"))
        assert b"line 20\n" not in collected
        server.start()
        follower.join(200)
        assert not follower.is_alive()
    lines = [data for data in collected if data.startswith(b"line ")]
    assert lines == [f"line {number}\n".encode() for number in range(40)]
    assert isinstance(seen[-1], History)
    assert seen[-1].state.status is Status.COMPLETED


def _has_written(home: Path, name: str, line: bytes) -> bool:
    return line in Home(home).job(name).host("algo-1", 1).log.read_bytes()


def test_a_create_whose_answer_was_lost_is_no_failure(
    server: ServerProcess, faulty_server: FaultProxy, monkeypatch
):
    server.use(monkeypatch, faulty_server.url)
    faulty_server.inject(Fault("CreateTrainingJob", times=2, loses_reply=True))
    rule = Rule.sagemaker(rule_configs.loss_not_decreasing())
    job = start(tags={"a": "b"}, rules=[rule], debugger_hook_config=None)
    assert faulty_server.count("CreateTrainingJob") == 3
    run_to_end(job)


def test_another_s_job_of_the_name_is_not_taken_for_ours(
    server: ServerProcess, faulty_server: FaultProxy, monkeypatch
):
    """It came between our look whether the name is free and our request, which was not answered."""
    server.use(monkeypatch, faulty_server.url)
    name = f"theirs-{time.time_ns()}"

    def come_between() -> None:
        other = RemoteJobs(Server(server.url, Key(server.key.id, server.secret)), Settings.load())
        theirs = Estimator(entry_point="train.py", environment={"NUM_LINES": "1"}).spec(
            job_name=name
        )
        other.submit(theirs, source=[b"not ours"])

    faulty_server.inject(Fault("CreateTrainingJob", status=503, meanwhile=come_between))
    with pytest.raises(JobExists):
        start(name)
    assert faulty_server.count("CreateTrainingJob") == 2


def test_places_of_this_machine_are_refused_all_at_once(server: ServerProcess, monkeypatch):
    server.use(monkeypatch)
    with pytest.raises(InvalidSpec) as caught:
        start(
            output_path="out",
            checkpoint_s3_uri="file:///tmp/checkpoints",
            tensorboard_output_config=TensorBoardOutputConfig("curves"),
        )
    text = str(caught.value)
    assert text.startswith("3 problems")
    assert "\n  output_path = '/" in text
    assert "\n  checkpoint_s3_uri = 'file:///tmp/checkpoints': is of this machine" in text
    assert f"the job runs at {server.url}; give an s3:// location" in text


def test_an_argument_that_is_no_text_is_refused_before_it_is_sent(
    server: ServerProcess, monkeypatch
):
    server.use(monkeypatch)
    with pytest.raises(InvalidSpec, match=r"arguments\[1\] = '\\udcff': is no UTF-8"):
        start(arguments=["--name", "\udcff"])


def test_of_a_job_that_is_refused_nothing_stays(server: ServerProcess, monkeypatch, workplace):
    server.use(monkeypatch)
    (workplace / "data").mkdir()
    (workplace / "data" / "a.txt").write_text("a")
    name = f"refused-{time.time_ns()}"
    estimator = Estimator(entry_point="train.py", debugger_hook_config=False)
    channels = {"here": "data", "there": "s3://trackside/not/there"}
    with pytest.raises(InputError, match="No S3 objects found"):
        estimator.fit(channels, wait=False, job_name=name)
    assert [*server.home.glob(f"buckets/*/{name}/**/*.*")] == []


def test_a_role_by_its_name_alone_is_enough(server: ServerProcess, monkeypatch):
    server.use(monkeypatch)
    job = start(role="SageMakerRole")
    assert job.describe()["RoleArn"] == "arn:aws:iam::000000000000:role/SageMakerRole"


def test_an_image_is_left_to_the_server(server: ServerProcess, monkeypatch):
    server.use(monkeypatch)
    job = start(image_uri="registry/pytorch-training:2.1")  # without a word of caution
    assert job.describe()["AlgorithmSpecification"]["TrainingImage"].endswith(":2.1")


def test_output_goes_where_the_server_s_own_does_unless_it_is_set_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with ServerProcess(tmp_path / "home", TRACKSIDE_OUTPUT="s3://team/runs") as server:
        server.use(monkeypatch)
        job = start("theirs")
        assert job.describe()["OutputDataConfig"]["S3OutputPath"] == "s3://team/runs"
        monkeypatch.setenv("TRACKSIDE_OUTPUT", "s3://mine")
        job = start("ours")
        assert job.describe()["OutputDataConfig"]["S3OutputPath"] == "s3://mine"
    monkeypatch.delenv("TRACKSIDE_OUTPUT")
    assert known_jobs().settings.output == "s3://trackside"  # nobody answers


def test_a_bucket_is_made_by_whoever_writes_first(server: ServerProcess, monkeypatch):
    server.use(monkeypatch)
    job = start(output_path="s3://a-new-bucket/out")
    run_to_end(job)
    assert (server.home / "buckets" / "a-new-bucket" / "out" / job.name / "output").is_dir()


def test_nothing_of_a_job_is_left_where_it_was_sent_from(
    server: ServerProcess, monkeypatch, tmp_path: Path
):
    server.use(monkeypatch)
    run_to_end(start())
    assert not Settings.load().home.exists()


def test_the_server_s_interpreter_runs_the_script(server: ServerProcess, monkeypatch):
    server.use(monkeypatch)
    monkeypatch.setenv("TRACKSIDE_PYTHON", "/not/on/the/server")
    job = start()
    run_to_end(job)


def test_a_key_that_may_only_read_may_not_submit(server: ServerProcess, monkeypatch):
    from trackside.api.keys import AccessKeys, Rights

    key, secret = AccessKeys(Home(server.home).server.root).create("reader", Rights.READ)
    server.use(monkeypatch)
    job = start()
    monkeypatch.setenv("TRACKSIDE_ACCESS_KEY_ID", key.id)
    monkeypatch.setenv("TRACKSIDE_SECRET_ACCESS_KEY", secret)
    assert known_jobs().wait(job.name).state.is_final
    with pytest.raises((ServerError, StorageError), match="(?i)not authorized|refused|denied"):
        start()


def use_key(server: ServerProcess, monkeypatch: pytest.MonkeyPatch, label: str) -> None:
    from trackside.api.keys import AccessKeys, Rights

    key, secret = AccessKeys(Home(server.home).server.root).create(label, Rights.SUBMIT)
    monkeypatch.setenv("TRACKSIDE_ACCESS_KEY_ID", key.id)
    monkeypatch.setenv("TRACKSIDE_SECRET_ACCESS_KEY", secret)


def test_a_job_of_somebody_else_is_seen_and_not_changed(server: ServerProcess, monkeypatch):
    server.use(monkeypatch)
    use_key(server, monkeypatch, "ann")
    job = start()
    assert known_jobs().owner == "ann"
    use_key(server, monkeypatch, "ben")
    known = known_jobs()
    assert known.owner == "ben"
    assert known.describe(job.name)["Trackside"]["owner"] == "ann"
    assert [row.name for row in known.list(owner="ann")] == [job.name]
    assert known.list(owner="ben") == []
    known.wait(job.name)
    for change in (known.delete, partial(known.change_tags, put={"a": "b"})):
        with pytest.raises(KeyRefused, match=r"belongs to 'ann'; a key of that name can"):
            change(job.name)
    use_key(server, monkeypatch, "ann")
    until(lambda: deleted(job.name))


def deleted(name: str) -> bool:
    """Its last processes may still be at work."""
    try:
        known_jobs().delete(name)
    except JobNotFinished:
        return False
    return True


def test_what_needs_the_folders_says_so(server: ServerProcess, monkeypatch):
    server.use(monkeypatch)
    with pytest.raises(OnlyAtServer, match=rf"Sweeping needs the job folders.*{server.url}"):
        jobs_of_this_machine("Sweeping")


def test_a_job_of_this_machine_stays_here_whatever_its_user_logs_in_to(
    server: ServerProcess, monkeypatch
):
    """Its supervisor, its evaluator and its script must not look for the server's buckets."""
    from trackside.profiles import write_profiles

    (Path.cwd() / "train.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "from trackside.storage.locate import locate\n"
        "print(type(locate('s3://bucket/x', home=Path('/none')).store).__name__, flush=True)\n"
        "time.sleep(1)\n"
    )
    job = start(output_path="s3://mine/out")
    home = Settings.load().home
    write_profiles(home, {"default": Server(server.url, Key(server.key.id, server.secret))})
    monkeypatch.setenv("TRACKSIDE_URL", "embedded")
    run_to_end(job)
    assert any(line.data == b"FolderStore\n" for line in job.logs())
    place = locate_object(job.model_data, home=home)
    assert place.store.stat(place.key).size_bytes > 0
    assert (home / "buckets" / "mine").is_dir()
    assert not (server.home / "buckets" / "mine").exists()


def test_a_client_loads_neither_boto3_nor_an_object_store_to_look(
    server: ServerProcess, monkeypatch
):
    server.use(monkeypatch)
    name = start().name
    code = (
        "import sys; from trackside import attach;"
        f"list(attach({name!r}).logs(follow=True)); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {module.partition(".")[0] for module in done.stdout.split()}
    assert loaded & {"boto3", "botocore", "obstore", "numpy", "torch", "rich", "asyncio"} == set()


def test_an_interrupted_wait_leaves_the_job_alone(server: ServerProcess, monkeypatch):
    server.use(monkeypatch)
    name = f"interrupted-{time.time_ns()}"
    command = [
        *TRACKSIDE,
        "run",
        "train.py",
        "--wait",
        "--name",
        name,
        "--environment",
        "NUM_LINES=90",
    ]
    with subprocess.Popen(
        [*command, "--environment", "GO=/never", "--grace", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line == "line 3\n":
                break
        process.send_signal(2)
        assert process.wait(60) == 130
        assert f"No longer waiting; {name} goes on." in process.stderr.read()
    known = known_jobs()
    assert known.stop(name).state.status is Status.STOPPING
    assert known.wait(name).state.status is Status.STOPPED
