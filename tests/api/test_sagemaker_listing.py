"""Listings, searches, tags and rule evaluations, called by the real boto3."""

import shutil
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.conftest import REGION, Server
from tests.api.training import ended, refused, request
from tests.api.written_jobs import write_job
from tests.job_processes import until_they_have_left
from trackside.api import sagemaker_search
from trackside.api.budget import Budget
from trackside.api.call import ServiceError
from trackside.api.json_service import OperationCall
from trackside.api.keys import AccessKey, Rights
from trackside.api.sagemaker_search import JobSearch
from trackside.jobs.index import JobSummary
from trackside.jobs.jobs import Jobs
from trackside.jobs.sqlite_index import opened

NOW = 1_790_000_000.0
ACTION = "sagemaker:Search"
WHO = AccessKey(id="TSK", rights=Rights.ADMIN, label="tests", created=0)


@pytest.fixture
def client(service: Server):
    return service.client("sagemaker")


@pytest.fixture
def many(jobs: Jobs) -> list[JobSummary]:
    """Jobs that are known from the index alone: 25, every fifth failed, two at each moment."""
    rows = [
        JobSummary(
            f"job-{number:02d}",
            "s3://out/runs",
            "Failed" if number % 5 == 0 else "Completed",
            "Failed" if number % 5 == 0 else "Completed",
            NOW + number // 2,
            NOW + 100 - number,
            NOW + number // 2,
            NOW + 100 - number,
        )
        for number in range(25)
    ]
    jobs.settings.home.mkdir(parents=True, exist_ok=True)
    with opened(jobs.settings.layout.index) as index:
        index.put(rows)
    return rows


def names(client: Any, **given: Any) -> list[str]:
    pages = client.get_paginator("list_training_jobs").paginate(**given)
    return [job["TrainingJobName"] for page in pages for job in page["TrainingJobSummaries"]]


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


ORDERS = {
    "Name": lambda row: row.name,
    "CreationTime": lambda row: (row.created, row.name),
    "Status": lambda row: (row.status, row.created, row.name),
}


@pytest.mark.parametrize("sort_by", ORDERS)
def test_pages_of_any_size_give_every_job_once_in_order(many, client, sort_by: str):
    ascending = [row.name for row in sorted(many, key=ORDERS[sort_by])]
    for size in (1, 3, 24, 25, 100):
        page = {"PageSize": size}
        for sort_order, expected in (("Ascending", ascending), ("Descending", ascending[::-1])):
            found = names(client, SortBy=sort_by, SortOrder=sort_order, PaginationConfig=page)
            assert found == expected, size


def test_ten_of_the_newest_come_first_and_the_last_page_has_no_token(many, client):
    first = client.list_training_jobs()
    assert len(first["TrainingJobSummaries"]) == 10
    assert first["TrainingJobSummaries"][0]["TrainingJobName"] == "job-24"
    whole = client.list_training_jobs(MaxResults=25)
    assert len(whole["TrainingJobSummaries"]) == 25
    assert "NextToken" not in whole


def test_filters_are_exclusive_bounds_and_substrings(many, client):
    assert names(client, NameContains="b-1") == [f"job-{n}" for n in range(19, 9, -1)]
    assert names(client, StatusEquals="Failed", SortBy="Name", SortOrder="Ascending") == [
        f"job-{n:02d}" for n in range(0, 25, 5)
    ]
    late = names(client, CreationTimeAfter=moment(NOW + 10), SortOrder="Ascending")
    assert late == ["job-22", "job-23", "job-24"]
    assert names(client, CreationTimeBefore=moment(NOW + 1)) == ["job-01", "job-00"]
    assert names(client, LastModifiedTimeAfter=moment(NOW + 98)) == ["job-01", "job-00"]
    assert names(client, LastModifiedTimeBefore=moment(NOW + 77)) == ["job-24"]
    assert names(client, WarmPoolStatusEquals="Available") == []


def test_a_token_of_another_listing_and_garbage_are_refused(many, client):
    token = client.list_training_jobs(MaxResults=2)["NextToken"]
    assert refused(client.list_training_jobs, NextToken="garbage")[0] == "ValidationException"
    code, _ = refused(client.list_training_jobs, NextToken=token, StatusEquals="Failed")
    assert code == "ValidationException"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"StatusEquals": "Done"}, "statusEquals"),
        ({"SortBy": "Age"}, "sortBy"),
        ({"NameContains": "a b"}, "nameContains"),
        ({"MaxResults": 101}, "maxResults"),
    ],
)
def test_invalid_conditions_are_reported_with_their_path(client, given, path):
    code, text = refused(client.list_training_jobs, **given)
    assert code == "ValidationException"
    assert f"at '{path}' failed to satisfy constraint" in text


def test_a_status_is_listed_as_soon_as_it_is_described(client):
    client.create_training_job(**request(hyper={"hold": "1"}))
    assert names(client, StatusEquals="InProgress") == ["job-1"]
    client.stop_training_job(TrainingJobName="job-1")
    ended(client)
    assert names(client, StatusEquals="Stopped") == ["job-1"]
    assert names(client, StatusEquals="InProgress") == []


