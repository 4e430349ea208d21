"""`trackside run` makes the job that was asked for, or says why not and makes none."""

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.job_processes import until_they_have_left
from tests.wait import until
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.system import process_table


@pytest.fixture(autouse=True)
def source(workplace: Path) -> Path:
    folder = workplace / "src"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "model.py").write_text("")
    (workplace / "data").mkdir()
    (workplace / "data" / "a.csv").write_text("1,2\n")
    return folder


def started(command: Command, *arguments: str) -> JobSpec:
    """The spec of the job, as it is on disk."""
    done = command("run", "train.py", "--source-dir", "src", *arguments)
    assert done.returncode == 0, done.stderr
    name = done.stdout.splitlines()[0].removeprefix("Started ")
    return JobSpec.from_stored(Settings.load().layout.job(name).spec.read_bytes())


def test_every_option_reaches_the_job(command: Command, workplace: Path):
    spec = started(
        command,
        *("--name", "my-job", "--output", "out", "--instances", "2", "--instance-type", "ml.x"),
        *("--channel", "training=./data", "-p", "epochs=3", "--hyperparameter", "name=a=b"),
        *("--environment", "OMP_NUM_THREADS=1", "--tag", "team=vision"),
        *("--checkpoint-uri", "s3://ckpt/x", "--tensorboard", "s3://curves/x"),
        *("--metric", "loss=loss=([0-9.]+)", "--max-run", "60", "--max-retries", "2"),
        *("--grace", "7", "--distribution", "torchrun", "--processes-per-host", "2"),
        *("--input-mode", "FastFile"),
    )
    assert spec.name == "my-job"
    assert spec.output.uri == str(workplace / "out")
    assert (spec.resources.count, spec.resources.instance_type) == (2, "ml.x")
    assert [(each.name, each.uri) for each in spec.inputs] == [
        ("training", str(workplace / "data"))
    ]
    assert spec.hyperparameters["epochs"] == "3"
    assert spec.hyperparameters["name"] == "a=b"
    assert spec.hyperparameters["sagemaker_torch_distributed_enabled"] == "true"
    assert spec.hyperparameters["sagemaker_mpi_num_of_processes_per_host"] == "2"
    assert spec.environment == {"OMP_NUM_THREADS": "1"}
    assert [(tag.key, tag.value) for tag in spec.tags] == [("team", "vision")]
    assert spec.checkpoints is not None
    assert spec.checkpoints.uri == "s3://ckpt/x"
    assert spec.tensorboard is not None
    assert spec.tensorboard.uri == "s3://curves/x"
    assert [(each.name, each.regex) for each in spec.algorithm.metrics] == [
        ("loss", "loss=([0-9.]+)")
    ]
    assert spec.stopping.max_runtime_seconds == 60
    assert spec.retry_attempts == 2
    assert spec.options.grace_seconds == 7
    assert spec.algorithm.input_mode == "FastFile"
    assert spec.debug_hook is None


def test_rules_reach_the_job_with_a_capture_that_suits_them(command: Command, workplace: Path):
    (workplace / "mine.py").write_text("class Mine: ...\n")
    spec = started(
        command,
        *("--rule", "vanishing_gradient:threshold=1e-9", "--rule", "mine.py:Mine:limit=3"),
        *("--stop-on", "VanishingGradient"),
    )
    built_in, own = spec.debug_rules
    assert built_in.parameters["threshold"] == "1e-9"
    assert spec.name in built_in.parameters["action_json"]
    assert (own.name, own.parameters["limit"]) == ("Mine", "3")
    stored = own.parameters["source_s3_uri"].removeprefix("s3://")
    assert (Settings.load().layout.buckets / stored).read_text() == "class Mine: ...\n"
    assert spec.debug_hook is not None
    gradients, losses = spec.debug_hook.collections
    assert (gradients.parameters["reductions"], losses.name) == ("abs_mean", "losses")
    assert gradients.parameters["save_steps"].startswith("0,1,2,")


def test_the_interval_of_rules_can_be_chosen(command: Command):
    spec = started(command, "--rule", "VanishingGradient", "--every", "7", "--capture", "weights")
    assert spec.debug_hook is not None
    assert spec.debug_hook.parameters == {"save_interval": "7"}
    assert {each.name: dict(each.parameters) for each in spec.debug_hook.collections} == {
        "weights": {},
        "gradients": {"reductions": "abs_mean"},
    }


def test_what_is_captured_beside_rules_is_whole_and_saved_when_they_look(command: Command):
    spec = started(command, "--rule", "all", "--capture", "gradients,biases")
    assert spec.debug_hook is not None
    saved = {each.name: dict(each.parameters) for each in spec.debug_hook.collections}
    assert list(saved) == ["gradients", "biases", "losses", "weights"]
    assert saved["gradients"]["save_steps"].startswith("0,1,2,")
    assert "reductions" not in saved["gradients"]
    assert saved["biases"] == {}  # no rule looks at them
    assert saved["weights"]["reductions"]


