"""Warnings that point to the user's own line, however deep in this package they are raised."""

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def caution(message: str, category: type[Warning] = UserWarning) -> None:
    # The same as `skip_file_prefixes`, which comes with Python 3.12.
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