def test_tags_are_added_overwritten_listed_and_deleted(client):
    first = [{"Key": "team", "Value": "a"}]
    arn = client.create_training_job(**request("Job-1", Tags=first))["TrainingJobArn"]
    assert arn.endswith("/job-1")
    assert client.list_tags(ResourceArn=arn)["Tags"] == first
    more = [{"Key": "team", "Value": "b"}, {"Key": "cost", "Value": ""}]
    assert client.add_tags(ResourceArn=arn, Tags=more)["Tags"] == more
    client.delete_tags(ResourceArn=arn, TagKeys=["team", "never-there"])
    assert client.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "cost", "Value": ""}]


def test_tags_changed_after_the_end_outlast_the_job_s_folder(client, jobs: Jobs):
    arn = client.create_training_job(**request())["TrainingJobArn"]
    ended(client)
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "kept", "Value": "yes"}])
    folder = jobs.settings.layout.job("job-1").root
    until_they_have_left(folder)
    shutil.rmtree(folder)
    assert client.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "kept", "Value": "yes"}]
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "more", "Value": "too"}])
    assert len(client.list_tags(ResourceArn=arn)["Tags"]) == 2


def test_a_job_without_tags_has_an_empty_list(client):
    arn = client.create_training_job(**request())["TrainingJobArn"]
    assert client.list_tags(ResourceArn=arn)["Tags"] == []
    unknown = arn.replace("job-1", "nobody")
    assert refused(client.list_tags, ResourceArn=unknown)[0] == "ValidationException"


def found(client: Any, *filters: dict[str, str], **given: Any) -> list[str]:
    pages = client.get_paginator("search").paginate(
        Resource="TrainingJob",
        SearchExpression={"Filters": list(filters)} if filters else {},
        **given,
    )
    return [hit["TrainingJob"]["TrainingJobName"] for page in pages for hit in page["Results"]]


def where(name: str, operator: str, value: str | None = None) -> dict[str, str]:
    given = {"Name": name, "Operator": operator}
    return given if value is None else {**given, "Value": value}


def test_search_finds_by_any_path_of_a_description(client):
    for number, rate in enumerate(("0.1", "0.2", "0.3")):
        tags = [{"Key": "team", "Value": "vision" if number else "text"}]
        client.create_training_job(**request(f"job-{number}", hyper={"lr": rate}, Tags=tags))
        ended(client, f"job-{number}")
    by_name = {"SortBy": "TrainingJobName", "SortOrder": "Ascending"}
    tagged = found(client, where("Tags.team", "Equals", "vision"), **by_name)
    assert tagged == ["job-1", "job-2"]
    assert found(client, where("HyperParameters.lr", "In", "0.1,0.3"), **by_name) == [
        "job-0",
        "job-2",
    ]
    assert found(client, where("Tags.owner", "Exists")) == []
    assert len(found(client, where("FailureReason", "NotExists"))) == 3
    assert found(client, where("TrainingJobName", "Contains", "-2")) == ["job-2"]
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    paged = found(
        client, where("CreationTime", "GreaterThan", hour_ago), PaginationConfig={"PageSize": 1}
    )
    assert paged == ["job-2", "job-1", "job-0"]
    by_rate = found(client, SortBy="HyperParameters.lr", PaginationConfig={"PageSize": 2})
    assert by_rate == ["job-2", "job-1", "job-0"]


def test_search_joins_conditions_by_or_and_by_sub_expressions(client):
    for name in ("one", "two", "three"):
        client.create_training_job(**request(name))
        ended(client, name)
    expression = {
        "Operator": "And",
        "Filters": [where("TrainingJobStatus", "Equals", "Completed")],
        "SubExpressions": [
            {
                "Operator": "Or",
                "Filters": [
                    where("TrainingJobName", "Equals", "one"),
                    where("TrainingJobName", "Equals", "three"),
                ],
            }
        ],
    }
    response = client.search(Resource="TrainingJob", SearchExpression=expression)
    hits = {hit["TrainingJob"]["TrainingJobName"] for hit in response["Results"]}
    assert hits == {"one", "three"}


def searched(search: JobSearch, **given: Any) -> list[list[str]]:
    """The names on each page."""
    found, token = [], dict[str, str]()
    while True:
        params = {"Resource": "TrainingJob", **given, **token}
        response: Any = search.search(OperationCall(params, REGION, WHO, ACTION))
        found.append([each["TrainingJob"]["TrainingJobName"] for each in response["Results"]])
        if "NextToken" not in response:
            return found
        token = {"NextToken": response["NextToken"]}


@pytest.fixture
def written(jobs: Jobs) -> Jobs:
    for number in range(20):
        write_job(jobs, f"job-{number:02d}", [], span=(NOW + number, NOW + 50 + number))
    jobs.refresh()
    return jobs


