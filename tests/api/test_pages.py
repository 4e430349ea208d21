"""/health and /metrics of a real server, requested over its socket."""

import asyncio
import base64
import http.client
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.conftest import Server
from tests.api.training import ended, request
from tests.wait import until
from trackside.api import health
from trackside.api.health import Health
from trackside.api.keys import Rights
from trackside.api.telemetry import Telemetry
from trackside.page.peer import is_local


def get(service: Server, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def metrics(service: Server, **headers: str) -> dict[tuple[Any, ...], float]:
    """By name and the values of the labels, in the order of their names."""
    status, body = get(service, "/metrics", **headers)
    assert status == 200, body
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def metrics_with(service: Server, *keys: tuple[str, ...]) -> dict[tuple[Any, ...], float]:
    """As soon as these are among them."""

    def poll() -> dict[tuple[Any, ...], float]:
        found = metrics(service)
        return found if all(key in found for key in keys) else {}

    return until(poll)


def test_concurrent_requests_for_metrics_share_one_scrape(
    service: Server, monkeypatch: pytest.MonkeyPatch
):
    begun, go = [], Event()
    scrape = Telemetry.scrape

    def slow_scrape(telemetry: Telemetry) -> bytes:
        begun.append(1)
        assert go.wait(60)
        return scrape(telemetry)

    monkeypatch.setattr(Telemetry, "scrape", slow_scrape)
    with ThreadPoolExecutor(20) as clients:
        params = [clients.submit(get, service, "/metrics") for _ in range(20)]
        until(lambda: begun)
        assert get(service, "/health")[0] == 200
        go.set()
        assert [each.result()[0] for each in params] == [200] * 20
    assert len(begun) < 20


def test_a_healthy_server_reports_ok(service: Server):
    for path in ("/health", "/health/live"):
        status, body = get(service, path)
        assert (status, json.loads(body)) == (200, {"status": "ok"})


def test_an_unavailable_store_is_reported_and_the_server_stays_alive(
    service: Server, jobs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRACKSIDE_S3", "")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a" * 20)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "never-shown-in-health")
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    def is_degraded() -> bytes:
        status, body = get(service, "/health")
        return body if status == 503 else b""

    shown = json.loads(until(is_degraded))
    assert shown["status"] == "degraded"
    assert set(shown["problems"]) == {"store"}
    assert "never-shown" not in str(shown)
    assert get(service, "/health/live")[0] == 200


def test_a_bucket_may_have_a_page_s_name(service: Server):
    client = service.client("s3")
    client.create_bucket(Bucket="metrics")
    client.put_object(Bucket="metrics", Key="a", Body=b"x")
    assert [each["Key"] for each in client.list_objects_v2(Bucket="metrics")["Contents"]] == ["a"]


def test_requests_are_counted_by_what_they_were(service: Server):
    training, s3 = service.client("sagemaker"), service.client("s3")
    training.list_training_jobs()
    training.list_training_jobs()
    s3.create_bucket(Bucket="data-1")
    s3.put_object(Bucket="data-1", Key="a", Body=b"x" * 5000)
    s3.get_object(Bucket="data-1", Key="a", Range="bytes=0-999")["Body"].read()
    with pytest.raises(training.exceptions.ClientError):
        training.describe_training_job(TrainingJobName="nobody")
    with pytest.raises(training.exceptions.ClientError):
        training.list_models()
    outsider = service.client("sagemaker", aws_access_key_id="AKIANOBODY")
    with pytest.raises(training.exceptions.ClientError):
        outsider.list_training_jobs()
    total = "trackside_requests_total"
    counts = {
        (total, "200", "ListTrainingJobs", "sagemaker"): 2,
        (total, "400", "DescribeTrainingJob", "sagemaker"): 1,
        (total, "404", "other", "sagemaker"): 1,
        (total, "400", "other", "sagemaker"): 1,
        (total, "206", "REST.GET.OBJECT", "s3"): 1,
    }
    # A request is counted when its last byte was sent, which is a moment after it was read.
    until(lambda: counts.items() <= metrics(service).items())
    found = metrics(service)
    assert found["trackside_request_seconds_count", "ListTrainingJobs", "sagemaker"] == 2
    bucket = "trackside_request_seconds_bucket"
    assert found[bucket, "+Inf", "ListTrainingJobs", "sagemaker"] == 2
    assert found["trackside_received_bytes_total", "s3"] >= 5000
    assert 1000 <= found["trackside_sent_bytes_total", "s3"] < 5000


