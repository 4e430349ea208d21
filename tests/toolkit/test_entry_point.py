import os
import sys
from pathlib import Path

import pytest

from tests.toolkit.conftest import Host
from trackside.errors import ToolkitError
from trackside.toolkit.entry_point import EntryPoint, Kind, find_entry_point


@pytest.mark.parametrize(
    ("name", "has_setup", "kind"),
    [
        ("train.sh", True, Kind.COMMAND),
        ("train.py", True, Kind.PACKAGE),
        ("train.py", False, Kind.PROGRAM),
        ("sub/train.py", False, Kind.PROGRAM),
        ("train", False, Kind.COMMAND),
        ("./train.py", False, Kind.PROGRAM),
    ],
)
def test_the_kind_follows_name_and_setup_file(
    tmp_path: Path, name: str, has_setup: bool, kind: Kind
):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    if has_setup:
        (tmp_path / "setup.py").touch()
    found = find_entry_point(name, str(tmp_path))
    assert found.kind is kind
    assert found.name == name.removeprefix("./")


@pytest.mark.parametrize(
    "name", ["../x.py", "/x.py", "a/../x.py", "-x.py", "a b.py", "a;b.py", "a//b.py", "x.py\n", ""]
)
def test_a_name_outside_the_pattern_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ToolkitError):
        find_entry_point(name, str(tmp_path))


def test_the_refusal_names_the_offending_characters(tmp_path: Path):
    with pytest.raises(ToolkitError, match=r"'a b;c\.py'.*contains ' ;'"):
        find_entry_point("a b;c.py", str(tmp_path))


def test_a_command_outside_the_source_is_refused(tmp_path: Path):
    (tmp_path / "code").mkdir()
    (tmp_path / "outside.sh").touch()
    (tmp_path / "code" / "train.sh").symlink_to("../outside.sh")
    with pytest.raises(ToolkitError, match="outside the source"):
        find_entry_point("train.sh", str(tmp_path / "code"))


def test_a_missing_command_lists_what_is_there(tmp_path: Path):
    (tmp_path / "other.sh").touch()
    with pytest.raises(ToolkitError, match=r"'train\.sh' is not in the source.*other\.sh"):
        find_entry_point("train.sh", str(tmp_path))


def test_a_module_in_a_folder_is_named_with_dots():
    entry_point = EntryPoint("src/pkg/train.py", Kind.PACKAGE)
    assert entry_point.command("python", ["-a", "1"]) == [
        "python",
        "-m",
        "src.pkg.train",
        "-a",
        "1",
    ]


def test_a_command_gets_its_arguments_unchanged(host: Host):
    host.hyperparameters(**{"batch-size": "256", "text": 'it\'s $HOME; `id` "q"\nnext'})
    host.script('#!/bin/sh\nprintf "%s|" "$0" "$@"\n', "train.sh")
    finished = host.train(SAGEMAKER_PROGRAM="train.sh")
    expected = './train.sh|--batch-size|256|--text|it\'s $HOME; `id` "q"\nnext|'
    assert finished.stdout.decode() == expected
    assert os.access(host.code / "train.sh", os.X_OK)


def test_a_text_without_a_first_line_is_run_by_the_shell(host: Host):
    host.script('echo "$0 $1"\n', "train")
    host.hyperparameters(a="1")
    assert host.train(SAGEMAKER_PROGRAM="train").stdout == b"./train -a\n"


def test_an_executable_sees_variables_that_a_shell_would_drop(host: Host):
    host.hyperparameters(**{"batch-size": "256"})
    host.script(f"#!{sys.executable}\nimport os; print(os.environ['SM_HP_BATCH-SIZE'])\n", "go")
    assert host.train(SAGEMAKER_PROGRAM="go").stdout == b"256\n"


def test_a_missing_interpreter_is_reported_as_a_shell_would(host: Host):
    host.script("#!/no/such/program\n", "go")
    finished = host.train(SAGEMAKER_PROGRAM="go")
    assert finished.code == 1
    assert host.failure.startswith("ExecuteUserScriptError:\nExitCode 127\n")


def test_a_script_in_a_folder_keeps_the_path_it_was_given(host: Host):
    host.script("import sys; print(sys.argv[0], sys.path[0])", "sub/train.py")
    finished = host.train(SAGEMAKER_PROGRAM="sub/train.py")
    assert finished.stdout.decode().split() == ["sub/train.py", str(host.code / "sub")]
