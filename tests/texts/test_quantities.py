"""Times and sizes for people."""

import pytest

from trackside.texts.quantities import duration, size


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0 s"),
        (0.4, "0 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3600 * 2 + 300, "2 h 5 min"),
        (86400 * 4 + 3600 * 3, "4 d 3 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, shown: str):
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (4_200_000, "4.2 MB"), (5e12, "5.0 TB")],
)
def test_sizes_are_short(num_bytes: float, shown: str):
    assert size(num_bytes) == shown
