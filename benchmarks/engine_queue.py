"""Jobs that wait in the queue of a real Slurm: what they cost the process that watches them, as a
server does, for 50 and for 500."""

import json
import os
import resource
import sys
import tarfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from tests.machines import HOME
from tests.slurm_cluster import slurm_cluster
from tests.wait import until

from benchmarks.report import Comparison, Target
from benchmarks.training_request import training_request
from trackside.jobs.jobs import Jobs
from trackside.records.journal import Journal
from trackside.records.spec import JobSpec
from trackside.settings import Settings

NUM_JOBS = (50, 500)
_FLAT = 1.5
"""How much more a job among 500 may cost than one among 50."""
_FLAT_MEMORY = 1.1
"""How much more memory 500 may take than 50."""
_ROUND_SECONDS = 2.1
"""Between two rounds: a listing of the engine's jobs is used for two seconds."""


def run(quick: bool = False) -> Iterator[Comparison]:
    numbers = (5, 50) if quick else NUM_JOBS
    measured = {number: _measured(number, 5 if quick else 20) for number in numbers}
    few, many = (measured[number] for number in numbers)
    load = f"A load of {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores at the end."
    for name, title, unit, most in (
        ("cpu_ms", "A look at jobs that wait in Slurm, processor time for each", "ms", _FLAT),
        ("mib", "Memory of the process that watches them", "MiB", _FLAT_MEMORY),
    ):
        yield Comparison(
            f"{title} ({numbers[1]} jobs against {numbers[0]})",
            unit,
            {"trackside": many[name], f"{numbers[0]} jobs": few[name]},
            targets=(Target(f"{numbers[0]} jobs", 1 / most),),
            notes=(
                "; ".join(f"{number} jobs: {measured[number]}" for number in numbers) + ".",
                load,
            ),
        )


def _measured(num_jobs: int, num_rounds: int) -> dict[str, float]:
    """The node is another's: all of them wait."""
    with slurm_cluster("n1") as cluster:
        head = cluster.head
        cluster.said("sbatch", "--output=/dev/null", "--exclusive", "--wrap", "sleep 36000")
        until(lambda: cluster.said("squeue", "-h", "-t", "running"), seconds=120)
        given = [str(num_jobs), str(num_rounds), cluster.network.make_bucket()]
        done = head.run(
            sys.executable, "-m", "benchmarks.engine_queue", *given, variables=cluster.variables
        )
        assert done.returncode == 0, done.stderr
        waiting = cluster.said("squeue", "-h", "-t", "pending").splitlines()
        assert len(waiting) == num_jobs, f"{len(waiting)} of {num_jobs} wait"
        return dict(json.loads(done.stdout.splitlines()[-1]))


# On the login node


def submit(jobs: Jobs, number: int, bucket: str) -> None:
    request = training_request(
        f"job-{number}",
        HyperParameters={
            "sagemaker_program": "noop.py",
            "sagemaker_submit_directory": f"s3://{bucket}/code/{number}/sourcedir.tar.gz",
        },
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
        Trackside={"Placement": "slurm"},
    )
    jobs.submit(JobSpec.from_request(request), source=[_packed()])


def _packed() -> bytes:
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("noop.py"))
    return content.getvalue()


def watch(jobs: Jobs, num_jobs: int, num_rounds: int) -> dict[str, float]:
    """Rounds as a server's; the first fills the caches."""
    jobs.reconcile()
    jobs.refresh()
    own, children = time.process_time(), _of_children()
    began, waited = time.monotonic(), 0.0
    for _ in range(num_rounds):
        time.sleep(_ROUND_SECONDS)
        waited += _ROUND_SECONDS
        jobs.reconcile()
        jobs.refresh()
    took = time.monotonic() - began - waited
    return {
        "cpu_ms": round((time.process_time() - own) * 1000 / num_rounds / num_jobs, 3),
        "commands_ms": round((_of_children() - children) * 1000 / num_rounds, 1),
        "round_ms": round(took * 1000 / num_rounds, 1),
        "mib": round(_resident_mib(), 1),
    }


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(num_jobs: int, num_rounds: int, bucket: str) -> None:
    settings = Settings.load()
    if os.fork() == 0:  # so that what submitting takes is not in the figures
        jobs = Jobs(settings, dict(os.environ))
        for number in range(num_jobs):
            submit(jobs, number, bucket)
        os._exit(0)
    _, status = os.wait()
    assert status == 0
    jobs = Jobs(settings, dict(os.environ))
    found = watch(jobs, num_jobs, num_rounds)
    for number in range(num_jobs):
        history = Journal(settings.layout.job(f"job-{number}").journal).read()
        assert history.message.startswith("Waiting for slurm"), history.message
    print(json.dumps(found))


if __name__ == "__main__":
    assert Settings.load().home == HOME, "only for the machine that `run` makes"
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
