"""Findings of several jobs grouped into issues, of jobs whose supervisors are stand-ins."""

import json
import shutil
import sqlite3
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import embedded_buckets as embedded_buckets
from tests.jobs.conftest import home as home
from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.jobs.conftest import jobs as jobs
from tests.jobs.conftest import settings as settings
from tests.wait import until
from trackside.errors import InvalidIssueState, IssueNotFound
from trackside.jobs.index import JobSummary
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import fetch
from trackside.records.finding import Finding
from trackside.records.layout import Home, JobKeys
from trackside.records.rule_status import Evaluation, RuleStatus, write_evaluations
from trackside.storage.locate import locate_object
from trackside.views.job.job_view import job_view
from trackside.views.problems import issue_states
from trackside.views.problems.fingerprints import issue_id
from trackside.views.problems.issue_states import IssueStates, Said
from trackside.views.problems.issues import Issue, Issues, spark
from trackside.views.problems.job_findings import is_final, resolved

CHECKUP = {"RuleConfigurationName": "Checkup", "RuleParameters": {"rule_to_invoke": "Checkup"}}
LAUNCH = {"Command": ["trackside", "run", "train.py"], "Folder": "/code"}


def rate_zero(**members: Any) -> Finding:
    given = {
        "rule": "LearningRateZero",
        "configuration": "Checkup",
        "message": "The learning rate is 0 in all 36 updates. It was 0.1 before.",
        "advice": "Print the rate.",
        "step": 3,
        "time": time.time(),
    }
    return Finding(**{**given, **members})


def stuck(**members: Any) -> Finding:
    return rate_zero(rule="NothingLearnt", message="The loss is 1.1.", **members)


def submit(jobs: Jobs, name: str, *, hold: bool = False, **changes: Any) -> None:
    launch = {**LAUNCH, **changes.pop("launch", {})}
    launch = {name: value for name, value in launch.items() if value is not None}
    hyper = {**({"hold": "1"} if hold else {}), **changes.pop("hyper", {})}
    jobs.submit(
        make_spec(
            name,
            hyper=hyper,
            DebugRuleConfigurations=[CHECKUP],
            Trackside={"Launch": launch, **changes.pop("options", {})},
            **changes,
        )
    )


def file(jobs: Jobs, name: str, *findings: Finding, is_over: bool = True) -> None:
    rules = jobs.settings.layout.job(name).rules
    rules.root.mkdir(exist_ok=True)
    rules.findings.write_bytes(b"".join(each.to_line() for each in findings))
    status = RuleStatus.ISSUES_FOUND if findings else RuleStatus.NO_ISSUES_FOUND
    evaluation = Evaluation(
        configuration="Checkup", rule="Checkup", status=status, last_step=41, is_over=is_over
    )
    write_evaluations(rules.statuses, [evaluation])


def run(jobs: Jobs, name: str, *findings: Finding, **changes: Any) -> None:
    """A job that has ended, in whose rules' files are these findings."""
    submit(jobs, name, hold=True, **changes)
    until(lambda: is_training(jobs, name))
    file(jobs, name, *findings)
    (jobs.settings.layout.job(name).root / "release").touch()
    run_to_end(jobs, name)


def only(jobs: Jobs) -> Issue:
    [issue] = Issues(jobs).list()
    return issue


def test_findings_of_one_cause_are_one_issue(jobs: Jobs):
    run(jobs, "good")
    run(jobs, "bad-1", rate_zero(step=3), stuck(step=9))
    run(jobs, "bad-2", rate_zero(step=5))

    issue = only(jobs)

    assert (issue.cause, issue.state, issue.place, issue.line) == (
        "LearningRateZero",
        "open",
        "",
        "",
    )
    assert (issue.num_jobs, issue.of_jobs, issue.jobs) == (2, 3, ["bad-2", "bad-1"])
    assert (issue.first.job, issue.first.step) == ("bad-1", 3)
    assert (issue.last.job, issue.last.step) == ("bad-2", 5)
    assert (issue.healthy, issue.sick) == ("good", "bad-1")
    assert sum(issue.spark) == 2
    assert issue.seconds > 0
    assert issue.title.startswith("2 of 3 jobs learn nothing since today ")
    assert issue.title.endswith(": the learning rate is 0 in all 36 updates; first in bad-1")
    assert issue_id(rate_zero()) == issue.id


