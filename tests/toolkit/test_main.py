"""`train` from outside: the examples of its documentation, its markers, its exit status."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toolkit.conftest import TRAIN, Host, needs, needs_root

EXAMPLE = {"batch-size": 256, "learning-rate": 0.0001, "communicator": "pure_nccl"}
CHANNEL = {
    "RecordWrapperType": "None",
    "S3DistributionType": "FullyReplicated",
    "TrainingInputMode": "File",
}


def test_hyperparameters_are_script_arguments_as_documented(host: Host):
    host.configure("hyperparameters", EXAMPLE)
    host.script('#!/bin/sh\necho "$0 $@"\n', "user_script.sh")
    finished = host.train(SAGEMAKER_PROGRAM="user_script.sh")
    # The original's page shows --learning_rate; the dash was always kept.
    assert finished.stdout.decode() == (
        "./user_script.sh --batch-size 256 --communicator pure_nccl --learning-rate 0.0001\n"
    )


def test_the_documented_argument_parser_works(host: Host):
    host.configure("hyperparameters", EXAMPLE)
    host.configure("inputdataconfig", {"training": CHANNEL, "testing": CHANNEL})
    host.script(
        "import argparse, json, os\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--learning-rate', type=float, default=1)\n"
        "parser.add_argument('--batch-size', type=int, default=64)\n"
        "parser.add_argument('--communicator', type=str)\n"
        "parser.add_argument('--frequency', type=int, default=20)\n"
        "parser.add_argument('--training', default=os.environ['SM_CHANNEL_TRAINING'])\n"
        "parser.add_argument('--testing', default=os.environ['SM_CHANNEL_TESTING'])\n"
        "parser.add_argument('--model-dir', default=os.environ['SM_MODEL_DIR'])\n"
        "parser.add_argument('--hosts', default=json.loads(os.environ['SM_HOSTS']))\n"
        "parser.add_argument('--num-gpus', type=int, default=os.environ['SM_NUM_GPUS'])\n"
        "print(json.dumps(vars(parser.parse_args())))\n"
    )
    finished = host.train()
    assert json.loads(finished.stdout) == {
        "learning_rate": 0.0001,
        "batch_size": 256,
        "communicator": "pure_nccl",
        "frequency": 20,
        "training": f"{host.base}/input/data/training",
        "testing": f"{host.base}/input/data/testing",
        "model_dir": f"{host.base}/model",
        "hosts": ["algo-1"],
        "num_gpus": 0,
    }


def test_the_documented_variables_are_set(host: Host):
    host.configure("hyperparameters", EXAMPLE)
    host.configure("inputdataconfig", {"training": CHANNEL, "testing": CHANNEL})
    host.configure("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1"]})
    host.script("import json, os; print(json.dumps(dict(os.environ)))")
    seen = json.loads(host.train().stdout)
    assert seen["SM_CHANNELS"] == '["testing","training"]'
    assert json.loads(seen["SM_HPS"]) == EXAMPLE
    assert seen["SM_HP_LEARNING-RATE"] == "0.0001"
    assert seen["SM_HP_BATCH-SIZE"] == "256"
    assert seen["SM_HP_COMMUNICATOR"] == "pure_nccl"
    assert seen["SM_CURRENT_HOST"] == "algo-1"
    assert seen["SM_RESOURCE_CONFIG"] == '{"current_host":"algo-1","hosts":["algo-1"]}'
    assert json.loads(seen["SM_INPUT_DATA_CONFIG"]) == {"training": CHANNEL, "testing": CHANNEL}
    described = json.loads(seen["SM_TRAINING_ENV"])
    assert described["hyperparameters"] == EXAMPLE
    assert described["channel_input_dirs"]["testing"] == f"{host.base}/input/data/testing"


def test_it_prints_the_variables_and_the_command_once(host: Host):
    host.hyperparameters(lr="0.1", note='"two words"')
    host.script("")
    log = host.train().log
    assert log.count("Invoking user script") == 1
    assert "  SM_HP_LR=0.1\n" in log
    assert f"{sys.executable} -- train.py --lr 0.1 --note 'two words'" in log
    assert len(log.splitlines()) < 50


def test_success_is_marked_and_old_markers_are_gone(host: Host):
    host.output.mkdir()
    (host.output / "failure").write_text("of an earlier run")
    host.script("")
    assert host.train().code == 0
    assert (host.output / "success").read_text() == ""
    assert not (host.output / "failure").exists()


def test_the_folders_a_script_writes_to_exist(host: Host):
    host.script(
        "import os; print(sorted(n for n in os.environ if n.startswith('SM_') "
        "and n.endswith('DIR') and 'INPUT' not in n and os.path.isdir(os.environ[n])))"
    )
    assert host.train().stdout.decode().strip() == (
        "['SM_MODEL_DIR', 'SM_MODULE_DIR', 'SM_OUTPUT_DATA_DIR', 'SM_OUTPUT_DIR', "
        "'SM_OUTPUT_INTERMEDIATE_DIR']"
    )


@pytest.mark.parametrize(
    ("script", "record"),
    [
        ("", {"exit_code": 0, "signal": None}),
        ("raise SystemExit(77)", {"exit_code": 77, "signal": None}),
        ("import os; os.kill(os.getpid(), 11)", {"exit_code": None, "signal": 11}),
    ],
)
def test_the_exit_record_has_the_scripts_own_code(
    host: Host, tmp_path: Path, script: str, record: object
):
    path = tmp_path / "exit.json"
    host.script(script)
    finished = host.train(TRACKSIDE_EXIT_RECORD=str(path))
    assert finished.code == (1 if script else 0)
    assert json.loads(path.read_text()) == record


def test_the_exit_record_knows_of_a_script_that_never_started(host: Host, tmp_path: Path):
    path = tmp_path / "exit.json"
    assert host.train(TRACKSIDE_EXIT_RECORD=str(path), SAGEMAKER_PROGRAM="").code == 1
    assert json.loads(path.read_text()) == {"exit_code": None, "signal": None}


def test_a_full_disk_never_turns_a_failure_into_success(host: Host):
    needs_root()
    host.output.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", host.output], check=True)
    try:
        host.script(
            "import os\n"
            "try:\n"
            "    open(os.environ['SM_OUTPUT_DIR'] + '/fill', 'wb').write(bytes(10**6))\n"
            "except OSError: pass\n"
            "raise SystemExit(5)\n"
        )
        finished = host.train()
        assert finished.code == 1
        assert "ExitCode 5" in finished.log
        assert not (host.output / "success").exists()
    finally:
        subprocess.run(["umount", "--lazy", host.output], check=True)


def test_an_output_folder_that_cannot_be_made_is_a_failure(host: Host):
    host.output.write_text("a file in its place")
    host.script("")
    finished = host.train()
    assert finished.code == 1
    assert "Framework Error" in finished.log


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', "nul"])
def test_a_damaged_configuration_is_named(host: Host, text: str):
    (host.config / "hyperparameters.json").write_text(text)
    host.script("")
    assert host.train().code == 1
    assert str(host.config / "hyperparameters.json") in host.failure


def test_the_true_opt_ml_is_the_default(host: Host):
    needs("unshare", "unshare")
    needs_root()
    host.script("import os; print(os.getcwd(), os.environ['SM_MODEL_DIR'])")
    del host.variables["SAGEMAKER_BASE_DIR"]
    enter = f"mkdir -p /opt/ml && mount --bind {host.base} /opt/ml && exec {' '.join(TRAIN)}"
    process = host.start(("unshare", "-m", "sh", "-c", enter), stdout=subprocess.PIPE)
    output, _ = process.communicate()
    assert output == b"/opt/ml/code /opt/ml/model\n"
    assert (host.output / "success").exists()


def test_the_console_script_is_the_same_program(host: Host):
    host.script("print('ran')")
    code = "import sys; from trackside.toolkit.__main__ import main; sys.exit(main())"
    process = host.start((sys.executable, "-c", code), stdout=subprocess.PIPE)
    assert process.communicate()[0] == b"ran\n"


def test_importing_it_loads_the_standard_library_only():
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import trackside.toolkit.__main__\n"
        "print(*(set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - set(sys.stdlib_module_names) == {"trackside"}
    for slow in ("logging", "subprocess", "dataclasses", "pathlib", "asyncio", "argparse"):
        assert slow not in loaded, f"{slow} costs every job milliseconds before its first line"


HOOK = """
import os, sys, logging
def main():
    logging.getLogger("framework").info("configured")
    print("taken over", os.environ["SM_HP_LR"], os.environ["SM_MODEL_DIR"])
    {0}
