"""The commonest first failures come with what to do about them."""

import pytest

from trackside.views.job.failure_hints import advice


@pytest.mark.parametrize(
    ("cause", "way_out"),
    [
        ("train.py: error: the following arguments are required: --data-dir, --lr", "-p data-dir="),
        ("train.py: error: the following arguments are required: -d/--data", "-p data="),
        ("train.py: error: the following arguments are required: epochs", "-- EPOCHS."),
        ("train.py: error: the following arguments are required: --lr", "-- --lr VALUE."),
        ("ModuleNotFoundError: No module named 'timm.models'", "'timm' is a package"),
        ("EOFError: EOF when reading a line (exit code 1)", "-p NAME=VALUE"),
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: environment"
            " variable RANK expected, but not set, at ddp.py:3 in main (exit code 1)",
            "--distribution torchrun",
        ),
        ("KeyError: 'LOCAL_RANK', at train.py:3 in main (exit code 1)", "--distribution torchrun"),
        ("AssertionError: Torch not compiled with CUDA enabled, at train.py:3", "no GPU"),
        ("RuntimeError: CUDA error: invalid device ordinal", "CUDA_VISIBLE_DEVICES"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 GiB", "smaller batch"),
    ],
)
def test_the_way_out_is_reported(cause: str, way_out: str):
    assert way_out in advice(cause)


def test_of_other_failures_nothing_is_guessed():
    assert advice("ValueError: no (exit code 1)") == ""
    assert advice("KeyError: 'RANKING', at train.py:3 in main (exit code 1)") == ""
