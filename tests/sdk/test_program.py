"""Modules and commands in place of scripts: what is packed, and what is refused."""

import sys
from pathlib import Path

import pytest

from trackside.errors import InvalidSpec
from trackside.records.spec import JobSpec
from trackside.sdk.estimator import Estimator


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "go").write_text("#!/bin/sh\n")
    (tmp_path / "go").chmod(0o755)
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "env" / "bin" / "python").write_text("")
    return tmp_path


def spec_of(**arguments) -> JobSpec:
    return Estimator(**arguments).spec()


def refused(**arguments) -> str:
    with pytest.raises(InvalidSpec) as caught:
        spec_of(**arguments)
    return "\n".join(map(str, caught.value.violations))


def test_a_command_is_kept_as_it_is():
    command = ["python", "-m", "pkg.train", "", "--x=1", "--"]
    spec = spec_of(command=command)
    assert spec.options.command == tuple(command)
    assert spec.entry_point is None
    assert spec.source is not None
    assert JobSpec.from_request(spec.to_request()) == spec


@pytest.mark.parametrize(
    ("arguments", "base"),
    [
        ({"module": "pkg.train"}, "train"),
        ({"command": ["python", "-m", "pkg.train"]}, "pkg-train"),
        ({"command": ["torchrun", "--nproc-per-node", "2", "train.py"]}, "train"),
        ({"command": ["sh", "-c", "python train.py"]}, "python-train"),
        ({"command": ["./go", "x"]}, "go"),
    ],
)
def test_the_job_is_called_after_what_it_runs(arguments, base: str):
    assert spec_of(**arguments).name.partition("-20")[0] == base


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": []}, "command = []: must be a list of texts that begins with"),
        ({"command": [""]}, "must be a list of texts that begins with"),
        ({"command": "python train.py"}, "command = 'python train.py': must be a list"),
        ({"command": ["no-such-program"]}, "'no-such-program': is no program of this machine"),
        ({"command": ["/no/such"]}, "'/no/such': is no program of this machine"),
        ({"command": ["train.py"]}, "'train.py': is a file, not a program; name it as"),
        ({"command": ["./missing"]}, "'./missing': is not in the folder"),
        ({"command": ["./train.py"]}, "is not executable; `chmod +x ./train.py`"),
        ({"command": ["env/bin/python", "train.py"]}, "give this one as the option python"),
        (
            {"command": ["./go"], "hyperparameters": {"token": "abc"}},
            "hyperparameters = ['token']: are not added to a command",
        ),
        (
            {"command": ["./go"], "distribution": {"torch_distributed": {"enabled": True}}},
            "let the command begin with torchrun",
        ),
        ({"module": "pkg/train.py"}, "module = 'pkg/train.py': must be a module's dotted name"),
        ({"module": "a", "entry_point": "train.py"}, "cannot be given with entry_point"),
        ({"module": "a", "command": ["./go"]}, "cannot be given with module"),
        ({"module": "a", "source_dir": "nowhere"}, "'nowhere': is not a folder"),
    ],
)
def test_what_cannot_run_is_refused_with_the_way_out(arguments, said: str):
    reported = refused(**arguments)
    assert said in reported
    assert "\n" not in reported


def test_the_whole_home_is_packed_only_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(folder))
    assert "would be packed as a whole" in refused(module="train")
    assert spec_of(module="train", source_dir=str(folder)).options.module == "train"


def test_a_program_beside_the_interpreter_is_found(folder: Path):
    assert Path(sys.executable).with_name("pytest").exists()
    assert spec_of(command=["pytest"], python=sys.executable).options.command == ("pytest",)
