"""A job's folder as its supervisor would leave it, for what watches it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trackside.files import durable
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.rules.watched_job import WatchedJob
from trackside.settings import Settings

MakeJob = Callable[..., WatchedJob]


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """Members of the request, and settings by their variables."""
    home = Home(tmp_path / "home of jobs")

    def make(
        name: str = "job-1",
        settings: dict[str, str] | None = None,
        owner: str = "local:root",
        key: str = "",
        **request: Any,
    ) -> WatchedJob:
        spec = JobSpec.from_request(
            {
                "TrainingJobName": name,
                "HyperParameters": {"sagemaker_program": "train.py"},
                "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
                "DebugHookConfig": {"S3OutputPath": "s3://bucket/debug"},
                **request,
            }
        )
        folder = home.job(name)
        folder.rules.root.mkdir(parents=True)
        durable.write_json(folder.spec, spec.to_request())
        journal = Journal(folder.journal)
        journal.open(owner=owner, key=key or None)
        for status in (Secondary.DOWNLOADING, Secondary.TRAINING):
            journal.move(status)
        trial = folder.host("algo-1", 1).inside("/opt/ml/output/tensors")
        trial.mkdir(parents=True)
        environ = {"TRACKSIDE_HOME": str(home.root), **(settings or {})}
        return WatchedJob(folder, spec, Settings.load(environ))

    return make
