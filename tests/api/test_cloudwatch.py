"""Metrics of jobs, requested by the real boto3, in both protocols of CloudWatch's clients."""

import json
import os
import shutil
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.api.conftest import REGION, Server
from tests.api.training import request
from tests.wait import until
from trackside.curves.event_file import EventFile
from trackside.files import durable
from trackside.jobs.jobs import Jobs
from trackside.records.metric_totals import started, to_json

NAMESPACE = "/aws/sagemaker/TrainingJobs"
MINUTE = 1_700_000_040.0
"""The beginning of one, long ago."""


@pytest.fixture
def client(service: Server):
    return service.client("cloudwatch")


@pytest.fixture
def drawn(service: Server, jobs: Jobs) -> Jobs:
    """A running job whose supervisor has found a loss in its log, and sampled its machine."""
    service.client("sagemaker").create_training_job(**request(hyper={"hold": "1"}))
    until(lambda: jobs.describe("job-1")["SecondaryStatus"] == "Training")
    folder = jobs.settings.layout.job("job-1").host("algo-1", 1)
    losses = EventFile(folder.curves / "trackside" / "algo-1")
    for number, value in enumerate([4.0, 2.0, float("nan"), 1.0, 0.5]):
        losses.add(("loss", value, number, MINUTE + 20 * number))
    losses.close()
    folder.metrics.mkdir(exist_ok=True)
    folder.reported_metrics.mkdir(parents=True)
    totals = {"metrics": to_json({"loss": started(0.5, MINUTE)})}
    durable.write_json(folder.metrics / "algo-1.json", totals)
    machine = EventFile(folder.curves / "system" / "algo-1")
    for core, value in ((0, 30.0), (1, 90.0)):
        machine.add((f"cpu/core_{core}_percent", value, 1, MINUTE + 1))
    machine.add(("memory/used_percent", 12.5, 1, MINUTE + 1))
    machine.close()
    return jobs


def params(name: str = "loss", **changed: Any) -> Any:
    return {
        "Namespace": NAMESPACE,
        "MetricName": name,
        "Dimensions": [{"Name": "TrainingJobName", "Value": "job-1"}],
        "StartTime": moment(5),
        "EndTime": moment(600),
        "Period": 60,
        "Statistics": ["Average"],
        **changed,
    }


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(MINUTE + seconds, UTC)


def refused(call: Any, **given: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**given)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_statistics_are_over_whole_periods_and_finite_values(client, drawn: Jobs):
    names = ["Average", "Sum", "Minimum", "Maximum", "SampleCount"]
    answer = client.get_metric_statistics(**params(Statistics=names))
    assert answer["Label"] == "loss"
    first, second = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
    assert first == {
        "Timestamp": moment(0),
        "Average": 3.0,
        "Sum": 6.0,
        "Minimum": 2.0,
        "Maximum": 4.0,
        "SampleCount": 2.0,
        "Unit": "None",
    }
    assert (second["Timestamp"], second["Average"]) == (moment(60), 0.75)


def test_a_running_job_s_next_values_are_there_at_the_next_question(client, drawn: Jobs):
    before = client.get_metric_statistics(**params())["Datapoints"]
    folder = drawn.settings.layout.job("job-1").host("algo-1", 1)
    more = EventFile(folder.curves / "trackside" / "algo-1")
    more.add(("loss", 9.0, 5, MINUTE + 300))
    more.close()
    after = client.get_metric_statistics(**params())["Datapoints"]
    assert len(after) == len(before) + 1


def test_percentiles_and_short_periods(client, drawn: Jobs):
    given = params(Period=1, ExtendedStatistics=["p50"], StartTime=moment(0), EndTime=moment(21))
    del given["Statistics"]
    points = client.get_metric_statistics(**given)["Datapoints"]
    assert [(p["Timestamp"], p["ExtendedStatistics"]) for p in points] == [
        (moment(0), {"p50": 4.0}),
        (moment(20), {"p50": 2.0}),
    ]


def test_the_machine_s_figures_go_by_host(client, drawn: Jobs):
    host = [{"Name": "Host", "Value": "job-1/algo-1"}]
    [point] = client.get_metric_statistics(**params("CPUUtilization", Dimensions=host))[
        "Datapoints"
    ]
    assert point["Average"] == 120.0
    [point] = client.get_metric_statistics(**params("MemoryUtilization", Dimensions=host))[
        "Datapoints"
    ]
    assert point["Average"] == 12.5


def test_what_is_not_there_has_no_datapoints(client, drawn: Jobs):
    for given in (
        params("accuracy"),
        params(Namespace="AWS/EC2"),
        params(Dimensions=[{"Name": "TrainingJobName", "Value": "nobody"}]),
        params(Dimensions=[]),
        params("CPUUtilization", Dimensions=[{"Name": "Host", "Value": "job-1/algo-9"}]),
    ):
        assert client.get_metric_statistics(**given)["Datapoints"] == []


