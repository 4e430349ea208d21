"""Lets scripts `import smdebug` where the original is not installed.

The folder `smdebug` beside this file re-exports our own names under the original's module paths.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent
"""For PYTHONPATH of a process that will need `smdebug` and has not got it."""


def is_needed() -> bool:
    """Whether this interpreter finds no `smdebug` of its own."""
    return find_spec("smdebug") is None


def make_importable() -> None:
    """Add the alias behind everything else on the path: an installed original always wins."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
