"""The command lines of Apptainer and Singularity, as their documentation has them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import recorded_apptainer
from tests.apptainer_program import apptainer_program
from tests.docker_engine import SHELL, docker_engine
from tests.image_registry import running_registry
from trackside.containers import apptainer
from trackside.errors import ImageError


def test_it_is_chosen_where_no_engine_is(tmp_path: Path):
    bin = recorded_apptainer.install(tmp_path / "bin")
    nowhere = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    known = {**nowhere, "PATH": str(bin)}
    assert apptainer.find_program(known) == str(bin / "apptainer")
    assert apptainer.find_program({**nowhere, "PATH": str(tmp_path)}) == ""
    assert apptainer.find_program({**known, "DOCKER_HOST": "tcp://10.0.0.1:2375"}) == ""
    (tmp_path / "docker.sock").touch()
    assert apptainer.find_program(known) == ""
    (tmp_path / "docker.sock").unlink()
    (bin / "apptainer").rename(bin / "singularity")
    assert apptainer.find_program(known) == str(bin / "singularity")


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("torch:2", "docker://torch:2"),
        ("registry.example.com/team/x@sha256:00", "docker://registry.example.com/team/x@sha256:00"),
        ("oras://registry.example.com/x:1", "oras://registry.example.com/x:1"),
        ("/shared/x.sif", "/shared/x.sif"),
    ],
)
def test_names_of_images(name: str, uri: str):
    assert apptainer.image_uri(name) == uri


def test_a_command_sees_only_what_it_is_given():
    words = apptainer.exec_words(
        "/usr/bin/apptainer",
        "/tmp/image.sif",
        ["python3", "train.py"],
        mounts={
            "/opt/ml/input/data/train": Path("/data/a,b"),
            "/opt/ml": Path("/job/ml"),
        },
        read_only=frozenset(["/opt/ml/input/data/train"]),
        home=(Path("/job/home"), "/opt/.trackside/home"),
        work=Path("/job/tmp"),
        has_gpus=True,
    )
    assert words == [
        *("/usr/bin/apptainer", "exec", "--containall", "--writable-tmpfs", "--pwd", "/opt/ml"),
        *("--home", "/job/home:/opt/.trackside/home", "--workdir", "/job/tmp", "--nv"),
        *("--mount", "type=bind,source=/job/ml,destination=/opt/ml"),
        "--mount",
        'type=bind,"source=/data/a,b",destination=/opt/ml/input/data/train,ro',
        *("/tmp/image.sif", "python3", "train.py"),
    ]


def test_variables_are_given_by_the_environment():
    machine = {"PATH": "/bin", "SECRET": "x", "APPTAINER_CACHEDIR": "/cache"}
    job = {"SM_HP_LR": "1", "HOME": "/opt/.trackside/home"}
    assert apptainer.environment("/usr/bin/apptainer", job, machine) == {
        "PATH": "/bin",
        "APPTAINER_CACHEDIR": "/cache",
        "APPTAINER_NO_EVAL": "1",
        "APPTAINERENV_SM_HP_LR": "1",
    }
    assert "SINGULARITYENV_SM_HP_LR" in apptainer.environment("singularity", job, machine)
    marked = apptainer.marked("singularity", "MARK", ["a", "b"])
    assert marked[:3] == ["/bin/sh", "-c", 'export SINGULARITYENV_MARK="$MARK"; exec "$@"']
    assert marked[3:] == ["sh", "a", "b"]


def test_an_image_is_pulled_once(tmp_path: Path):
    bin = recorded_apptainer.install(tmp_path / "bin")
    program, looked = str(bin / "apptainer"), []
    for _ in range(2):
        file = apptainer.pull(
            program, "torch:2", tmp_path / "image.sif", {}, lambda: looked.append(1)
        )
        assert file.read_text() == "docker://torch:2"
    assert looked
    [call] = recorded_apptainer.calls(bin)
    assert (call["verb"], call["words"][-1]) == ("pull", "docker://torch:2")
    with pytest.raises(ImageError, match="cannot get 'missing:1': FATAL: .* manifest unknown"):
        apptainer.pull(program, "missing:1", tmp_path / "other.sif", {}, lambda: None)
    with pytest.raises(ImageError, match="no image '/no.sif'"):
        apptainer.pull(program, "/no.sif", tmp_path / "other.sif", {}, lambda: None)


def test_a_pull_ends_with_who_waits_for_it(tmp_path: Path):
    program = tmp_path / "apptainer"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        apptainer.pull(str(program), "torch:2", tmp_path / "image.sif", {}, stop)
    assert not (tmp_path / "image.sif").exists()


def test_a_true_program_pulls_from_a_registry(tmp_path: Path):
    program = apptainer_program()
    docker_engine()
    (tmp_path / "registry").mkdir()
    machine = {
        "PATH": f"{Path(program).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "APPTAINER_CACHEDIR": str(tmp_path / "cache"),
        "APPTAINER_NOHTTPS": "true",
    }
    with running_registry(tmp_path / "registry") as registry:
        image = registry.push(SHELL, "shell:1")
        made = apptainer.pull(program, image, tmp_path / "image.sif", machine, lambda: None)
        with pytest.raises(ImageError, match="cannot get .*none:1.*(?:manifest|name) unknown"):
            apptainer.pull(
                program, f"{registry.host}/none:1", tmp_path / "none.sif", machine, lambda: None
            )
    words = [program, "exec", "--containall", str(made), "/bin/sh", "-c", "echo inside"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "inside\n"
