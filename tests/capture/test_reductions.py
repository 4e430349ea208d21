import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.capture.reduction_config import NORMS, REDUCTIONS
from trackside.capture.reductions import reduce_on_device, reduce_on_host

COLUMNS = [*REDUCTIONS, *NORMS, *(f"abs_{name}" for name in (*REDUCTIONS, *NORMS))]


def expected(tensor: torch.Tensor, column: str) -> float:
    """The definition, in float64 numpy, one tensor at a time."""
    values = tensor.detach().double().numpy().reshape(-1)
    if column.startswith("abs_"):
        values = np.abs(values)
    name = column.removeprefix("abs_")
    if name in ("std", "variance"):
        if values.size == 1:
            return math.nan
        return float(getattr(np, name.replace("variance", "var"))(values, ddof=1))
    if name == "median":
        return float(np.sort(values)[(values.size - 1) // 2])
    if name in NORMS:
        return float(np.linalg.norm(values, ord=int(name[1])))
    return float(getattr(np, name)(values))


def tensors() -> list[torch.Tensor]:
    torch.manual_seed(7)
    return [
        torch.tensor(3.0),
        torch.randn(5),
        torch.randn(7, 9) * 1e-4 + 1,
        torch.randn(300, 400),
        torch.randn(200, 100).t(),
        torch.randn(70_000) * 1e-5 + 100,
        torch.randn(40).to(torch.bfloat16),
        torch.randn(9000).to(torch.float16),
        torch.randn(64).to(torch.float8_e4m3fn),
        torch.arange(-20, 20),
        torch.tensor([True, False, True]),
        torch.randn(6000, dtype=torch.float64),
        torch.randn(10_000) * 1e25,
        torch.randn(10_000) * 1e-25,
    ]


@pytest.mark.parametrize("column", COLUMNS)
def test_every_reduction_agrees_with_its_definition(column):
    given = tensors()
    if column.endswith("prod"):
        given = given[:3] + given[9:11]
    found = reduce_on_host(given, ["min", column])

    for row, tensor in enumerate(given):
        assert found[row, 1] == pytest.approx(
            expected(tensor, column), rel=2e-4, abs=1e-300, nan_ok=True
        ), row


@pytest.mark.parametrize("column", COLUMNS)
def test_the_path_of_accelerators_gives_the_same_figures(column):
    given = [t for t in tensors()[:12] if t.numel() < 9000]
    if column.endswith("prod"):
        given = given[:3]

    torch.testing.assert_close(
        reduce_on_device(given, [column]).double(),
        torch.from_numpy(reduce_on_host(given, [column])),
        rtol=2e-3,
        atol=1e-6,
        equal_nan=True,
    )


@pytest.mark.parametrize("size", [10, 10_000])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_shows_in_min_or_max(size, bad):
    tensor = torch.randn(size)
    tensor[size // 2] = bad

    assert not np.isfinite(reduce_on_host([tensor], ["min", "max", "mean", "std", "l2"])).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=12))
def test_any_mixture_of_sizes_keeps_its_order(sizes):
    given = [torch.full((size,), float(row)) for row, size in enumerate(sizes)]

    found = reduce_on_host(given, ["mean", "std"])

    assert found[:, 0].tolist() == [float(row) for row in range(len(sizes))]
    assert [s == 0.0 or size == 1 for s, size in zip(found[:, 1], sizes, strict=True)]
