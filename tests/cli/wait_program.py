"""`trackside run --wait` from where the job has been started: waits for a stand-in's job."""

import sys

from tests.jobs.conftest import STAND_IN
from trackside.cli.failures import EXPECTED, exit_code, explain
from trackside.cli.wait_for_job import wait_for
from trackside.jobs.jobs import Jobs
from trackside.sdk.job import TrainingJob
from trackside.settings import Settings, environment

if __name__ == "__main__":
    jobs = Jobs(Settings.load(), environment(), supervisor_command=STAND_IN)
    try:
        wait_for(TrainingJob(sys.argv[1], jobs))
    except EXPECTED as failure:
        sys.stderr.write(f"{explain(failure)}\n")
        sys.exit(exit_code(failure))