def test_jobs_upkeep_and_the_process_have_metrics(service: Server):
    training = service.client("sagemaker")
    training.create_training_job(**request("done"))
    ended(training, "done")
    training.create_training_job(**request("held", hyper={"hold": "1"}))
    until(lambda: metrics(service).get(("trackside_jobs", "Completed")) == 1)
    found = metrics_with(service, ("trackside_jobs_in_progress", "Training"))
    assert found["trackside_jobs", "InProgress"] == 1
    assert found["trackside_jobs", "Failed"] == 0
    assert found["trackside_queue_length",] == 0
    assert 0 <= found["trackside_upkeep_age_seconds",] < 60
    assert found["process_resident_memory_bytes",] > 10 << 20
    assert found["process_open_fds",] > 3
    assert found["process_cpu_seconds_total",] > 0
    assert abs(found["process_start_time_seconds",] - time.time()) < 3600


def test_every_metric_is_explained(service: Server):
    service.client("sts").get_caller_identity()
    _, body = get(service, "/metrics")
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    names = re.findall(r"^# TYPE (\S+)", body.decode(), re.M)
    assert len(names) > 10
    assert [name for name in names if f"`{name}`" not in page] == []


def test_clients_cannot_choose_label_values(service: Server):
    for number in range(20):
        get(service, "/", **{"X-Amz-Target": f"SageMaker.Made{number}"})
        scope = f"a/20260101/region/made{number}/aws4_request"
        signature = f"SignedHeaders=host, Signature={'0' * 64}"
        get(
            service,
            "/",
            **{
                "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, {signature}",
                "X-Amz-Date": "20260101T000000Z",
            },
        )
    found = metrics_with(service, ("trackside_requests_total", "404", "other", "other"))
    assert not [key for key in found if "made" in str(key).lower()]


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def test_remote_clients_need_a_key_to_read_metrics(service: Server):
    proxied = {"Host": "trackside.example.org", "X-Forwarded-For": "203.0.113.7"}
    status, body = get(service, "/metrics", **proxied)
    assert status == 401
    assert b"trackside_" not in body
    assert get(service, "/metrics", Host="rebound.example.org")[0] == 401
    key, secret = service.keys.create("prometheus", Rights.READ)
    assert get(service, "/metrics", **proxied, **basic(key.id, secret))[0] == 200
    assert get(service, "/metrics", **proxied, **basic(key.id, secret[:-1]))[0] == 401
    assert get(service, "/metrics", **proxied, **basic("nobody", secret))[0] == 401
    assert get(service, "/metrics", **proxied, Authorization="Basic !!")[0] == 401
    service.keys.revoke(key.id)
    assert get(service, "/metrics", **proxied, **basic(key.id, secret))[0] == 401


@pytest.mark.parametrize(
    ("peer", "host", "is_here"),
    [
        ("127.0.0.1", "127.0.0.1:7007", True),
        ("127.0.0.1", "localhost", True),
        ("::1", "[::1]:7007", True),
        ("10.0.0.9", "127.0.0.1:7007", False),
        ("127.0.0.1", "server.example.org:7007", False),
        ("", "localhost", False),
    ],
)
def test_which_clients_count_as_local(peer: str, host: str, is_here: bool):
    assert is_local({"host": host}, peer) is is_here


def test_a_check_that_hangs_is_reported_and_not_started_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    release, started = Event(), []

    def hang() -> str:
        started.append(1)
        release.wait(60)
        return ""

    async def probe() -> None:
        hanging = Health({"store": hang}, lambda: False)
        for _ in range(3):
            report = await hanging.report()
            assert report["status"] == "degraded"
            assert "has not answered for" in str(report["problems"])
        assert len(started) == 1
        release.set()
        while (await hanging.report())["status"] != "ok":
            await asyncio.sleep(0.01)

    asyncio.run(probe())