def test_a_collection_that_nobody_knows_is_reported(command: Command):
    done = command("run", "src/train.py", "--capture", "losses,odd")
    assert done.returncode == 0
    assert done.stderr.startswith(
        "Warning: No collection is called 'odd' unless the script makes it. There are "
    )


@pytest.mark.parametrize("near", ["gradient", "gradiants", "Gradients"])
def test_a_collection_that_is_nearly_one_is_refused(command: Command, near: str):
    done = command("run", "src/train.py", "--capture", f"losses,{near}")
    assert done.returncode == 2
    assert f"no collection is called {near!r}. Did you mean 'gradients'?" in done.stderr
    assert not Settings.load().layout.jobs.exists()


def test_the_source_is_stored_with_the_job(command: Command):
    spec = started(command)
    stored = Settings.load().layout.buckets / "trackside" / spec.name / "source/sourcedir.tar.gz"
    with tarfile.open(fileobj=io.BytesIO(stored.read_bytes())) as archive:
        assert sorted(archive.getnames()) == ["model.py", "train.py"]


def test_the_start_names_the_commands_that_come_next(command: Command):
    shown = command("run", "train.py", "--source-dir", "src", "--name", "j").stdout
    assert shown.splitlines() == [
        "Started j",
        "  trackside logs -f j",
        "  trackside show j",
        "  trackside stop j",
    ]


def test_whoever_waits_is_reported_the_name_first(command: Command):
    shown = command("run", "train.py", "--source-dir", "src", "--name", "j", "--wait").stdout
    assert shown.splitlines()[0] == "Started j"
    assert "SM_HOSTS=" in shown  # nothing is left out where there is no terminal


def test_json_prints_the_job(command: Command):
    shown: dict[str, Any] = json.loads(command("run", "src/train.py", "--json").stdout)
    assert shown["HyperParameters"]["sagemaker_program"] == '"train.py"'


def test_a_name_is_never_used_twice(command: Command, source: Path):
    first = started(command, "--name", "once")
    place = Settings.load().layout.buckets / "trackside" / "once" / "source/sourcedir.tar.gz"
    stored = place.read_bytes()
    (source / "train.py").write_text("print('other')\n")
    done = command("run", "src/train.py", "--name", "once")
    assert done.returncode == 2
    assert "A job called 'once' already exists" in done.stderr
    assert place.read_bytes() == stored
    assert first.name == "once"


