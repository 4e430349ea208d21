"""Which S3 endpoint and credentials are used."""

from pathlib import Path

import pytest

from trackside.errors import InvalidSetting
from trackside.storage.credentials import ENDPOINT_VARIABLES, looked_up_once, s3_access

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "config").write_text(
        """
[default]
region = eu-north-1

[profile minio]
endpoint_url = https://minio.example/
region = eu-west-3

[profile split]
services = mine
endpoint_url = https://everything.example

[services mine]
s3 =
  endpoint_url = https://only-s3.example
  addressing_style = path
sqs =
  endpoint_url = https://queue.example

[profile sso]
sso_session = company
endpoint_url = https://minio.example

[profile role]
role_arn = arn:aws:iam::123456789012:role/x
source_profile = default
endpoint_url = https://minio.example
"""
    )
    (folder / "credentials").write_text(
        """
[default]
aws_access_key_id = default-id
aws_secret_access_key = default-%secret

[minio]
aws_access_key_id = minio-id
aws_secret_access_key = minio-secret
aws_session_token = minio-token
"""
    )
    return tmp_path


def test_without_an_endpoint_s3_is_embedded_even_with_credentials(profiles: Path) -> None:
    assert s3_access({}) is None
    assert s3_access(KEYS) is None
    assert s3_access({"HOME": str(profiles)}) is None


def test_amazon_is_reached_only_on_request(profiles: Path) -> None:
    access = s3_access({"TRACKSIDE_S3": "aws", "HOME": str(profiles)})
    assert access is not None
    assert access.endpoint is None
    assert access.region == "eu-north-1"
    assert access.access_key_id == "default-id"
    assert access.secret_access_key == "default-%secret"


@pytest.mark.parametrize("place", range(len(ENDPOINT_VARIABLES)))
def test_the_first_endpoint_variable_counts(place: int) -> None:
    environ = {name: f"http://{name.lower()}:1/" for name in ENDPOINT_VARIABLES[place:]}
    access = s3_access(environ | KEYS)
    assert access is not None
    assert access.endpoint == f"http://{ENDPOINT_VARIABLES[place].lower()}:1"


def test_embedded_can_be_chosen_in_spite_of_an_endpoint() -> None:
    assert s3_access({"TRACKSIDE_S3": "embedded", "AWS_ENDPOINT_URL": "http://x:1"}) is None


def test_a_profile_gives_endpoint_region_and_keys(profiles: Path) -> None:
    access = s3_access({"HOME": str(profiles), "AWS_PROFILE": "minio"})
    assert access is not None
    assert access.endpoint == "https://minio.example"
    assert access.region == "eu-west-3"
    assert (access.access_key_id, access.session_token) == ("minio-id", "minio-token")


def test_the_services_section_of_a_profile_goes_before_its_endpoint(profiles: Path) -> None:
    access = s3_access({"HOME": str(profiles), "AWS_PROFILE": "split"})
    assert access is not None
    assert access.endpoint == "https://only-s3.example"


def test_configured_endpoints_can_be_ignored_as_in_the_aws_cli(profiles: Path) -> None:
    environ = {"HOME": str(profiles), "AWS_PROFILE": "minio"}
    assert s3_access(environ | {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}) is None


def test_keys_in_the_environment_go_before_a_profile(profiles: Path) -> None:
    access = s3_access({"HOME": str(profiles), "AWS_PROFILE": "minio"} | KEYS)
    assert access is not None
    assert (access.access_key_id, access.session_token) == ("id", None)


def test_profile_files_may_be_elsewhere(profiles: Path) -> None:
    files = profiles / ".aws"
    environ = {
        "AWS_CONFIG_FILE": str(files / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(files / "credentials"),
        "AWS_PROFILE": "minio",
        "HOME": "/nonexistent",
    }
    access = s3_access(environ)
    assert access is not None
    assert access.access_key_id == "minio-id"


@pytest.mark.parametrize("profile", ["sso", "role"])
def test_the_error_for_a_profile_that_needs_the_aws_cli_names_it(
    profiles: Path, profile: str
) -> None:
    access = s3_access({"HOME": str(profiles), "AWS_PROFILE": profile})
    assert access is not None
    assert access.source == "none"
    assert f"aws configure export-credentials --profile {profile}" in access.advice


def test_the_error_for_an_endpoint_without_keys_says_what_to_set(tmp_path: Path) -> None:
    access = s3_access({"HOME": str(tmp_path), "AWS_ENDPOINT_URL": "http://x:1"})
    assert access is not None
    assert access.source == "none"
    assert "AWS_ACCESS_KEY_ID" in access.advice


def test_an_unknown_profile_is_named(profiles: Path) -> None:
    environ = {"HOME": str(profiles), "AWS_PROFILE": "typo", "AWS_ENDPOINT_URL": "http://x:1"}
    access = s3_access(environ)
    assert access is not None
    assert "'typo'" in access.advice


def test_credentials_from_the_surroundings_are_left_to_the_library() -> None:
    environ = {"TRACKSIDE_S3": "aws", "HOME": "/nonexistent"}
    for extra, source in (
        ({}, "instance"),
        ({"AWS_EC2_METADATA_DISABLED": "true"}, "none"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}, "surroundings"),
    ):
        access = s3_access(environ | extra)
        assert access is not None
        assert access.source == source


@pytest.mark.parametrize(
    "environ",
    [
        {"TRACKSIDE_S3": "minio"},
        {"AWS_ENDPOINT_URL": "localhost:9000"},
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(environ: dict[str, str]) -> None:
    ((name, value),) = environ.items()
    with pytest.raises(InvalidSetting, match=f"{name} = {value!r}"):
        s3_access(environ)


def test_a_broken_profile_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken config"
    broken.write_text("no section here\n")
    with pytest.raises(InvalidSetting, match="broken config"):
        s3_access({"AWS_CONFIG_FILE": str(broken)})


def test_secrets_are_not_shown() -> None:
    access = s3_access({"AWS_ENDPOINT_URL": "http://x:1", "AWS_SESSION_TOKEN": "token!"} | KEYS)
    assert "secret'" not in repr(access)
    assert "token!" not in repr(access)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9000", "http://", "http://127.0.0.1:", "http://host:port", "ftp://host"]
)
def test_an_endpoint_that_is_no_address_is_named(url: str) -> None:
    with pytest.raises(InvalidSetting, match="is not a web address"):
        s3_access({"AWS_ENDPOINT_URL": url})


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000", "https://s3.example", "http://[::1]:80/"])
def test_an_endpoint_that_is_an_address_is_taken(url: str) -> None:
    access = s3_access({"AWS_ENDPOINT_URL": url})
    assert access is not None
    assert access.endpoint == url.rstrip("/")


def test_a_profile_that_was_changed_is_read_again_but_not_within_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = tmp_path / "config"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name in ("TRACKSIDE_S3", "TRACKSIDE_URL", "AWS_PROFILE", *ENDPOINT_VARIABLES):
        monkeypatch.delenv(name, raising=False)

    def endpoint() -> str | None:
        access = s3_access()
        return None if access is None else access.endpoint

    assert endpoint() is None
    config.write_text("[default]\nendpoint_url = http://first:9000\n")
    assert endpoint() == "http://first:9000"
    with looked_up_once():
        assert endpoint() == "http://first:9000"
        config.write_text("[default]\nendpoint_url = http://the-second:9000\n")
        assert endpoint() == "http://first:9000"
    assert endpoint() == "http://the-second:9000"
