"""How many rounds a fuzzer plays: for seconds in `make test`, for longer in `make nightly`."""

import os

FACTOR = float(os.environ.get("TRACKSIDE_FUZZ_FACTOR", "1"))
"""Read when the tests are collected: each test has its environment cleaned."""


def rounds(default: int) -> int:
    return max(1, round(default * FACTOR))
