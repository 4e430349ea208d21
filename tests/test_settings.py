"""What the environment decides: known names, sensible values, the same for every process."""

from pathlib import Path

import pytest

from trackside.errors import InvalidSetting
from trackside.settings import Settings


def test_nothing_set_means_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings.load({})
    assert settings.home == tmp_path / ".trackside"
    assert settings.output == "s3://trackside"
    assert settings.upload_deadline_seconds == 900


def test_an_empty_variable_is_not_set():
    assert Settings.load({"TRACKSIDE_UPLOAD_DEADLINE": ""}).upload_deadline_seconds == 900


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert Settings.load({"TRACKSIDE_HOME": "here"}).home == tmp_path / "here"


def test_another_process_loads_the_same_settings():
    settings = Settings.load(
        {"TRACKSIDE_HOME": "/srv/trackside", "TRACKSIDE_UPLOAD_DEADLINE": "7.5"}
    )
    assert Settings.load(settings.variables) == settings


def test_a_misspelt_name_is_refused_with_the_known_ones():
    with pytest.raises(InvalidSetting, match=r"TRACKSIDE_HOEM.*TRACKSIDE_HOME"):
        Settings.load({"TRACKSIDE_HOEM": "/x"})


def test_what_trackside_sets_for_its_own_processes_is_no_mistake():
    Settings.load({"TRACKSIDE_NONCE": "abc", "PATH": "/bin"})


@pytest.mark.parametrize("text", ["soon", "nan", "-1", "-inf"])
def test_a_deadline_that_would_never_come_is_refused(text: str):
    with pytest.raises(InvalidSetting, match="TRACKSIDE_UPLOAD_DEADLINE"):
        Settings.load({"TRACKSIDE_UPLOAD_DEADLINE": text})


def test_an_unknown_isolation_is_refused():
    with pytest.raises(InvalidSetting, match="auto, root, user, none"):
        Settings.load({"TRACKSIDE_ISOLATION": "docker"})


def test_processes_of_an_embedded_job_use_no_server():
    given = {"TRACKSIDE_URL": "http://x:1", "TRACKSIDE_SECRET_ACCESS_KEY": "s"}
    settings = Settings.load({**given, "TRACKSIDE_PROFILE": "ci"})
    assert not settings.runs_here
    assert settings.embedded.runs_here
    inherited = Settings.load({**given, **settings.embedded.variables})
    assert (inherited.url, inherited.profile, inherited.secret_access_key) == ("embedded", "", "")
    assert "secret_access_key" not in repr(settings)


def test_the_storage_of_a_server_is_where_output_goes_unless_that_is_reported():
    assert Settings.load({"TRACKSIDE_STORAGE": "s3://team/x"}).output == "s3://team/x"
    both = {"TRACKSIDE_STORAGE": "s3://team", "TRACKSIDE_OUTPUT": "s3://mine"}
    settings = Settings.load(both)
    assert (settings.storage, settings.output) == ("s3://team", "s3://mine")
    assert Settings.load(settings.variables) == settings


def test_the_password_of_the_database_is_not_shown():
    settings = Settings.load({"TRACKSIDE_DATABASE": "postgresql://u:hush-1@db/x"})
    assert settings.database
    assert "hush-1" not in repr(settings)
