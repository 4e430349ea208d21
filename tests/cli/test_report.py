"""`trackside report` in the terminal."""

from pathlib import Path

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec, run_to_end
from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding
from trackside.records.rule_status import Evaluation, RuleStatus, write_evaluations


def test_the_page_is_written_beside_the_caller(command: Command, jobs: Jobs, workplace: Path):
    jobs.submit(make_spec("bare"))
    jobs.wait("bare")
    done = command("report", "bare")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("bare.html")
    assert "No curves." in (workplace / "bare.html").read_text()


def test_what_the_rules_filed_is_in_it(command: Command, jobs: Jobs, workplace: Path):
    rule = {"RuleConfigurationName": "dead", "RuleParameters": {"rule_to_invoke": "DeadRelu"}}
    jobs.submit(make_spec("watched", hyper={"hold": "1"}, DebugRuleConfigurations=[rule]))
    folder = jobs.settings.layout.job("watched").rules
    folder.root.mkdir(exist_ok=True)
    finding = Finding(rule="DeadRelu", step=40, tensor="relu_output", message="Half is dead.")
    folder.findings.write_bytes(finding.to_line())
    evaluation = Evaluation(
        configuration="dead",
        rule="DeadRelu",
        status=RuleStatus.ISSUES_FOUND,
        num_findings=1,
        is_over=True,
    )
    write_evaluations(folder.statuses, [evaluation])
    (jobs.settings.layout.job("watched").root / "release").touch()
    run_to_end(jobs, "watched")
    assert command("report", "watched", "-o", "page.html").returncode == 0
    page = (workplace / "page.html").read_text()
    assert "Half is dead." in page
    assert "from step 40 on" in page
    assert '<p class="sentence">Half is dead (since step 40, at relu_output).</p>' in page
    assert "No rules watched" not in page


def test_a_job_that_does_not_exist_leaves_no_file(command: Command, workplace: Path):
    assert command("report", "missing").returncode == 2
    assert not (workplace / "missing.html").exists()


def test_secrets_among_the_hyperparameters_are_not_on_the_page(
    command: Command, jobs: Jobs, workplace: Path
):
    for name, key in (("one", "first-secret"), ("two", "second-secret")):
        jobs.submit(make_spec(name, hyper={"api_key": key, "lr": f"0.{len(key)}"}))
        jobs.wait(name)
    assert command("report", "one", "-o", "page.html").returncode == 0
    page = (workplace / "page.html").read_text()
    assert "first-secret" not in page
    assert "api_key" in page
    compared = command("compare", "one", "two").stdout
    assert "0.12" in compared
    assert "api_key" in compared
    assert "-secret" not in compared
