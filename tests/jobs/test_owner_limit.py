"""Limits of an owner, as they are written."""

import pytest

from trackside.errors import InvalidSetting, OwnerLimitExceeded
from trackside.jobs.machine_resources import MachineResources
from trackside.jobs.owner_limit import Limit


@pytest.mark.parametrize(
    ("text", "limit", "reported"),
    [
        ("2", Limit(jobs=2), "2"),
        ("0", Limit(jobs=0), "none"),
        ("none", Limit(), ""),
        ("cores=8,gpus=2", Limit(cores=8, gpus=2), "cores=8,gpus=2"),
        (" jobs=1 , cores = 4", Limit(jobs=1, cores=4), "jobs=1,cores=4"),
    ],
)
def test_a_limit_is_read_and_told(text: str, limit: Limit, reported: str):
    assert Limit.parse(text) == limit
    assert str(limit) == reported


@pytest.mark.parametrize(
    "text", ["", "cores", "cores=", "cores=-1", "disk=5", "cores=1,cores=2", "8 cores", "1.5", "٣"]
)
def test_what_is_no_limit_is_refused(text: str):
    with pytest.raises(InvalidSetting, match="is no limit. Write jobs=NUMBER"):
        Limit.parse(text)


def test_a_job_that_could_never_start_is_refused():
    limit = Limit(cores=4, gpus=1)
    limit.check("ci", MachineResources(cores=4, gpus=1))
    with pytest.raises(OwnerLimitExceeded, match="asks for 2 GPUs, .* 'ci' .* 1 GPU at a time"):
        limit.check("ci", MachineResources(gpus=2))
