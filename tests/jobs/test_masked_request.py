"""What others than a job's owner see of its request."""

from tests.jobs.conftest import make_spec
from trackside.jobs.jobs import Jobs
from trackside.jobs.masked_request import masked
from trackside.records.layout import JobKeys


def test_values_are_masked_by_their_names_wherever_a_request_has_them():
    request = {
        "TrainingJobName": "job-1",
        "HyperParameters": {"epochs": "3", "api_key": "abc", "hub_token": '"abc"'},
        "Environment": {"PGPASSWORD": "abc", "MIRROR": "https://me:abc@host/x"},
        "DebugRuleConfigurations": [
            {"RuleConfigurationName": "r", "RuleParameters": {"rule_to_invoke": "X", "secret": "a"}}
        ],
        "Trackside": {"Arguments": ["--token", "abc", "x"], "Command": ["./run", "--password=abc"]},
    }
    expected = {
        "TrainingJobName": "job-1",
        "HyperParameters": {"epochs": "3", "api_key": "***", "hub_token": '"***"'},
        "Environment": {"PGPASSWORD": "***", "MIRROR": "https://***@host/x"},
        "DebugRuleConfigurations": [
            {
                "RuleConfigurationName": "r",
                "RuleParameters": {"rule_to_invoke": "X", "secret": "***"},
            }
        ],
        "Trackside": {"Arguments": ["--token", "***", "x"], "Command": ["./run", "--password=***"]},
    }
    assert masked(request) == expected
    described = {"Trackside": {"owner": "alice", "options": request["Trackside"]}}
    assert masked(described)["Trackside"] == {"owner": "alice", "options": expected["Trackside"]}


def test_a_request_without_secrets_stays_as_it_is():
    request = {"HyperParameters": {"max_tokens": "512"}, "Environment": {}, "Trackside": {}}
    assert masked(request) == request


def test_the_request_in_storage_has_no_secret_and_the_job_has(jobs: Jobs):
    """Everybody who may read can read the store."""
    spec = make_spec("job-1", Environment={"DB_PASSWORD": "hunter-2-x", "EPOCHS": "3"})
    jobs.submit(spec)
    jobs.wait("job-1")
    stored = JobKeys.of(spec).spec.removeprefix("s3://")
    text = (jobs.settings.home / "buckets" / stored).read_text()
    assert "EPOCHS" in text
    assert "hunter" not in text
    assert jobs.describe("job-1")["Environment"]["DB_PASSWORD"] == "hunter-2-x"
