"""Lets scripts `import smdebug` where the original is not installed.

The folder `smdebug` next to this file re-exports our own names under the original's module paths.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent
"""For PYTHONPATH of a process that needs `smdebug` and does not have it."""


def is_needed() -> bool:
    """Whether this interpreter has no `smdebug` of its own."""
    return find_spec("smdebug") is None


def make_importable() -> None:
    """Append the alias to the path: an installed original always takes precedence."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