@pytest.mark.parametrize("items", [1, 3, 1000])
def test_a_search_reads_a_limited_number_of_jobs_per_page(written: Jobs, items: int):
    search = JobSearch(written, lambda: Budget(items, seconds=3600))
    path = "HyperParameters.sagemaker_program"
    some = {"Filters": [{"Name": "TrainingJobName", "Operator": "Contains", "Value": "7"}]}
    every = {"Filters": [{"Name": path, "Operator": "Exists"}]}
    for order in ("Ascending", "Descending"):
        params = {"SortBy": "CreationTime", "SortOrder": order, "MaxResults": 2}
        names = [f"job-{number:02d}" for number in range(20)][:: 1 if order == "Ascending" else -1]
        pages = searched(search, **params, SearchExpression=every)
        assert [name for page in pages for name in page] == names
        pages = searched(search, **params, SearchExpression=some)
        assert [name for page in pages for name in page] == [
            name for name in names if name.endswith("7")
        ]
        if items == 1:
            assert [] in pages


def test_a_search_sorted_without_the_index_reads_all_jobs_once(
    written: Jobs, monkeypatch: pytest.MonkeyPatch
):
    params = {"SortBy": "RoleArn", "MaxResults": 7}
    pages = searched(JobSearch(written), **params)
    assert sorted(name for page in pages for name in page) == [f"job-{n:02d}" for n in range(20)]
    assert [len(page) for page in pages] == [7, 7, 6]
    search = JobSearch(written)
    first: Any = search.search(
        OperationCall({"Resource": "TrainingJob", **params}, REGION, WHO, ACTION)
    )
    monkeypatch.setattr(sagemaker_search, "MOST_SORTED", 19)
    rest = searched(search, **params, NextToken=first["NextToken"])
    assert [len(page) for page in rest] == [7, 6]
    with pytest.raises(ServiceError, match="there are more than 19"):
        searched(JobSearch(written), **params)


def test_search_on_something_else_is_refused(client):
    with pytest.raises(ClientError, match="TrainingJob is"):
        client.search(Resource="Experiment")


RULE = {
    "RuleConfigurationName": "A-very-long-name-of-a-rule-configuration",
    "RuleEvaluatorImage": "x.dkr.ecr.us-west-2.amazonaws.com/sagemaker-debugger-rules:latest",
    "RuleParameters": {"rule_to_invoke": "LossNotDecreasing"},
}


def test_a_rule_is_described_as_a_processing_job(client):
    name = "Training-With-A-Long-Name-2026-11-16"
    client.create_training_job(**request(name, hyper={"hold": "1"}, DebugRuleConfigurations=[RULE]))
    job = client.describe_training_job(TrainingJobName=name)
    (status,) = job["DebugRuleEvaluationStatuses"]
    assert status["RuleEvaluationStatus"] == "InProgress"
    assert job["DebugRuleConfigurations"][0]["VolumeSizeInGB"] == 0
    arn = status["RuleEvaluationJobArn"]
    prefix = f"arn:aws:sagemaker:{REGION}:000000000000:processing-job/"
    assert arn.startswith(f"{prefix}training-with-a-long-name--a-very-long-name-of-a-rule")
    rule_job = arn.rpartition("/")[2]
    assert len(rule_job) == 26 + 1 + 26 + 1 + 8
    shown = client.describe_processing_job(ProcessingJobName=rule_job)
    assert shown["ProcessingJobArn"] == arn
    assert shown["ProcessingJobStatus"] == "InProgress"
    assert shown["TrainingJobArn"] == job["TrainingJobArn"]
    assert shown["ProcessingResources"]["ClusterConfig"]["InstanceCount"] == 1
    assert shown["Environment"]["rule_to_invoke"] == "LossNotDecreasing"
    listed = client.list_processing_jobs(NameContains="very-long")["ProcessingJobSummaries"]
    assert [each["ProcessingJobName"] for each in listed] == [rule_job]
    assert refused(client.describe_processing_job, ProcessingJobName="nobody") == (
        "ValidationException",
        "Requested resource not found.",
    )


def test_rules_of_both_kinds_may_have_one_name(client):
    profiler = {**RULE, "RuleParameters": {"rule_to_invoke": "ProfilerReport"}}
    client.create_training_job(
        **request(
            hyper={"hold": "1"},
            DebugRuleConfigurations=[RULE],
            ProfilerConfig={"S3OutputPath": "s3://out/profile"},
            ProfilerRuleConfigurations=[profiler],
        )
    )
    listed = client.list_processing_jobs()["ProcessingJobSummaries"]
    invoked = {
        client.describe_processing_job(ProcessingJobName=each["ProcessingJobName"])["Environment"][
            "rule_to_invoke"
        ]
        for each in listed
    }
    assert invoked == {"LossNotDecreasing", "ProfilerReport"}


def test_rules_of_many_jobs_are_paged(client):
    second = {**RULE, "RuleConfigurationName": "second"}
    for number in range(3):
        rules = [RULE, second]
        client.create_training_job(**request(f"job-{number}", DebugRuleConfigurations=rules))
    pages = client.get_paginator("list_processing_jobs").paginate(PaginationConfig={"PageSize": 2})
    found = [job["ProcessingJobName"] for page in pages for job in page["ProcessingJobSummaries"]]
    assert len(found) == len(set(found)) == 6
