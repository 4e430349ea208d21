"""Which server a process speaks to, and as whom."""

import stat
from pathlib import Path

import pytest

from trackside.errors import InvalidSetting
from trackside.files import durable
from trackside.profiles import Key, Server, chosen_server, read_profiles, write_profiles
from trackside.records.layout import Home
from trackside.storage.credentials import s3_access

URL = "http://10.0.0.7:7007"
GIVEN = {"TRACKSIDE_ACCESS_KEY_ID": "TSGIVEN", "TRACKSIDE_SECRET_ACCESS_KEY": "given"}
AWS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "aws"}
STORED = Server(URL, Key("TSSTORED", "stored"))


def key_of(environ: dict[str, str], home: Path) -> str | None:
    server = chosen_server(environ, home)
    return None if server is None or server.key is None else server.key.id


def has_own_server(home: Path, url: str = URL) -> None:
    folder = Home(home).server
    folder.root.mkdir(parents=True)
    durable.write_json(folder.address, {"url": url})
    durable.write_json(folder.own_key, {"id": "TSOWN", "secret": "own"})


def test_nothing_configured_is_embedded(tmp_path: Path):
    assert chosen_server({}, tmp_path) is None
    assert chosen_server(GIVEN | AWS, tmp_path) is None
    has_own_server(tmp_path)
    assert chosen_server({}, tmp_path) is None


def test_an_address_is_enough_where_a_key_is_known(tmp_path: Path):
    environ = {"TRACKSIDE_URL": URL}
    assert key_of(environ, tmp_path) is None
    assert key_of(environ | AWS, tmp_path) == "AKIA"
    has_own_server(tmp_path)
    assert key_of(environ | AWS, tmp_path) == "TSOWN"
    write_profiles(tmp_path, {"default": STORED})
    assert key_of(environ | AWS, tmp_path) == "TSSTORED"
    assert key_of(environ | AWS | GIVEN, tmp_path) == "TSGIVEN"


def test_the_key_of_one_server_is_not_shown_to_another(tmp_path: Path):
    has_own_server(tmp_path)
    write_profiles(tmp_path, {"default": STORED})
    assert key_of({"TRACKSIDE_URL": "http://10.0.0.8:7007"}, tmp_path) is None
    assert key_of({"TRACKSIDE_URL": "https://10.0.0.7:7007"}, tmp_path) is None


def test_this_machine_has_several_names(tmp_path: Path):
    has_own_server(tmp_path, "http://127.0.0.1:7007")
    assert key_of({"TRACKSIDE_URL": "http://localhost:7007/"}, tmp_path) == "TSOWN"
    assert key_of({"TRACKSIDE_URL": "http://localhost:7008"}, tmp_path) is None


def test_a_stored_server_is_used_until_embedded_is_requested(tmp_path: Path):
    write_profiles(tmp_path, {"default": STORED})
    assert chosen_server({}, tmp_path) == STORED
    assert key_of(GIVEN, tmp_path) == "TSGIVEN"
    assert chosen_server({"TRACKSIDE_URL": "embedded"}, tmp_path) is None


def test_one_of_several_servers_is_chosen_by_name(tmp_path: Path):
    other = Server("https://train.example.com", None)
    write_profiles(tmp_path, {"default": STORED, "ci": other})
    assert chosen_server({"TRACKSIDE_PROFILE": "ci"}, tmp_path) == other
    with pytest.raises(InvalidSetting, match=r"'cj' is no profile. Known: ci, default"):
        chosen_server({"TRACKSIDE_PROFILE": "cj"}, tmp_path)


def test_profiles_are_for_their_owner_s_eyes(tmp_path: Path):
    write_profiles(tmp_path / "new home", {"default": STORED})
    path = Home(tmp_path / "new home").profiles
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_profiles(tmp_path / "new home") == {"default": STORED}
    assert "stored" not in repr(STORED)


@pytest.mark.parametrize("content", ["", "[]", '{"default": 3}', '{"default": {"url": "x"}}'])
def test_a_file_that_holds_no_profiles_is_reported(tmp_path: Path, content: str):
    Home(tmp_path).profiles.write_text(content)
    with pytest.raises(InvalidSetting, match=r"profiles\.json.*login"):
        chosen_server({"TRACKSIDE_PROFILE": "default"}, tmp_path)


@pytest.mark.parametrize("url", ["7007", "host:7007", "ftp://x", "http://x/path", "http://a b"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, url: str):
    with pytest.raises(InvalidSetting, match="TRACKSIDE_URL"):
        chosen_server({"TRACKSIDE_URL": url}, tmp_path)


def test_half_a_key_is_refused(tmp_path: Path):
    environ = {"TRACKSIDE_URL": URL, "TRACKSIDE_SECRET_ACCESS_KEY": "s"}
    with pytest.raises(InvalidSetting, match="TRACKSIDE_ACCESS_KEY_ID is not"):
        chosen_server(environ, tmp_path)


def test_s3_is_the_server_s_for_its_clients(tmp_path: Path):
    environ = {"TRACKSIDE_URL": URL, "AWS_ENDPOINT_URL": "http://minio:9000"} | GIVEN
    access = s3_access(environ, tmp_path)
    assert access is not None
    assert (access.endpoint, access.access_key_id) == (URL, "TSGIVEN")
    assert s3_access(environ | {"TRACKSIDE_S3": "embedded"}, tmp_path) is None
    aws = s3_access(environ | {"TRACKSIDE_S3": "aws"}, tmp_path)
    assert aws is not None
    assert aws.endpoint == "http://minio:9000"
    with_no_key = s3_access({"TRACKSIDE_URL": URL}, tmp_path)
    assert with_no_key is not None
    assert "trackside login" in with_no_key.advice