def test_invalid_requests_have_the_codes_that_programs_check_for(client, drawn: Jobs):
    ask = client.get_metric_statistics
    code, text = refused(ask, **params(EndTime=moment(0) + timedelta(days=2)))
    assert code == "InvalidParameterCombination"
    assert "You have requested up to 2,880 datapoints" in text
    assert refused(ask, **params(EndTime=moment(0)))[0] == "InvalidParameterValue"
    assert "multiple of 60" in refused(ask, **params(Period=61))[1]
    assert refused(ask, **params(Statistics=["Median"]))[0] == "InvalidParameterValue"
    without = params()
    del without["Statistics"]
    assert refused(ask, **without)[0] == "InvalidParameterCombination"
    with pytest.raises(client.exceptions.InvalidParameterValueException):
        ask(**params(Period=61))


def query(id: str, stat: str = "Average", **changed: Any) -> Any:
    metric = {key: params()[key] for key in ("Namespace", "MetricName", "Dimensions")}
    return {"Id": id, "MetricStat": {"Metric": metric, "Period": 60, "Stat": stat}, **changed}


def test_metric_data_comes_newest_first_and_page_by_page(client, drawn: Jobs):
    window = {"StartTime": moment(0), "EndTime": moment(600)}
    queries = [query("a"), query("b", "Maximum", Label="top"), query("c", ReturnData=False)]
    a, b = client.get_metric_data(MetricDataQueries=queries, **window)["MetricDataResults"]
    assert (a["Id"], a["Label"], a["Values"]) == ("a", "loss", [0.75, 3.0])
    assert a["Timestamps"] == [moment(60), moment(0)]
    assert (b["Label"], b["Values"], b["StatusCode"]) == ("top", [1.0, 4.0], "Complete")
    pages = client.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries[:2], MaxDatapoints=3, ScanBy="TimestampAscending", **window
    )
    seen: dict[str, list[float]] = {"a": [], "b": []}
    for page in pages:
        for result in page["MetricDataResults"]:
            seen[result["Id"]] += result["Values"]
    assert seen == {"a": [3.0, 0.75], "b": [4.0, 1.0]}


def test_expressions_are_refused_with_a_reason(client, drawn: Jobs):
    code, text = refused(
        client.get_metric_data,
        MetricDataQueries=[{"Id": "e", "Expression": "a * 2"}],
        StartTime=moment(0),
        EndTime=moment(60),
    )
    assert code == "ValidationError"
    assert "Expressions are not offered" in text


def test_metrics_are_listed_with_their_dimensions(client, drawn: Jobs):
    listed = client.list_metrics(Namespace=NAMESPACE)["Metrics"]
    assert [each["MetricName"] for each in listed] == [
        "loss",
        "CPUUtilization",
        "MemoryUtilization",
    ]
    assert listed[0]["Dimensions"] == [{"Name": "TrainingJobName", "Value": "job-1"}]
    assert listed[1]["Dimensions"] == [{"Name": "Host", "Value": "job-1/algo-1"}]
    by_job = [{"Name": "TrainingJobName", "Value": "job-1"}]
    assert client.list_metrics(Dimensions=by_job)["Metrics"] == listed[:1]
    assert client.list_metrics(MetricName="loss")["Metrics"] == listed[:1]
    assert client.list_metrics(Namespace="AWS/EC2")["Metrics"] == []


def put_lines(jobs: Jobs) -> list[Any]:
    """What a supervisor receives."""
    folder = jobs.settings.layout.job("job-1").host("algo-1", 1).reported_metrics
    return [json.loads(line) for line in (folder / "cloudwatch.json").read_text().splitlines()]


OF_JOB = {"Name": "TrainingJobName", "Value": "job-1"}


def test_put_values_reach_the_jobs_supervisor(client, drawn: Jobs):
    dimensions = [{"Name": "Set", "Value": "test"}, {"Name": "Fold", "Value": "2"}, OF_JOB]
    datum = {"MetricName": "loss", "Dimensions": dimensions, "Value": 0.5, "Unit": "None"}
    client.put_metric_data(Namespace="My/Model", MetricData=[{**datum, "Timestamp": moment(1)}])
    name = "My/Model/loss (Fold=2, Set=test)"
    expected = {"MetricName": name, "Value": 0.5, "Timestamp": (MINUTE + 1) * 1000}
    assert put_lines(drawn) == [expected]


def test_a_large_put_comes_compressed(client, drawn: Jobs):
    data = [{"MetricName": f"m{n}", "Dimensions": [OF_JOB], "Value": n} for n in range(1000)]
    client.put_metric_data(Namespace=NAMESPACE, MetricData=data)
    assert [line["MetricName"] for line in put_lines(drawn)] == [f"m{n}" for n in range(1000)]