def test_layers_of_one_kind_are_one_issue_and_others_are_not(jobs: Jobs):
    for name, tensor in (("a", "layers.0.relu"), ("b", "layers.7.relu"), ("c", "head.relu")):
        run(jobs, name, rate_zero(rule="DeadLayer", message="Dead.", tensor=tensor))
    found = {issue.place: issue.jobs for issue in Issues(jobs).list()}
    assert found == {"layers.*.relu": ["b", "a"], "head.relu": ["c"]}


def test_jobs_of_other_scripts_do_not_count_and_are_not_compared(jobs: Jobs):
    run(jobs, "other", hyper={"sagemaker_program": "other.py"})
    run(jobs, "elsewhere", launch={"Folder": "/another"})
    run(jobs, "bad", rate_zero())
    issue = only(jobs)
    assert (issue.num_jobs, issue.of_jobs, issue.healthy) == (1, 1, None)
    assert issue.title.startswith("1 job is sick since today ")
    assert issue.suspects == []


def test_a_job_that_runs_the_stored_code_of_another_is_of_the_same_script(jobs: Jobs):
    stored = "s3://out/runs/{}/source/sourcedir.tar.gz"
    place = locate_object(stored.format("good"), home=jobs.settings.home)
    place.store.put(place.key, b"code")
    run(jobs, "good", hyper={"sagemaker_submit_directory": stored.format("good")})
    again = {"sagemaker_submit_directory": stored.format("good")}
    run(jobs, "bad", rate_zero(), hyper=again, launch={"Folder": None})
    issue = only(jobs)
    assert (issue.of_jobs, issue.healthy) == (2, "good")


def test_stored_code_that_leads_nowhere_or_in_a_circle_is_a_script_of_its_own():
    assert resolved("train.py\ncode of job x", {}) == "train.py\ncode of job x"
    circle = {"a": "train.py\ncode of job b", "b": "train.py\ncode of job a"}
    assert resolved(circle["a"], circle) in circle.values()
    assert resolved("t\ncode of job a", {"a": "train.py\n\n/code"}) == "train.py\n\n/code"


def test_only_a_completed_job_that_rules_judged_is_healthy(jobs: Jobs):
    run(jobs, "good")
    run(jobs, "failed", hyper={"failure": "AlgorithmError: no, exit code: 1"})
    jobs.submit(make_spec("not-watched", Trackside={"Launch": LAUNCH}))
    run_to_end(jobs, "not-watched")
    run(jobs, "bad", rate_zero())
    [issue] = [each for each in Issues(jobs).list() if each.cause == "LearningRateZero"]
    assert issue.healthy == "good"


def test_an_exception_that_a_rule_explains_is_one_issue(jobs: Jobs):
    failure = {"failure": "AlgorithmError: IndexError: Target 7 is out of bounds, exit code: 1"}
    run(jobs, "explained", rate_zero(rule="Crash", message="Label 7 of 5 classes."), hyper=failure)
    assert only(jobs).cause == "Crash"
    run(jobs, "not-explained", rate_zero(), hyper=failure)
    assert {each.cause for each in Issues(jobs).list()} == {
        "Crash",
        "IndexError",
        "LearningRateZero",
    }


def test_a_job_without_any_finding_is_preferred_to_one_that_is_sick_otherwise(jobs: Jobs):
    run(jobs, "good")
    dead = Finding(rule="DeadLayer", configuration="Checkup", message="Dead.", step=0, time=1.7e9)
    run(jobs, "sick-otherwise", dead)
    run(jobs, "bad", rate_zero())
    [issue] = [each for each in Issues(jobs).list() if each.cause == "LearningRateZero"]
    assert issue.healthy == "good"


def test_what_differs_from_the_last_healthy_job_is_suspected(jobs: Jobs):
    run(jobs, "good-1", hyper={"lr": "0.5", "width": "8"})
    run(jobs, "good-2", hyper={"lr": "0.1", "width": "8"})
    run(jobs, "bad", rate_zero(), hyper={"lr": "0", "width": "16", "api_key": "hush-4711"})
    issue = only(jobs)
    assert issue.healthy == "good-2"
    found = [(each.kind, each.name, each.before, each.after) for each in issue.suspects]
    assert found[:3] == [
        ("hyperparameter", "lr", "0.1", "0"),
        ("hyperparameter", "width", "8", "16"),
        ("hyperparameter", "api_key", "", "***"),
    ]
    assert "hush-4711" not in json.dumps(issue.to_json())