"""


@pytest.mark.parametrize(
    ("ends", "code", "failure"),
    [
        ("pass", 0, None),
        ("sys.exit(0)", 0, None),
        ("sys.exit(3)", 1, "Framework Error: SystemExit: 3"),
        ("raise ValueError('no')", 1, "Framework Error: ValueError: no"),
    ],
)
def test_a_framework_takes_over(
    host: Host, tmp_path: Path, ends: str, code: int, failure: str | None
):
    (tmp_path / "framework.py").write_text(HOOK.format(ends))
    host.hyperparameters(lr="0.1")
    paths = os.pathsep.join([host.variables["PYTHONPATH"], str(tmp_path)])
    finished = host.train(SAGEMAKER_TRAINING_MODULE="framework:main", PYTHONPATH=paths)
    assert finished.stdout.decode() == f"taken over 0.1 {host.base}/model\n"
    assert "framework    INFO     configured" in finished.log
    assert finished.code == code
    assert (host.output / "success").exists() is (code == 0)
    if failure is not None:
        assert host.failure.startswith(failure)


@pytest.mark.parametrize("named", ["framework", "json:no_such_function", "no.such.module:main"])
def test_a_framework_that_is_not_there_is_named(host: Host, named: str):
    assert host.train(SAGEMAKER_TRAINING_MODULE=named).code == 1
    assert named.partition(":")[0] in host.failure


ALIAS = """
from sagemaker_training import environment
env = environment.Environment()
print(env.hyperparameters, env.channel_input_dirs, env["model_dir"], env.is_master)
print(env.to_cmd_args(), env.to_env_vars()["SM_HP_LR"], sorted(env)[0])
"""


def test_scripts_that_import_the_original_find_its_environment(host: Host):
    host.hyperparameters(lr="0.1")
    host.configure("inputdataconfig", {"training": CHANNEL})
    host.script(ALIAS)
    finished = host.train()
    training = f"{host.base}/input/data/training"
    assert finished.stdout.decode().splitlines() == [
        f"{{'lr': 0.1}} {{'training': '{training}'}} {host.base}/model True",
        "['--lr', '0.1'] 0.1 additional_framework_parameters",
    ], finished.log


@pytest.mark.parametrize("place", ["code", "later on the path"])
def test_the_original_is_never_hidden(host: Host, tmp_path: Path, place: str):
    folder = host.code if place == "code" else tmp_path / "later"
    (folder / "sagemaker_training").mkdir(parents=True)
    (folder / "sagemaker_training" / "__init__.py").write_text("name = 'the original'\n")
    add = "" if place == "code" else f"import sys; sys.path.append({str(folder)!r})\n"
    host.script(f"{add}import sagemaker_training; print(sagemaker_training.name)\n")
    finished = host.train()
    assert finished.stdout == b"the original\n", finished.log


def test_the_documentations_first_example_runs_as_printed(host: Host, tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "toolkit.md").read_text()
    example = page.partition("```sh\n")[2].partition("```")[0]
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "train").write_text(f"#!/bin/sh\nexec {' '.join(TRAIN)}\n")
    (programs / "train").chmod(0o755)
    done = subprocess.run(
        ["sh", "-e", "-c", example],
        cwd=tmp_path,
        env=host.variables | {"PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    model = tmp_path / "ml" / "model"
    expected = f"Namespace(batch_size=256, learning_rate=0.0001, model_dir='{model}')"
    assert done.stdout.strip() == expected, done.stderr


def test_the_documentations_python_examples_run():
    page = (Path(__file__).parents[2] / "docs" / "toolkit.md").read_text()
    for example in page.split("```python\n")[1:]:
        subprocess.run([sys.executable, "-c", example.partition("```")[0]], check=True)


def test_every_setting_is_documented():
    folder = Path(__file__).parents[2]
    page = (folder / "docs" / "toolkit.md").read_text().partition("## Settings")[2]
    source = (folder / "src" / "trackside" / "toolkit" / "environment.py").read_text()
    for name in set(re.findall(r"TRACKSIDE_[A-Z_]+", source)):
        assert f"| `{name}` |" in page
