"""Commands that only read records answer at once: they load nothing that others need."""

import subprocess
import sys

import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import is_training, kill_supervisor, make_spec, run_to_end
from tests.wait import until
from trackside.jobs.jobs import Jobs

THIRD_PARTY = {
    "asyncio",
    "concurrent",
    "cryptography",
    "isal",
    "multiprocessing",
    "numpy",
    "obstore",
    "psutil",
    "rich",
    "ssl",
    "torch",
}
"""And what of the standard library takes as long to load."""
OF_OTHERS = {
    *(
        f"trackside.jobs.{name}"
        for name in (
            "garbage_collection",
            "job_service",
            "jobs",
            "local_controller",
            "local_submitter",
            "reconcile",
            "scheduler",
            "start_supervisor",
            "submit",
        )
    ),
    "hashlib",
    "socket",
    "subprocess",
    "trackside.sdk.estimator",
}
"""What starts a job or looks after one."""
READING = (
    ["--version"],
    ["--help"],
    ["jobs"],
    ["jobs", "--json"],
    ["jobs", "--help"],
    ["show", "job-1"],
    ["show", "job-1", "--json"],
    ["logs", "job-1"],
    ["logs", "job-1", "--tail", "1"],
    ["findings", "job-1"],
    ["artifacts", "job-1"],
    ["queue"],
    ["rules"],
    ["rules", "--json"],
    ["rules", "--help"],
    ["rules", "DeadRelu"],
)
PROGRAM = """
import sys
from trackside.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("LOADED", *sys.modules, file=sys.stderr)
"""


def loaded_by(arguments: list[str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.partition("LOADED ")[2].split())


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_what_only_reads_loads_little(jobs: Jobs, arguments: list[str]):
    jobs.submit(make_spec("job-1", hyper={"say": "hello"}))
    run_to_end(jobs)
    loaded = loaded_by(arguments)
    assert {name.split(".")[0] for name in loaded} & THIRD_PARTY == set()
    assert loaded & OF_OTHERS == set()


@pytest.mark.parametrize("arguments", [["jobs"], ["show", "job-1"]], ids=" ".join)
def test_a_job_with_a_living_supervisor_needs_nobody_else(jobs: Jobs, arguments: list[str]):
    jobs.submit(make_spec("job-1", hyper={"hold": "yes"}))
    until(lambda: is_training(jobs, "job-1"))
    assert "trackside.jobs.reconcile" not in loaded_by(arguments)
    kill_supervisor(jobs.settings.layout.job("job-1"))
    assert "trackside.jobs.reconcile" in loaded_by(arguments)


def test_logs_are_searched_for_an_expression(jobs: Jobs, command: Command):
    jobs.submit(make_spec(num_hosts=2, hyper={"hold": "yes", "lines": "3"}))
    until(lambda: is_training(jobs, "job-1"))
    shown = command("logs", "job-1", "--grep", "(?i)LINE [12]", "-N")
    assert shown.stdout == "algo-1 | 2: line 1\nalgo-1 | 3: line 2\nalgo-2 | 2: line 1\n"
    alone = command("logs", "job-1", "--grep", "line 1", "--host", "algo-2", "-t")
    assert alone.stdout.endswith("Z line 1\n")
    assert "No line matches 'nan'" in command("logs", "job-1", "--grep", "nan").stderr
    refused = command("logs", "job-1", "--grep", "(")
    assert (refused.returncode, "'(' is no regular expression" in refused.stderr) == (2, True)
    assert command("logs", "job-1", "--grep", "x", "-f").returncode == 2
