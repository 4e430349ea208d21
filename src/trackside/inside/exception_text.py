"""Why a script failed, from the exception that ended it: the user's own frame first."""

import os
import sys
import traceback
from pathlib import Path
from types import FrameType

from trackside.settings import environment
from trackside.texts.process_failure import End, explain_end
from trackside.texts.secret_names import looks_secret, mask_text
from trackside.texts.truncation import shortened

LONGEST = 960
"""A FailureReason has 1024 characters; its category and the exit code need some."""
_MOST_TEXT = 600


def failure_text(error: BaseException, seconds: float) -> str:
    text = mask_text("".join(traceback.format_exception(error)), _secrets())
    end = End(code=1, output=text, seconds=seconds, code_folder=code_folder())
    return explain_end(end).fitted(LONGEST)


def exit_text(code: object, frame: FrameType) -> str:
    """For a script that called `sys.exit`: with its message, if given."""
    text = f"The script called sys.exit({code})" if isinstance(code, int) else str(code)
    name = os.path.relpath(frame.f_code.co_filename, code_folder())
    position = f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
    return f"{shortened(mask_text(text, _secrets()), _MOST_TEXT)}, at {position}"


def exit_code(code: object) -> int:
    """The interpreter's exit code for the argument of `sys.exit`."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _secrets() -> list[str]:
    return [value for name, value in environment().items() if looks_secret(name)]


def code_folder() -> str:
    """The script's folder; the current one at a prompt and in a notebook."""
    script = main_script()
    return os.getcwd() if script is None else str(script.parent)


def main_script() -> Path | None:
    """None at a prompt and in a notebook."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(os.path.abspath(script)) if script else None
