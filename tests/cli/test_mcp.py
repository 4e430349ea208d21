"""`trackside mcp` as a coding agent uses it: the official client over standard input and output."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client

from tests.cli.conftest import TRACKSIDE, Command
from tests.cli.test_watch import RATE_ZERO, SENTENCE, draw, file, held, log_of, release
from tests.jobs.conftest import make_spec, run_to_end
from tests.rules.recording import Recording
from trackside.jobs.described_locations import tensors_uri
from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding
from trackside.storage.locate import locate
from trackside.views.agents.agent_answers import MOST_BYTES

READERS = ["compare", "evidence", "list_jobs", "logs_around", "what_is_wrong"]


@dataclass(frozen=True)
class Answer:
    text: str
    is_error: bool


def talk(*calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()) -> list[Answer]:
    """One session; the answers of its calls."""
    return asyncio.run(_talk(calls, options))[1]


async def _talk(
    calls: tuple[tuple[str, dict[str, Any]], ...], options: tuple[str, ...]
) -> tuple[list[Any], list[Answer]]:
    program, *arguments = [*TRACKSIDE, "mcp", *options]
    command = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    answers = []
    async with stdio_client(command) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        for name, given in calls:
            result = await session.call_tool(name, given)
            text = "\n".join(getattr(part, "text", "") for part in result.content)
            answers.append(Answer(text, bool(result.is_error)))
    return tools, answers


def ask(tool: str, **given: Any) -> str:
    (answer,) = talk((tool, given))
    assert not answer.is_error, answer.text
    assert len(answer.text.encode()) <= MOST_BYTES
    return answer.text


def test_tools_say_what_they_change():
    tools, _ = asyncio.run(_talk((), ()))
    assert sorted(tool.name for tool in tools) == sorted([*READERS, "stop_job"])
    for tool in tools:
        assert tool.description
        is_stop = tool.name == "stop_job"
        assert tool.annotations.read_only_hint is not is_stop
        assert bool(tool.annotations.destructive_hint) is is_stop
    readers, _ = asyncio.run(_talk((), ("--read-only",)))
    assert sorted(tool.name for tool in readers) == READERS


def test_what_is_wrong_names_the_cause_and_what_to_try(jobs: Jobs):
    held(jobs)
    file(jobs, "job-1", RATE_ZERO)
    held(jobs, "healthy")
    of_job, of_all, of_healthy, listed = (
        each.text
        for each in talk(
            ("what_is_wrong", {"job": "job-1"}),
            ("what_is_wrong", {}),
            ("what_is_wrong", {"job": "heal"}),
            ("list_jobs", {"query": "is:live findings>0"}),
        )
    )
    assert of_job.splitlines()[0].startswith("job-1: Training, step 41, trained ")
    assert f"1. LearningRateZero, certain: {SENTENCE}" in of_job.splitlines()
    assert "  try: Print the rate in the loop." in of_job.splitlines()
    first, problem = of_all.splitlines()
    assert first == "1 open issue in 1 of 2 jobs."
    assert problem.startswith("LearningRateZero: 1 of 2 jobs ")
    assert "the learning rate is 0 in all 36 updates" in problem
    assert problem.endswith("newest in job-1")
    assert "Healthy so far:" in of_healthy
    assert listed.startswith("job-1, Training, ")
    assert "healthy" not in listed
    release(jobs)
    release(jobs, "healthy")


def test_what_changed_since_the_last_healthy_job_is_named(jobs: Jobs):
    for name, rate, findings in (("good", "0.1", ()), ("bad", "0", (RATE_ZERO,))):
        held(jobs, name, hyper={"lr": rate})
        file(jobs, name, *findings)
        release(jobs, name)
        run_to_end(jobs, name)
    said = ask("what_is_wrong", job="bad").splitlines()
    at = said.index("changed since good, which was healthy:")
    assert said[at + 1] == "  hyperparameter lr: 0.1 -> 0"
    assert "changed since" not in ask("what_is_wrong", job="good")


def test_evidence_has_the_numbers_and_the_log(jobs: Jobs):
    held(jobs, DebugHookConfig={"S3OutputPath": "s3://out/runs"})
    fading = Finding(
        rule="FadingGradient", message="It fades.", step=7, tensor="gradient/a.weight", value=1e-9
    )
    file(jobs, "job-1", fading, Finding(rule="NothingLearnt", message="The loss stays.", step=9))
    release(jobs)
    run_to_end(jobs)
    place = locate(tensors_uri(jobs.describe("job-1")) or "", home=jobs.settings.home)
    assert place.local is not None
    recording = Recording(
        place.local, collections={"gradients": "^gradient/", "vitals": "^vitals/"}
    )
    for step in range(20):
        row = {"gradient/a.weight": [1e-9] * 4, "gradient/b.weight": [2.0] * 4}
        recording.step(step, {**row, "vitals/gradient_norm": 4.0 if step != 7 else 99.0})
    recording.end()
    said = ask("evidence", job="job-1")
    assert "FadingGradient in job-1: It fades (since step 7, at gradient/a.weight)." in said
    assert "99@7" in said
    assert "least gradient/a.weight 2e-09" in said
    assert "gradient/b.weight 4" in said
    assert "NothingLearnt at step 9: The loss stays." in said
    assert "log at that time:" not in said  # when that was is not known
    (wrong,) = talk(("evidence", {"job": "job-1", "diagnosis": 5}))
    assert wrong.is_error
    assert "has 1 diagnosis" in wrong.text


def test_lines_of_the_log_are_found_by_step_time_and_pattern(jobs: Jobs):
    held(jobs, lines=50)
    with log_of(jobs, "job-1").open("a") as log:
        log.write("\x1b[31mValueError: bad\x1b[0m\n")
    draw(jobs, "job-1", ".", loss=[3.0, 2.0])
    tail, found, missing, invalid, at_step, unknown = talk(
        ("logs_around", {"job": "job-1", "lines": 2}),
        ("logs_around", {"job": "job-1", "pattern": "^line 2[0-9]$", "lines": 5}),
        ("logs_around", {"job": "job-1", "pattern": "nowhere"}),
        ("logs_around", {"job": "job-1", "pattern": "("}),
        ("logs_around", {"job": "job-1", "step": 1, "lines": 3}),
        ("logs_around", {"job": "job-1", "step": 5000}),
    )
    assert tail.text.endswith(" ValueError: bad")
    assert len(tail.text.splitlines()) == 2
    assert found.text.splitlines()[0].startswith("10 matches, the first in line 21 of algo-1; then")
    assert any(line.startswith(">21 ") for line in found.text.splitlines())
    assert missing.text == "No line matches."
    assert invalid.is_error
    assert len(at_step.text.splitlines()) == 3
    assert unknown.is_error
    assert "no curve has it" in unknown.text
    release(jobs)


def test_jobs_are_compared_by_what_differs(jobs: Jobs):
    for name, rate in (("one", "0.1"), ("two", "0.2")):
        jobs.submit(make_spec(name, hyper={"lr": rate, "same": "x", "api_key": f"secret-{rate}"}))
        run_to_end(jobs, name)
    said = ask("compare", jobs=["one", "two"])
    assert "hyperparameter lr: 0.1 | 0.2" in said.splitlines()
    assert "same" not in said
    assert ask("list_jobs", query="lr>0.15").startswith("two, Completed, ")
    (slip,) = talk(("list_jobs", {"query": "status:nowhere"}))
    assert slip.is_error
    assert "secret-0" not in said
    (alone,) = talk(("compare", {"jobs": ["one"]}))
    assert alone.is_error


def test_a_job_can_be_stopped(jobs: Jobs):
    held(jobs)
    stopped = ask("stop_job", job="job-1")
    assert stopped.startswith("job-1 is Stop")
    assert str(jobs.wait("job-1").state.status) == "Stopped"
    assert "nothing was changed" in ask("stop_job", job="job-1")


def test_an_unknown_job_is_an_error_with_a_way_out():
    (answer,) = talk(("what_is_wrong", {"job": "nope"}))
    assert answer.is_error
    assert "No job is called 'nope'." in answer.text
    assert "Traceback" not in answer.text


def test_a_failure_is_explained(jobs: Jobs):
    reason = "AlgorithmError: ModuleNotFoundError: No module named 'nope', exit code: 1"
    jobs.submit(make_spec("job-1", hyper={"failure": reason}))
    run_to_end(jobs)
    said = ask("what_is_wrong", job="last")
    assert "Failed: " in said
    assert "No module named 'nope'" in said
    assert "install it here" in said
    assert "No module named 'nope'" in ask("what_is_wrong")


def test_answers_are_short_and_cannot_control_anything(jobs: Jobs):
    held(jobs)
    hostile = "\x1b[2J\u202e" + "x" * 5_000
    found = [
        Finding(rule=f"Own{number}", message=hostile, advice=hostile, step=1, tensor=hostile)
        for number in range(50)
    ]
    file(jobs, "job-1", *found)
    with log_of(jobs, "job-1").open("a") as log:
        log.write(f"{hostile}\n" * 100)
    for answer in talk(
        ("what_is_wrong", {"job": "job-1"}),
        ("what_is_wrong", {}),
        ("evidence", {"job": "job-1", "diagnosis": 3}),
        ("logs_around", {"job": "job-1", "lines": 100_000}),
        ("list_jobs", {"limit": 10**9}),
    ):
        assert not answer.is_error, answer.text
        assert 0 < len(answer.text.encode()) <= MOST_BYTES + 100
        assert "\x1b" not in answer.text
        assert "\u202e" not in answer.text
    release(jobs)


def test_without_the_package_the_way_out_is_named(command: Command, tmp_path: Path):
    """A package of the same name without a server stands for an installation without the extra."""
    (tmp_path / "first" / "mcp").mkdir(parents=True)
    (tmp_path / "first" / "mcp" / "__init__.py").touch()
    path = os.pathsep.join([str(tmp_path / "first"), os.environ["PYTHONPATH"]])
    done = command("mcp", PYTHONPATH=path)
    assert done.returncode == 2
    assert "pip install 'trackside[mcp]'" in done.stderr


def test_no_jobs_are_no_error():
    assert ask("what_is_wrong").startswith("There are no jobs yet.")
    assert ask("list_jobs") == "There are no jobs."
