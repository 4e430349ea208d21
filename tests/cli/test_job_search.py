"""Jobs found and sorted by what they were given and what came of them."""

import json

import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec
from trackside.curves.event_file import EventFile
from trackside.jobs.jobs import Jobs
from trackside.records.layout import curves_of
from trackside.storage.locate import locate
from trackside.texts.shown_names import wire_name

GIVEN = {
    "good_run": ("0.1", "vision", ["--batch-size", "32"], 0.2),
    "fair": ("0.01", "vision", ["--batch-size=64"], 0.3),
    "poor": ("1", "audio", [], 0.9),
}
"""Learning rate, tag, arguments and the last loss of three jobs; the oldest is the best."""


@pytest.fixture
def trained(jobs: Jobs) -> Jobs:
    for name, (lr, team, arguments, loss) in GIVEN.items():
        spec = make_spec(
            wire_name(name),
            hyper={"lr": lr, **({"failure": "AlgorithmError: x"} if name == "poor" else {})},
            Tags=[{"Key": "team", "Value": team}],
            Trackside={"Arguments": arguments},
        )
        jobs.submit(spec)
        jobs.wait(spec.name)
        folder = locate(curves_of(spec), home=jobs.settings.home).local
        assert folder is not None
        file = EventFile(folder / "runs" / "exp")
        for step in range(3):
            file.add(("loss/val", loss + (2 - step), step, 1.7e9 + step))
            file.add(("acc/val", 1 - loss, step, 1.7e9 + step))
        file.close()
    return jobs


@pytest.mark.usefixtures("trained")
def test_jobs_are_found_and_sorted(command: Command):
    """In one test, for the jobs take longer than the looks at them."""

    def names(*options: str) -> list[str]:
        done = command("jobs", "--json", *options)
        assert done.returncode == 0, done.stderr
        return [job["name"] for job in json.loads(done.stdout)]

    assert names("--status", "failed", "--status", "stopped") == ["poor"]
    assert names("--status", "running") == []
    assert names("--tag", "team=vision") == ["fair", "good_run"]
    assert names("--tag", "team", "--before", "1h") == []
    assert names("-p", "lr=0.10", "--since", "1h") == ["good_run"]
    assert names("-p", "batch_size=64") == ["fair"]
    assert names("--where", "lr>0.05", "--where", "lr<1") == ["good_run"]
    assert names("--where", "val_loss<0.5") == ["fair", "good_run"]
    assert names("--where", "metric.acc/val>=0.7", "--tag", "team=audio") == []
    assert names("--where", "team=audio") == ["poor"]
    assert names("--sort", "val_loss") == ["good_run", "fair", "poor"]
    assert names("--sort", "acc") == ["good_run", "fair", "poor"]
    assert names("--sort", "acc", "--reverse", "--limit", "2") == ["poor", "fair"]
    assert names("--sort", "lr") == ["fair", "good_run", "poor"]
    assert names("-p", "lr", "--sort", "lr", "--tag", "team=vision") == ["fair", "good_run"]
    assert names("--sort", "batch-size", "--reverse") == ["fair", "good_run", "poor"]
    assert names("--sort", "name") == ["fair", "good_run", "poor"]
    assert names("--sort", "created", "--reverse") == ["good_run", "fair", "poor"]
    assert names("--name", "good_") == names("--name", "good-") == ["good_run"]
    assert names("status:failed lr>0.5") == ["poor"]
    assert names("status:failed", "or", "tag:vision") == ["poor", "fair", "good_run"]
    assert names("lr<1 val_loss<0.25") == ["good_run"]
    assert names("not team:vision or name~/^good/", "--sort", "lr") == ["good_run", "poor"]
    assert names("batch-size:32,64", "--sort", "acc", "--limit", "1") == ["good_run"]
    assert names("is:finished created>1h", "--tag", "team=vision", "--where", "lr<0.1") == ["fair"]
    assert names("is:live") == names("o", "--before", "1h") == names("hosts>1") == []


@pytest.mark.usefixtures("trained")
def test_what_jobs_are_found_by_is_shown(command: Command):
    query = ("--where", "lr>0.001", "--sort", "val_loss", "--column", "batch-size", "-c", "team")
    heading, *rows = command("jobs", *query).stdout.splitlines()
    assert heading.split()[:6] == ["NAME", "STATUS", "lr", "val_loss", "batch-size", "team"]
    assert [row.split()[:4] for row in rows] == [
        ["good_run", "Completed", "0.1", "0.2"],
        ["fair", "Completed", "0.01", "0.3"],
        ["poor", "Failed", "1", "0.9"],
    ]
    reported = json.loads(command("jobs", "--json", *query).stdout)[0]
    assert reported["training_job_name"] == "good-run--x1"
    assert reported["values"] == {
        "lr": "0.1",
        "val_loss": pytest.approx(0.2),
        "batch-size": "32",
        "team": "vision",
    }
    cut = command("jobs", "--sort", "val_loss", "--limit", "2")
    assert cut.stderr == "These are the first 2 of 3; --limit 10 shows more.\n"
    none = command("jobs", "--where", "lr>5", "--tag", "team=vision", "--status", "failed").stdout
    assert none == "No job with team=vision and lr>5 is Failed.\n"
    shown = command("jobs", "lr>0.05 is:finished", "--sort", "val_loss").stdout
    assert shown.split()[:4] == ["NAME", "STATUS", "val_loss", "lr"]
    none = command("jobs", "lr>5", "--status", "failed").stdout
    assert none == "No job that matches 'lr>5' is Failed.\n"
    slip = command("jobs", "statsu:failed")
    assert (slip.returncode, "Did you mean 'status'?" in slip.stderr) == (2, True)
    wrong = command("jobs", "--where", "lr")
    assert (wrong.returncode, "is no condition" in wrong.stderr) == (2, True)


def test_a_hyperparameter_that_looks_secret_is_not_shown(command: Command, jobs: Jobs):
    jobs.submit(make_spec("job-1", hyper={"api_token": "hush"}))
    jobs.wait("job-1")
    for form in ([], ["--json"]):
        shown = command("jobs", "-c", "api_token", *form).stdout
        assert "***" in shown
        assert "hush" not in shown


def test_a_plain_list_loads_nothing_to_search_with(command: Command, jobs: Jobs):
    jobs.submit(make_spec("job-1"))
    jobs.wait("job-1")
    done = command("jobs", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "trackside.views.query.job_search" in loaded
    assert not {"trackside.views.query.search_conditions", "concurrent.futures", "numpy"} & loaded
    language = ("trackside.views.query.query", "hashlib")
    assert not {name for name in loaded if name.startswith(language)}


def test_what_records_tell_is_found_without_numpy(command: Command, jobs: Jobs):
    jobs.submit(make_spec("job-1", hyper={"lr": "1"}))
    jobs.wait("job-1")
    done = command("jobs", "-p", "lr=1", PYTHONPROFILEIMPORTTIME="1")
    assert "job-1" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "trackside.jobs.details" in loaded
    assert not {"numpy", "torch", "asyncio"} & loaded