def test_a_name_may_have_what_the_wire_has_not(command: Command):
    done = command("run", "src/train.py", "--name", "my_run.v2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Started my_run.v2"
    assert "  trackside show my_run.v2" in done.stdout.splitlines()
    record = json.loads(Settings.load().layout.job("my-run-v2--x5").spec.read_bytes())
    assert record["TrainingJobName"] == "my-run-v2--x5"
    again = command("run", "src/train.py", "--name", "my_run.v2")
    assert again.returncode == 2
    assert "A job called 'my_run.v2' already exists" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["src/missing.py"], "there is no"),
        (["src/broken.py"], "broken.py:2: expected ':'"),
        (["src/train.py", "--channel", "training"], "'training' is not of the form NAME=VALUE"),
        (["src/train.py", "-p", "a=1", "-p", "a=2"], "'a' is given twice"),
        (["src/train.py", "--processes-per-host", "2"], "needs --distribution"),
        (["src/train.py", "--name", "-x-"], "--name = '-x-'"),
        (["src/train.py", "--output", "ftp://x/y"], "--output = 'ftp://x/y'"),
        (["src/train.py", "--channel", "a b=src"], "--channel = 'a b'"),
        (["src/train.py", "--metric", "loss=("], "--metric = '('"),
        (["src/train.py", "--environment", "A B=1"], "--environment A B = 'A B'"),
        (["src/train.py", "--source-dir", "src"], "named relative to --source-dir: write"),
        (["src"], "SCRIPT = 'src': is a folder"),
        (
            ["src/train.py", "--epochs", "3"],
            "behind `--`: trackside run src/train.py -- --epochs …",
        ),
        (["src/train.py", "epochs=3"], "behind `--`: trackside run src/train.py -- epochs=3 …"),
        (["src/train.py", "--wiat"], "'--wait'?"),
        (["src/train.py", "--channel", "training=nowhere"], "nowhere"),
        (["src/train.py", "--rule", "DeadReluu:x=1"], "--rule = 'DeadReluu': No rule is"),
        (
            ["src/train.py", "--stop-on", "DeadRelu:threshold_layer=x"],
            "DeadRelu:threshold_layer = 'x'",
        ),
        (["src/train.py", "--rule", "all:x=1"], "'all' takes no parameters"),
        (["src/train.py", "--rule", ""], "'' names no rule"),
        (["src/train.py", "--rule", "VanishingGradient:x=1"], "It has: threshold"),
        (["src/train.py", "--rule", "no.py:X"], "there is no"),
        (["src/train.py", "--rule", "no.py"], "names no rule of the file"),
        (["src/train.py", "--every", "5"], "--every needs --capture or --rule"),
        (["src/train.py", "--capture", "all", "--ring", "5", "--rule", "all"], "no --rule sees"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_started(
    command: Command, source: Path, arguments: list[str], said: str
):
    (source / "broken.py").write_text("import os\nif True\n    pass\n")
    done = command("run", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not [*Settings.load().layout.root.glob("jobs/[!.]*")]


PRINTS_ARGUMENTS = """
import json, os, sys
print("ARGV", json.dumps(sys.argv[1:]))
assert json.loads(os.environ["SM_USER_ARGS"]) == sys.argv[1:]
"""
ODD = ["--epochs", "3", "--amp", "data.yaml", "model.lr=0.1", "", " a  b", "$HOME 'x' \"", "ü😀"]
ODD += [os.fsdecode(b"\xff"), "--", "--wait", "-p", "--name"]


def printed_arguments(log: str) -> Any:
    [line] = [line for line in log.splitlines() if line.startswith("ARGV ")]
    return json.loads(line.removeprefix("ARGV "))


def test_what_stands_behind_two_dashes_reaches_the_script_as_it_is(
    command: Command, workplace: Path
):
    (workplace / "args.py").write_text(PRINTS_ARGUMENTS)
    done = command("run", "args.py", "-p", "lr=0.1", "--name", "j", "--wait", "--", *ODD)
    assert done.returncode == 0, done.stderr
    assert printed_arguments(done.stdout) == ["--lr", "0.1", *ODD]
    kept = json.loads(Settings.load().layout.job("j").spec.read_bytes())
    assert kept["Trackside"]["Arguments"] == ODD
    shown = command("show", "j").stdout
    assert "arguments        --epochs 3 --amp data.yaml model.lr=0.1 '' ' a  b'" in shown


def test_secrets_among_the_arguments_are_shown_nowhere(command: Command, workplace: Path):
    (workplace / "args.py").write_text("import sys; sys.exit(f'bad {sys.argv[2]}')\n")
    given = ("--hub-token", "sesame-42", "db.password=sesame-43", "--api-key=sesame-44")
    done = command("run", "args.py", "--name", "j", "--wait", "--", *given)
    assert done.returncode == 1
    masked = "--hub-token '***' 'db.password=***' '--api-key=***'"
    assert masked in done.stdout
    assert f"arguments        {masked}" in command("show", "j").stdout
    said_by_us = [line for line in done.stdout.splitlines() if line != "bad sesame-42"]
    assert "sesame" not in "".join(said_by_us) + done.stderr


def test_a_training_that_reached_its_time_limit_is_not_taken_for_a_whole_one(
    command: Command, workplace: Path
):
    (workplace / "slow.py").write_text("import time\ntime.sleep(900)\n")
    given = ("--max-run", "1", "--grace", "1", "--name", "j", "--wait")
    done = command("run", "slow.py", *given, "--json")
    assert done.returncode == 6
    assert json.loads(done.stdout)["SecondaryStatus"] == "MaxRuntimeExceeded"
    reported = "Error: Job 'j' is not Completed: it reached its time limit of 1 s and was stopped."
    assert done.stderr.startswith(reported)


def test_a_store_that_is_out_of_reach_is_exit_code_3(command: Command):
    done = command(
        *("run", "src/train.py", "--output", "s3://bucket/out"),
        TRACKSIDE_S3="",
        AWS_ENDPOINT_URL="http://127.0.0.1:9",
        AWS_ACCESS_KEY_ID="x",
        AWS_SECRET_ACCESS_KEY="x",
        AWS_REGION="us-east-1",
    )
    assert done.returncode == 3
    assert "s3://bucket/out" in done.stderr


@pytest.mark.parametrize(
    ("standby", "program"), [("yes", b"trackside.cli"), ("no", b".supervisor")]
)
def test_the_supervisor_is_a_copy_of_the_command_unless_told_otherwise(
    command: Command, workplace: Path, standby: str, program: bytes
):
    """One start of an interpreter less, and each import that both need is made once."""
    (workplace / "wait.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(workplace / 'end')!r}): time.sleep(0.01)\n"
    )
    done = command("run", "wait.py", "--name", "waits", TRACKSIDE_STANDBY=standby)
    job = Settings.load().layout.job("waits")
    record = job.host("algo-1", 1).supervisor
    pid = until(lambda: json.loads(record.read_bytes())["pid"])
    assert program in process_table.read(f"/proc/{pid}/cmdline")
    assert os.getsid(pid) == pid
    (workplace / "end").touch()
    assert done.returncode == 0
    assert command("logs", "-f", "waits").returncode == 0
    until_they_have_left(job.root)
