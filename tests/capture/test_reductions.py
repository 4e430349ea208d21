import ctypes
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.native_build import build
from trackside.capture.copying import compiled_reductions
from trackside.capture.copying.compiled_reductions import reduce_ordinary
from trackside.capture.copying.reductions import reduce_on_device, reduce_on_host
from trackside.capture.selection.reduction_config import NORMS, REDUCTIONS

COLUMNS = [*REDUCTIONS, *NORMS, *(f"abs_{name}" for name in (*REDUCTIONS, *NORMS))]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = Path(compiled_reductions.__file__).with_name("reduce.c")
    built = build(source, tmp_path_factory.mktemp("reduce"), optimised="-O3")
    library = compiled_reductions.load(built)
    assert library is not None
    return library


@pytest.fixture(params=["compiled", "torch"])
def library(request: pytest.FixtureRequest) -> ctypes.CDLL | None:
    return request.getfixturevalue("compiled") if request.param == "compiled" else None


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
def test_every_reduction_agrees_with_its_definition(column, library):
    given = tensors()
    if column.endswith("prod"):
        given = given[:3] + given[9:11]
    found = reduce_on_host(given, ["min", column], library)

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
        torch.from_numpy(reduce_on_host(given, [column], None)),
        rtol=2e-3,
        atol=1e-6,
        equal_nan=True,
    )


@pytest.mark.parametrize("size", [10, 10_000])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 7, -1])
def test_what_is_not_finite_shows_as_itself(size, bad, place, library):
    tensor = torch.randn(size)
    tensor[place] = bad

    low, high, mean, std, l2 = reduce_on_host(
        [tensor], ["min", "max", "mean", "std", "l2"], library
    )[0]

    assert repr(mean) == repr(np.float64(bad))
    assert math.isnan(std)
    assert repr(l2) == repr(np.float64(abs(bad)))
    assert repr(low) == repr(np.float64(bad)) if bad != math.inf else math.isfinite(low)
    assert repr(high) == repr(np.float64(bad)) if bad != -math.inf else math.isfinite(high)


def test_a_tiny_spread_around_a_large_mean_keeps_its_digits(compiled):
    tensor = torch.randn(1_000_003).mul(1e-3).add(1000.0)
    tensor[0] = 999.0

    found = reduce_on_host([tensor], ["mean", "std", "l2", "abs_std"], compiled)[0]

    for value, column in zip(found, ("mean", "std", "l2", "abs_std"), strict=True):
        assert value == pytest.approx(expected(tensor, column), rel=1e-9), column


def test_odd_strides_and_negated_views_are_read_as_they_are_seen(compiled):
    halves = torch.randn(8, 6)[:, ::2]
    turned = torch.randn(4, 5, 6).permute(2, 0, 1)
    negated = torch.randn(1, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    assert negated.is_contiguous()

    found = reduce_on_host([halves, negated, turned], ["min", "max"], compiled)

    assert found[0].tolist() == [halves.min().item(), halves.max().item()]
    assert found[1, 0] == negated.item()
    assert found[2].tolist() == [turned.min().item(), turned.max().item()]


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=12))
def test_any_mixture_of_sizes_and_types_keeps_its_order(library, sizes):
    types = (torch.float32, torch.float64, torch.bfloat16)
    given = [torch.full((n,), float(row), dtype=types[n % 3]) for row, n in enumerate(sizes)]

    found = reduce_on_host(given, ["mean", "std"], library)

    assert found[:, 0].tolist() == [float(row) for row in range(len(sizes))]
    assert all(s == 0.0 or size == 1 for s, size in zip(found[:, 1], sizes, strict=True))


FIVE = ("l2", "max", "mean", "min", "std")
ODD: dict[str, Callable[[], torch.Tensor]] = {
    "float64": lambda: torch.randn(3, dtype=torch.float64),
    "bfloat16": lambda: torch.randn(3).to(torch.bfloat16),
    "transposed": lambda: torch.randn(3, 4).t(),
    "negated": lambda: torch.randn(1, dtype=torch.complex64).conj().imag,
    "empty": lambda: torch.empty(0),
    "meta": lambda: torch.empty(3, device="meta"),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "subclass": lambda: torch.nn.Buffer(torch.randn(3)).as_subclass(Wrapper),
    "uninitialized": torch.nn.UninitializedParameter,
}


class Wrapper(torch.Tensor):
    """What it holds may be something else than what it shows."""


def test_the_short_way_gives_the_very_same_figures(compiled):
    given = [torch.nn.Parameter(torch.randn(300, 40)), torch.randn(7), torch.tensor(3.0)]

    found = reduce_ordinary(compiled, given, FIVE)

    assert found is not None
    np.testing.assert_array_equal(found, reduce_on_host(given, FIVE, compiled))


@pytest.mark.parametrize("kind", ODD)
def test_the_short_way_takes_no_tensor_that_is_not_what_it_seems(compiled, kind):
    assert reduce_ordinary(compiled, [torch.randn(3), ODD[kind]()], FIVE) is None


def test_the_short_way_takes_nothing_where_a_function_is_transformed(compiled):
    found, kept = [], []

    def look(row: torch.Tensor) -> torch.Tensor:
        found.append(reduce_ordinary(compiled, [row], FIVE))
        kept.append(row)
        return row

    torch.vmap(look)(torch.randn(2, 3))

    assert found == [None]
    assert reduce_ordinary(compiled, kept, FIVE) is None


def test_the_short_way_needs_the_library_and_columns_that_it_knows(compiled):
    assert reduce_ordinary(None, [torch.randn(3)], FIVE) is None
    assert reduce_ordinary(compiled, [torch.randn(3)], ("median", "min")) is None
