"""Jobs whose tensors a test writes, as their hook would, where the job's trial is in storage."""

from pathlib import Path
from typing import Any

from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import Record
from trackside.storage.locate import locate

HOOK = {
    "S3OutputPath": "s3://out/debug",
    "CollectionConfigurations": [{"CollectionName": "gradients"}],
}


def finished_job(jobs: Jobs, name: str = "job-1", **request: Any) -> Record:
    jobs.submit(make_spec(name, DebugHookConfig=HOOK, **request))
    run_to_end(jobs, name)
    return jobs.record(name)


def running_job(jobs: Jobs, name: str = "job-1", **request: Any) -> Record:
    jobs.submit(make_spec(name, hyper={"hold": "yes"}, DebugHookConfig=HOOK, **request))
    until(lambda: is_training(jobs, name))
    return jobs.record(name)


def trial_of(jobs: Jobs, record: Record) -> Path:
    assert record.spec.debug_hook is not None
    where = locate(
        record.keys.under(record.spec.debug_hook.uri, "debug-output"), home=jobs.settings.home
    )
    assert where.local is not None
    return where.local
