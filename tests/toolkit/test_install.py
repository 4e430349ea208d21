"""Requirements with the real pip, from wheels made here: no network is needed."""

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.toolkit.conftest import SOURCES, Host
from tests.wait import until

REPORT = "import sys, {0}; print({0}.__file__, sys.executable)"


def wheel(folder: Path, name: str, version: str = "1.0", requires: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as archive:
        module = f"import sys\nversion = {version!r}\ndef main(): print(sys.argv[1:], sys.prefix)\n"
        archive.writestr(f"{name}.py", module)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name}={name}:main\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def overlays(host: Host, tmp_path: Path) -> Path:
    folder = tmp_path / "overlays"
    host.variables["TRACKSIDE_OVERLAYS"] = str(folder)
    host.variables["PIP_NO_INDEX"] = "1"
    return folder


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that a test may change, with pip."""
    folder = tmp_path_factory.mktemp("container") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def in_the_parent(name: str) -> set[str]:
    packages = [path for path in sys.path if path.endswith("site-packages")]
    return {found for path in packages for found in os.listdir(path) if found.startswith(name)}


def test_requirements_go_into_an_overlay_that_sees_the_parents_packages(host: Host, overlays: Path):
    wheel(host.code / "wheels", "tracksidetest")
    host.script("import numpy\n" + REPORT.format("tracksidetest"))
    host.script("--find-links wheels\ntracksidetest\nnumpy\n", "requirements.txt")
    finished = host.train()
    assert finished.code == 0, finished.log
    module, python = finished.last_line.split()
    assert module.startswith(str(overlays))
    assert python.startswith(str(overlays))
    assert in_the_parent("tracksidetest") == set()


def test_a_toolkit_started_without_packages_finds_them_for_the_script(host: Host, overlays: Path):
    wheel(host.code / "wheels", "tracksidetest")
    host.script("import numpy\n" + REPORT.format("tracksidetest"))
    host.script("--find-links wheels\ntracksidetest\nnumpy\n", "requirements.txt")
    start = (
        f"import sys; sys.path.insert(0, {SOURCES!r}); "
        "from trackside.toolkit.__main__ import main; sys.exit(main())"
    )
    process = host.start(
        (sys.executable, "-S", "-E", "-c", start), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, log = process.communicate()
    assert process.returncode == 0, log.decode()
    assert output.decode().splitlines()[-1].startswith(str(overlays))


def test_a_package_of_the_requirements_wins_over_our_stand_in_for_it(host: Host, overlays: Path):
    folder = host.code / "wheels"
    path = wheel(folder, "smdebug", "1.0.35")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("smdebug/__init__.py", "version = 'the original'\n")
    host.script("import smdebug; print(smdebug.version)")
    host.script("--find-links wheels\nsmdebug==1.0.35\n", "requirements.txt")
    finished = host.train()
    assert finished.code == 0, finished.log
    assert finished.last_line == "the original"


def test_a_second_job_reuses_the_overlay_without_pip(host: Host, overlays: Path):
    wheel(host.code / "wheels", "tracksidetest")
    host.script(REPORT.format("tracksidetest"))
    host.script("--find-links wheels\ntracksidetest\n", "requirements.txt")
    first, second = host.train(), host.train()
    assert second.code == 0
    assert first.last_line == second.last_line
    assert "Installing" in first.log
    assert "Installing" not in second.log


def test_another_version_than_the_parents_hides_it_and_leaves_it(host: Host, overlays: Path):
    wheel(host.code / "wheels", "iniconfig", "99.0")
    host.script("import iniconfig; print(iniconfig.version)")
    host.script("--find-links wheels\niniconfig==99.0\n", "requirements.txt")
    before = in_the_parent("iniconfig")
    finished = host.train()
    assert finished.last_line == "99.0", finished.log
    assert in_the_parent("iniconfig") == before


def test_what_the_parent_has_already_is_not_installed(host: Host, overlays: Path):
    host.script("import sys; print(sys.executable)")
    host.script(f"pytest=={pytest.__version__}\nnumpy>=1\n", "requirements.txt")
    finished = host.train()
    assert finished.stdout.decode().strip() == sys.executable
    assert not overlays.exists()


def test_a_requirement_that_cannot_be_met_fails_with_pips_message(host: Host, overlays: Path):
    host.script("raise SystemExit('must not run')")
    host.script("no-such-package==1.0\n", "requirements.txt")
    finished = host.train()
    assert finished.code == 1
    assert host.failure.startswith("InstallRequirementsError:\nExitCode 1\n")
    assert "No matching distribution found for no-such-package==1.0" in host.failure
    assert "must not run" not in finished.log
    assert host.train().code == 1, "a failed installation must not be taken for a finished one"


def test_an_installation_that_was_killed_is_done_again(host: Host, overlays: Path):
    wheel(host.code / "wheels", "tracksidetest")
    host.script(REPORT.format("tracksidetest"))
    host.script("--find-links wheels\ntracksidetest\n", "requirements.txt")
    process = host.start(stderr=subprocess.DEVNULL)
    until(lambda: list(overlays.glob("*/bin/python")))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = host.train()
    assert finished.code == 0, finished.log
    assert b"tracksidetest.py" in finished.stdout


def test_jobs_that_start_together_share_one_installation(
    host: Host, overlays: Path, tmp_path: Path
):
    other = Host(tmp_path / "other")
    other.variables.update(
        TRACKSIDE_OVERLAYS=str(overlays), PIP_NO_INDEX="1", HOME=host.variables["HOME"]
    )
    wheel(tmp_path / "wheels", "tracksidetest")
    for each in (host, other):
        each.script(REPORT.format("tracksidetest"))
        each.script(f"--find-links {tmp_path}/wheels\ntracksidetest\n", "requirements.txt")
    log = tmp_path / "log"
    with log.open("ab") as file:
        processes = [each.start(stdout=file, stderr=file) for each in (host, other)]
        assert [process.wait() for process in processes] == [0, 0]
    assert log.read_text().count("Installing: ") == 1
    assert len([path for path in overlays.iterdir() if path.is_dir()]) == 1


def test_what_cannot_be_cached_is_installed_for_this_job_only(host: Host, overlays: Path):
    host.script("from setuptools import setup; setup(name='own', py_modules=['own'])", "setup.py")
    host.script("", "own.py")
    host.script(REPORT.format("own"))
    (host.code / "train.py").rename(host.code / "start.py")
    finished = host.train(SAGEMAKER_PROGRAM="start.py", PIP_NO_BUILD_ISOLATION="0")
    assert finished.code == 0, finished.log
    assert str(host.base / ".overlay" / "bin" / "python") in finished.stdout.decode()
    assert not (host.base / ".overlay").exists()
    assert not overlays.exists()


def test_a_shell_script_finds_the_overlays_programs(host: Host, overlays: Path):
    wheel(host.code / "wheels", "tracksidetest")
    host.script(
        "#!/bin/sh\nset -e\n"
        "python -c 'import tracksidetest, torch'\n"
        "for each in python pip torchrun pytest tracksidetest; do command -v $each; done\n"
        "pytest --version\n"  # a program of the interpreter's own packages
        "tracksidetest --lr 1",
        "go.sh",
    )
    host.script("--find-links wheels\ntracksidetest\n", "requirements.txt")
    finished = host.train(SAGEMAKER_PROGRAM="go.sh", PATH="/usr/bin:/bin")
    assert finished.code == 0, finished.log
    own = host.base / ".overlay"
    programs = ("python", "pip", "torchrun", "pytest", "tracksidetest")
    *found, version, ran = finished.stdout.decode().splitlines()[-7:]
    assert found == [str(own / "bin" / name) for name in programs]
    assert version.startswith("pytest ")
    assert ran == f"['--lr', '1'] {own}"


def test_a_command_sees_the_overlay_and_installs_beside_it(host: Host, overlays: Path):
    wheel(host.code / "wheels", "tracksidetest")
    wheel(host.code / "more", "tracksideextra")
    host.script("--find-links wheels\ntracksidetest\n", "requirements.txt")
    install = "pip install -q --no-deps --find-links more tracksideextra"
    show = "import tracksideextra as x, tracksidetest as t; print(t.__file__, x.__file__)"
    line = f"{install}; command -v tracksidetest; python -c '{show}'"
    host.configure("tracksideconfig", {"Command": ["sh", "-ec", line]})
    finished = host.train()
    assert finished.code == 0, finished.log
    required, extra = finished.last_line.split()
    assert required.startswith(str(overlays))
    assert extra.startswith(f"{host.base}/.overlay/")
    assert not [*overlays.rglob("tracksideextra*")]
    assert not (host.base / ".overlay").exists()


def test_in_a_container_the_interpreter_itself_is_changed(host: Host, container: Path):
    wheel(host.code / "wheels", "tracksidetest")
    host.script(REPORT.format("tracksidetest"))
    host.script("--no-index\n--find-links wheels\ntracksidetest\n", "requirements.txt")
    process = host.start(
        (str(container), "-m", "trackside.toolkit"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    output, _ = process.communicate()
    assert process.returncode == 0
    assert output.decode().splitlines()[-1].startswith(str(container.parent.parent))


def test_a_file_of_the_source_does_not_take_the_place_of_one_of_pips(host: Host, overlays: Path):
    wheel(host.code / "wheels", "tracksidetest")
    host.script("raise RuntimeError('imported by pip')", "json.py")
    host.script("print('ran')", "sub/train.py")
    host.script("--find-links wheels\ntracksidetest\n", "requirements.txt")
    finished = host.train(SAGEMAKER_PROGRAM="sub/train.py")
    assert "imported by pip" not in finished.log.partition("Invoking")[0]