def test_values_of_no_running_job_are_refused(client, drawn: Jobs):
    def put(**datum: Any) -> tuple[str, str]:
        given = {"MetricName": "loss", "Value": 1.0, **datum}
        return refused(client.put_metric_data, Namespace="Mine", MetricData=[given])

    code, text = put()
    assert code == "InvalidParameterValue"
    assert "with the dimension TrainingJobName" in text
    assert "no training job 'nobody'" in put(Dimensions=[{**OF_JOB, "Value": "nobody"}])[1]
    assert "must be a number" in put(Value=float("nan"), Dimensions=[OF_JOB])[1]
    assert "metricData.1.member.values" in put(Values=[1.0, 2.0], Dimensions=[OF_JOB])[1]
    (drawn.settings.layout.job("job-1").root / "release").touch()
    until(lambda: drawn.record("job-1").history.state.is_final)
    assert "has ended" in put(Dimensions=[OF_JOB])[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("way", ["output/metrics/sagemaker/cloudwatch.json", "output/metrics"])
def test_a_value_is_never_written_through_a_link_of_another_user_s_script(
    client, drawn: Jobs, tmp_path: Path, way: str
):
    """The script requests by its own key to have a line appended to a file that it cannot open."""
    kept = tmp_path / "kept"
    (kept / "sagemaker").mkdir(parents=True)
    (kept / "cloudwatch.json").write_text("kept")
    ml = drawn.settings.layout.job("job-1").host("algo-1", 1).ml
    shutil.rmtree(ml / "output" / "metrics")
    (ml / way).parent.mkdir(parents=True, exist_ok=True)
    (ml / way).symlink_to(kept / "cloudwatch.json" if way.endswith(".json") else kept)
    for path in (ml, *ml.rglob("*")):
        os.chown(path, 65531, 65531, follow_symlinks=False)
    datum = {"MetricName": "loss", "Value": 1.0, "Dimensions": [OF_JOB]}
    with pytest.raises(ClientError):
        client.put_metric_data(Namespace="Mine", MetricData=[datum])
    assert (kept / "cloudwatch.json").read_text() == "kept"
    assert list((kept / "sagemaker").iterdir()) == []


def test_a_value_before_the_script_runs_is_refused(client, service: Server, jobs: Jobs):
    service.client("sagemaker").create_training_job(**request(hyper={"hold": "1"}))
    datum = {"MetricName": "loss", "Value": 1.0, "Dimensions": [OF_JOB]}
    given = {"Namespace": "Mine", "MetricData": [datum]}
    assert "does not run yet" in refused(client.put_metric_data, **given)[1]
    assert not jobs.settings.layout.job("job-1").host("algo-1", 1).ml.exists()


def test_an_operation_we_lack_is_a_client_error_that_names_what_there_is(client):
    code, text = refused(client.delete_alarms, AlarmNames=["a"])
    assert code == "UnknownOperationException"
    assert "GetMetricStatistics" in text


def form(service: Server, content_type: str = "", **given: str) -> tuple[int, str]:
    """As clients ask that know no JSON."""
    body = urlencode({"Version": "2010-08-01", **given})
    kind = content_type or "application/x-www-form-urlencoded; charset=utf-8"
    signed = AWSRequest("POST", f"{service.url}/", data=body, headers={"Content-Type": kind})
    keys = Credentials(service.key_id, service.secret)
    SigV4Auth(keys, "monitoring", REGION).add_auth(signed)
    sent = urllib.request.Request(
        f"{service.url}/", data=body.encode(), headers=dict(signed.headers), method="POST"
    )
    try:
        with urllib.request.urlopen(sent) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_forms_are_answered_in_xml(service: Server, drawn: Jobs):
    status, text = form(
        service,
        Action="GetMetricStatistics",
        Namespace=NAMESPACE,
        MetricName="loss",
        StartTime=moment(0).strftime("%Y-%m-%dT%H:%M:%SZ"),
        EndTime=moment(60).isoformat(),
        Period="60",
        **{
            "Statistics.member.1": "Average",
            "Dimensions.member.1.Name": "TrainingJobName",
            "Dimensions.member.1.Value": "job-1",
        },
    )
    assert status == 200
    assert "<Average>3.0</Average>" in text
    assert f"<Timestamp>{moment(0):%Y-%m-%dT%H:%M:%SZ}</Timestamp>" in text
    status, text = form(service, Action="GetMetricStatistics", Period="x")
    assert (status, "<Code>MalformedInput</Code>" in text) == (400, True)
    status, text = form(service, Action="DeleteAlarms")
    assert (status, "ListMetrics" in text) == (404, True)


def test_a_value_may_be_put_by_a_form(service: Server, drawn: Jobs):
    datum = {
        "MetricName": "loss",
        "Value": "2.5",
        "Timestamp": "2026-11-16T09:00:00Z",
        "Dimensions.member.1.Name": "TrainingJobName",
        "Dimensions.member.1.Value": "job-1",
    }
    members = {f"MetricData.member.1.{name}": value for name, value in datum.items()}
    status, text = form(service, Action="PutMetricData", Namespace="Mine", **members)
    assert status == 200, text
    assert [line["MetricName"] for line in put_lines(drawn)] == ["Mine/loss"]


def test_an_invalid_form_is_an_error(service: Server):
    status, text = form(service, content_type="application/cbor", Action="ListMetrics")
    assert status == 415
    assert "X-Amz-Target" in text


def test_the_clock_of_a_question_may_be_now(client, drawn: Jobs):
    now = time.time()
    given = params(StartTime=now - 3600, EndTime=now)
    assert client.get_metric_statistics(**given)["Datapoints"] == []