def test_a_fixed_issue_regresses_with_a_later_job(jobs: Jobs):
    run(jobs, "good")
    run(jobs, "bad-1", rate_zero())
    found = Issues(jobs)
    fixed = found.set_state(only(jobs).id, "fixed", by="ada")
    assert fixed.state == "fixed"
    assert fixed.said is not None
    assert (fixed.said.by, fixed.said.job) == ("ada", "bad-1")
    run(jobs, "good-again", hyper={"lr": "1"})
    assert only(jobs).state == "fixed"
    run(jobs, "bad-2", rate_zero(), hyper={"lr": "2"})
    back = only(jobs)
    assert back.state == "regressed"
    assert (back.first.job, back.sick, back.healthy) == ("bad-1", "bad-2", "good-again")
    assert [each.name for each in back.suspects] == ["lr"]
    assert found.set_state(back.id, "open").state == "open"


def test_a_job_submitted_before_that_does_not_count_as_a_regression(jobs: Jobs):
    run(jobs, "bad-1", rate_zero())
    submit(jobs, "running", hold=True)
    until(lambda: is_training(jobs, "running"))
    file(jobs, "running", is_over=False)
    Issues(jobs).set_state(only(jobs).id, "fixed")
    file(jobs, "running", rate_zero())
    issue = only(jobs)
    assert (issue.state, issue.num_jobs) == ("fixed", 2)
    (jobs.settings.layout.job("running").root / "release").touch()
    run_to_end(jobs, "running")


def test_a_muted_issue_is_open_again_after_so_many_more_jobs(jobs: Jobs):
    run(jobs, "bad-1", rate_zero())
    found = Issues(jobs)
    muted = found.set_state(only(jobs).id, "muted", more_jobs=2)
    assert muted.mute is not None
    assert (muted.state, muted.mute.more_jobs) == ("muted", 2)
    run(jobs, "bad-2", rate_zero())
    muted = only(jobs)
    assert muted.mute is not None
    assert (muted.state, muted.mute.more_jobs) == ("muted", 1)
    assert found.list(states=["open", "regressed"]) == []
    run(jobs, "bad-3", rate_zero())
    again = only(jobs)
    assert (again.state, again.mute) == ("open", None)


def test_a_state_is_checked_and_an_id_may_be_shortened(jobs: Jobs):
    run(jobs, "bad", rate_zero())
    found = Issues(jobs)
    id = only(jobs).id
    assert found.find(id[:6]).id == id
    for wrong in ("", "1-ffffffffffff", "x"):
        with pytest.raises(IssueNotFound):
            found.find(wrong)
    for state, more in (("regressed", 1), ("gone", 1), ("muted", 0), ("muted", 10**9)):
        with pytest.raises(InvalidIssueState):
            found.set_state(id, state, more_jobs=more)
    assert only(jobs).said is None


def test_several_ids_with_the_same_beginning_are_named(jobs: Jobs):
    run(jobs, "bad", rate_zero(), Finding(rule="Mine", message="Own.", step=1, time=1e9))
    with pytest.raises(IssueNotFound, match="Several issues begin with '1-': 1-"):
        Issues(jobs).find("1-")


def test_a_failure_is_an_issue_at_its_line(jobs: Jobs):
    said = "AlgorithmError: KeyError: 'x', at train.py:{line} in main: y = d['x'], exit code: 1"
    jobs.submit(make_spec("good", Trackside={"Launch": LAUNCH}))
    run_to_end(jobs, "good")
    for name, line in (("bad-1", 41), ("bad-2", 43)):
        failure = {"failure": said.format(line=line)}
        jobs.submit(make_spec(name, hyper=failure, Trackside={"Launch": LAUNCH}))
        run_to_end(jobs, name)
    issue = only(jobs)
    assert (issue.cause, issue.line, issue.num_jobs) == ("KeyError", "train.py:43", 2)
    assert issue.title.startswith("2 of 3 jobs fail since today ")
    assert "KeyError: 'x', at train.py:41; first in bad-1" in issue.title
    assert issue.healthy == "good"


