"""Builds a C source of ours as `build_native.py` does, with every warning an error."""

import shutil
import subprocess
from pathlib import Path

import pytest

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def build(source: Path, folder: Path, *, optimised: str, sanitized: bool = False) -> Path:
    """The library; a skip where there is no compiler: each source has a twin in Python."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    built = folder / source.with_suffix(".so").name
    flags = [optimised, "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    flags += SANITIZERS if sanitized else ()
    subprocess.run(["cc", *flags, "-o", built, source], check=True)
    return built


def sanitizer_environment() -> dict[str, str]:
    """For a child Python that loads a sanitized library; a skip where the compiler has none.

    The interpreter's memory comes from `malloc` too, so that reads past a `bytes` object are seen.
    """
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    asked = ["cc", "-print-file-name=libasan.so"]
    runtime = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("the C compiler has no address sanitizer")
    return {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }
