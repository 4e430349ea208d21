"""What a reverse proxy has before /ui in its addresses."""

import re

from trackside.errors import InvalidSetting

_PREFIX = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9_.~-]{0,99}){1,8}")


def is_prefix(text: str) -> bool:
    return _PREFIX.fullmatch(text) is not None


def checked_prefix(text: str, source: str) -> str:
    """Without a slash at its end; empty for none."""
    prefix = text.rstrip("/")
    if prefix and not is_prefix(prefix):
        raise InvalidSetting(
            f"{source} = {text!r} is no path before /ui. Write it as /team or /tools/trackside."
        )
    return prefix
