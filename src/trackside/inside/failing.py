"""Why a script failed, told from the exception that ended it: the user's own frame first."""

import os
import sys
import traceback
from types import FrameType

from trackside.last_words import End, last_words
from trackside.secret_names import looks_secret, mask_text
from trackside.settings import environment

LONGEST = 960
"""A FailureReason has 1024 characters; its category and the exit code need some."""


def failure_text(error: BaseException, seconds: float) -> str:
    said = "".join(traceback.format_exception(error))
    return _fitted(said, 1, seconds)


def exit_text(code: object, frame: FrameType, seconds: float) -> str:
    """Of a script that left by `sys.exit`: with its message, if that is what it gave."""
    if isinstance(code, int):
        file = os.path.relpath(frame.f_code.co_filename)
        place = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
        return f"The script called sys.exit({code}), at {place}"
    return _fitted(f"{code}\n", 1, seconds)


def exit_code(code: object) -> int:
    """What the interpreter makes of what `sys.exit` was given."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _fitted(said: str, code: int, seconds: float) -> str:
    secrets = [value for name, value in environment().items() if looks_secret(name)]
    end = End(code=code, said=mask_text(said, secrets), seconds=seconds, code_folder=_code_folder())
    return last_words(end).fitted(LONGEST)


def _code_folder() -> str:
    """The script's own; the current one at a prompt and in a notebook."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.abspath(script)) if script else os.getcwd()