SCRIPT = """\
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    loss = model(torch.ones(4, 2)).sum()
    loss.backward()
    optimizer.step()
"""


def run_script(jobs: Jobs, name: str, text: str, *findings: Finding) -> None:
    folder = jobs.settings.home.parent / f"code of {name}"
    folder.mkdir()
    (folder / "train.py").write_text(text)
    source = {"sagemaker_submit_directory": str(folder), "sagemaker_program": "train.py"}
    run(jobs, name, *findings, hyper=source)


def test_a_finding_is_an_issue_at_its_line_wherever_the_line_moved(jobs: Jobs):
    found = rate_zero(rule="ForgottenZeroGrad", message="Gradients are never zeroed.")
    run_script(jobs, "bad-1", SCRIPT, found)
    moved = "# a comment\n\n" + SCRIPT.replace("optimizer.step()", "optimizer.step()  # by Ada")
    run_script(jobs, "bad-2", moved, found)
    run_script(jobs, "elsewhere", SCRIPT.replace("optimizer", "sgd"), found)

    later, issue = Issues(jobs).list()

    assert (issue.line, issue.jobs) == ("train.py:10", ["bad-2", "bad-1"])
    assert (later.line, later.jobs) == ("train.py:8", ["elsewhere"])
    [diagnosis] = job_view(jobs, "bad-1").diagnoses
    assert (diagnosis.line, diagnosis.issue) == ("train.py:8", issue.id)


def test_a_finding_that_reading_the_script_does_not_show_has_no_line(jobs: Jobs):
    run_script(jobs, "bad", SCRIPT, rate_zero())
    issue = only(jobs)
    assert (issue.line, issue.id) == ("", issue_id(rate_zero()))


def test_only_some_jobs_and_some_states_may_be_wanted(jobs: Jobs):
    run(jobs, "a", rate_zero())
    run(jobs, "b", rate_zero(), Finding(rule="Mine", message="Own.", step=1, time=1e9))
    found = Issues(jobs)
    assert {each.cause for each in found.list(names={"a"})} == {"LearningRateZero"}
    [issue] = found.list(names={"a"})
    assert (issue.num_jobs, issue.of_jobs) == (1, 1)
    found.set_state(issue.id, "fixed")
    assert [each.cause for each in found.list(states=["open"])] == ["Mine"]
    assert [each.state for each in found.list()] == ["open", "fixed"]


def test_the_sentence_says_how_it_stands(jobs: Jobs):
    found = Issues(jobs)
    assert found.overview().sentence.startswith("There are no jobs yet.")
    jobs.submit(make_spec("plain"))
    run_to_end(jobs, "plain")
    assert found.overview().sentence.startswith("Nobody watches: no rule judged any of 1 job.")
    run(jobs, "good")
    assert found.overview().sentence.startswith("Nothing is wrong in 2 jobs")
    run(jobs, "bad", rate_zero())
    assert found.overview().sentence == "1 open issue in 1 of 3 jobs."


def test_a_job_that_has_ended_is_read_once_and_a_running_one_again(jobs: Jobs):
    run(jobs, "bad", rate_zero())
    submit(jobs, "running", hold=True)
    until(lambda: is_training(jobs, "running"))
    file(jobs, "running", is_over=False)
    assert only(jobs).jobs == ["bad"]
    file(jobs, "bad")  # which no evaluator does
    file(jobs, "running", rate_zero(), is_over=False)
    assert only(jobs).jobs == ["running", "bad"]
    (jobs.settings.layout.job("running").root / "release").touch()
    file(jobs, "running", rate_zero())
    run_to_end(jobs, "running")
    assert only(jobs).num_jobs == 2


def test_jobs_that_were_never_read_are_read_as_far_as_there_is_time(jobs: Jobs):
    run(jobs, "a", rate_zero())
    run(jobs, "b", rate_zero())
    found = Issues(jobs)
    hurried = found.overview(seconds=-1.0)
    assert (hurried.issues, hurried.num_unread) == ([], 2)
    assert hurried.sentence.endswith(" 2 older jobs are still being read.")
    assert found.overview().num_unread == 0
    assert found.overview(seconds=-1.0).issues[0].num_jobs == 2


