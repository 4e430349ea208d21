"""Which locations other machines do not reach."""

from pathlib import Path

import pytest

from trackside.storage.reach import only_here

BUCKETS = "in the buckets of TRACKSIDE_HOME"


@pytest.mark.parametrize("uri", ["data", "/data", "file:///data"])
def test_a_folder_is_of_this_machine(tmp_path: Path, uri: str):
    assert only_here(uri, tmp_path) == "is a folder of this machine"


def test_the_embedded_buckets_are_of_this_machine(tmp_path: Path):
    assert BUCKETS in only_here("s3://bucket/key", tmp_path)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.9.1", "s3.localhost"])
def test_an_endpoint_of_loopback_is_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{host}:9000")
    assert f"http://{host}:9000" in only_here("s3://bucket/key", tmp_path)


def test_another_home_on_this_machine_reaches_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert BUCKETS in only_here("s3://bucket/key", tmp_path, has_loopback=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000")
    assert only_here("s3://bucket/key", tmp_path, has_loopback=True) == ""


def test_other_endpoints_are_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://minio:9000")
    assert only_here("s3://bucket/key", tmp_path) == ""
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.setenv("TRACKSIDE_S3", "aws")
    assert only_here("s3://bucket/key", tmp_path) == ""


@pytest.mark.parametrize("uri", ["gs://bucket/key", "az://container/key"])
def test_other_clouds_are_for_all(tmp_path: Path, uri: str):
    assert only_here(uri, tmp_path) == ""


def test_a_server_serves_its_buckets_at_its_address(tmp_path: Path):
    assert only_here("s3://bucket/key", tmp_path, buckets_url="http://10.0.0.5:7007") == ""
    at_loopback = only_here("s3://bucket/key", tmp_path, buckets_url="http://127.0.0.1:7007")
    assert "http://127.0.0.1:7007" in at_loopback
