"""A server that cannot run jobs as it was told says so before it starts, and what to do."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.other_users import FIRST, needs_other_users, python_for_all
from trackside.errors import InvalidSetting, ServerRefused
from trackside.settings import Settings
from trackside.supervisor import user_check
from trackside.supervisor.user_check import check_users

pytestmark = needs_other_users


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def settings(home: Path, **variables: str) -> Settings:
    named = {f"TRACKSIDE_{name.upper()}": value for name, value in variables.items()}
    given = {"TRACKSIDE_RUN_AS": str(FIRST), "TRACKSIDE_PYTHON": python_for_all()}
    return Settings.load({**given, "TRACKSIDE_HOME": str(home), **named})


def refused(home: Path, **variables: str) -> str:
    with pytest.raises(ServerRefused) as caught:
        check_users(settings(home, **variables))
    return caught.value.message


def test_a_user_that_can_run_jobs_is_good_and_the_home_is_closed_to_it(open_folder: Path) -> None:
    home = open_folder / "home"
    home.mkdir(mode=0o755)
    check_users(settings(home, run_as=f"ci={FIRST},{FIRST + 1}"))
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_without_other_users_nothing_is_checked(tmp_path: Path) -> None:
    check_users(settings(tmp_path / "home", run_as="", python="/no/such/python"))
    assert not (tmp_path / "home").exists()


def test_an_interpreter_behind_a_closed_folder_is_named_with_the_folder(
    tmp_path: Path, open_folder: Path
) -> None:
    closed = open_folder / "closed"
    (closed / "bin").mkdir(parents=True)
    os.symlink(os.path.realpath(python_for_all()), closed / "bin" / "python")
    closed.chmod(0o700)
    python = str(closed / "bin" / "python")
    assert refused(tmp_path / "home", python=python) == (
        f"'{python}' cannot be read by user '{FIRST}': '{closed}' is closed to it. "
        "Set TRACKSIDE_PYTHON to an interpreter that it can run."
    )
    (open_folder / "python").symlink_to(closed / "program")
    (closed / "program").write_text("#!/bin/sh\n")
    (closed / "program").chmod(0o755)
    behind = refused(tmp_path / "home", python=str(open_folder / "python"))
    assert behind.startswith(f"'{closed / 'program'}' cannot be read by user")


def test_an_interpreter_that_does_not_start_is_reported_in_its_output(
    tmp_path: Path, open_folder: Path
) -> None:
    python = open_folder / "python"
    python.write_text("#!/bin/sh\necho 'no such library' >&2\nexit 3\n")
    python.chmod(0o755)
    text = refused(tmp_path / "home", python=str(python))
    assert f"'{python}' does not start as user '{FIRST}': no such library." in text
    python.write_text("#!/bin/sh\nexit 3\n")
    assert "exit code 3" in refused(tmp_path / "home", python=str(python))
    assert "no interpreter '/no/such'" in refused(tmp_path / "home", python="/no/such")


def test_a_home_that_the_user_can_put_another_in_place_of_is_refused(open_folder: Path) -> None:
    its_own = open_folder / "its own"
    its_own.mkdir(mode=0o755)
    os.chown(its_own, FIRST, FIRST)
    home = its_own / "home"
    text = refused(home)
    assert f"'{home}' can be changed by user '{FIRST}', through '{its_own}'." in text
    assert "Choose a TRACKSIDE_HOME below folders that only root can write to." in text


def test_a_copy_of_trackside_that_the_user_can_change_is_refused(
    tmp_path: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = open_folder / "trackside"
    package.mkdir()
    monkeypatch.setattr(user_check, "_PACKAGE", package)
    os.chown(package, FIRST, FIRST)
    text = refused(tmp_path / "home")
    assert f"'{package}' can be changed by user '{FIRST}'. Root runs it" in text
    os.chown(package, 0, 0)
    package.chmod(0o700)
    text = refused(tmp_path / "home")
    assert f"'{package}' cannot be read by user '{FIRST}'. Install Trackside where" in text


@pytest.mark.parametrize("isolation", ["user", "none"])
def test_an_isolation_that_cannot_do_it_is_refused(tmp_path: Path, isolation: str) -> None:
    text = refused(tmp_path / "home", isolation=isolation)
    assert f"the isolation '{isolation}' cannot do that. Unset TRACKSIDE_ISOLATION" in text


def test_a_user_that_there_is_not_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="does not know"):
        check_users(settings(tmp_path / "home", run_as="ci=nobody-of-that-name"))