def test_the_rules_of_a_job_may_end_after_it():
    row = JobSummary("a", "s3://out", "Completed", "Completed", 1.0, 9.0, 2.0, 9.0)
    judged = Evaluation(configuration="Checkup", rule="Checkup", is_over=True)
    judging = Evaluation(configuration="Checkup", rule="Checkup")
    assert is_final(row, [judged], 10.0)
    assert is_final(row, [], 10.0)
    assert not is_final(row, [judged, judging], 10.0)
    assert is_final(row, [judging], 1e6)
    assert not is_final(replace(row, ended=None), [judged], 1e6)


def test_a_deleted_job_no_longer_counts_and_a_new_one_of_its_name_is_read(jobs: Jobs):
    run(jobs, "bad", rate_zero())
    assert only(jobs).num_jobs == 1
    jobs.delete("bad")
    assert Issues(jobs).list() == []
    run(jobs, "bad")
    assert Issues(jobs).list() == []


def test_a_job_that_is_in_storage_alone_counts(jobs: Jobs, home: Home):
    run(jobs, "bad", rate_zero())
    keys, folder = JobKeys("s3://out/runs", "bad"), home.job("bad")
    for path in (folder.rules.findings, folder.rules.statuses):
        place = locate_object(f"{keys.rules}/{path.name}", home=home.root)
        place.store.put(place.key, path.read_bytes())
    assert fetch(keys.journal, home)
    jobs.list()  # which puts it into the index
    shutil.rmtree(folder.root)
    assert only(jobs).jobs == ["bad"]


@pytest.mark.parametrize("damage", ["bytes", "rows", "folder", "other version"])
def test_the_cache_is_made_again_or_done_without(jobs: Jobs, home: Home, damage: str):
    run(jobs, "bad", rate_zero())
    before = only(jobs)
    cache = home.issues_cache
    assert cache.stat().st_mode & 0o777 == 0o600
    if damage == "rows":
        with sqlite3.connect(cache) as connection:
            connection.execute("UPDATE jobs SET findings = '[}'")
    elif damage == "other version":
        with sqlite3.connect(cache) as connection:
            connection.execute("UPDATE format SET text = 'another'")
            connection.execute("DROP TABLE suspects")
    else:
        for each in cache.parent.glob("issues.sqlite*"):
            each.unlink()
        cache.mkdir() if damage == "folder" else cache.write_bytes(b"no database" * 1000)
    for _ in range(2):
        assert asdict(only(jobs)) | {"spark": [], "title": ""} == asdict(before) | {
            "spark": [],
            "title": "",
        }


def test_hostile_text_stays_text_and_is_bounded(jobs: Jobs):
    nasty = "<script>alert('x')</script>\x1b[31m\n" + "y" * 5000
    run(jobs, "bad", rate_zero(rule=nasty[:200], message=nasty, advice=nasty, tensor=nasty))
    issue = only(jobs)
    assert "\x1b" not in issue.title
    assert "\n" not in issue.title
    assert len(issue.title) < 1000
    assert len(json.dumps(issue.to_json())) < 10_000


def test_states_survive_others_and_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = Home(tmp_path)
    states = IssueStates(home)

    def say(number: int) -> None:
        IssueStates(home).say(Said(id=f"1-{number:012x}", state="fixed", by="ada", time=1.0))

    several = [threading.Thread(target=say, args=(number,)) for number in range(20)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert len(states.all()) == 20
    with home.issue_states.open("ab") as file:
        file.write(b'{"id": "1-0", "state": "gone", "by": "x", "time": 1}\nno json\n{"id": "torn')
    assert len(states.all()) == 20
    say(21)
    assert len(states.all()) == 21
    assert home.issue_states.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(issue_states, "_COMPACT_BYTES", 100)
    say(21)
    assert len(states.all()) == 21
    assert len(home.issue_states.read_text().splitlines()) == 21


def test_a_spark_counts_from_the_first_until_now():
    assert spark([0.0], 100.0) == [1] + [0] * 19
    assert spark([0.0, 50.0, 99.0, 100.0], 100.0) == [1] + [0] * 9 + [1] + [0] * 8 + [2]
    assert sum(spark([5.0, 5.0], 5.0)) == 2
