"""Where a process finds itself."""

from pathlib import Path

import pytest

from trackside.inside.process_context import ProcessContext


def test_a_plain_process():
    here = ProcessContext.detect({})
    assert (here.job, here.rank, here.is_being_imported) == ("", 0, False)


def test_in_a_job():
    variables = {"TRAINING_JOB_NAME": "mnist-1", "TRACKSIDE_EXIT_RECORD": "/x/script.json"}
    assert ProcessContext.detect(variables).job == "mnist-1"
    assert ProcessContext.detect(variables).base == Path("/opt/ml")
    elsewhere = {**variables, "SAGEMAKER_BASE_DIR": "/home/me/ml"}
    assert ProcessContext.detect(elsewhere).base == Path("/home/me/ml")


def test_a_name_alone_is_no_job():
    assert ProcessContext.detect({"TRAINING_JOB_NAME": "left-over"}).job == ""


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"RANK": "3", "SLURM_PROCID": "1"}, 3),
        ({"SLURM_PROCID": "1"}, 1),
        ({"OMPI_COMM_WORLD_RANK": "2"}, 2),
        ({"PMI_RANK": "4"}, 4),
        ({"RANK": "", "LOCAL_RANK": "1"}, 0),
        ({"RANK": "none"}, 0),
    ],
    ids=str,
)
def test_ranks(variables: dict[str, str], rank: int):
    assert ProcessContext.detect(variables).rank == rank
