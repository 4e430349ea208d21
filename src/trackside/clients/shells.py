"""Changes of an environment, as the lines that a shell evaluates."""

import shlex
from collections.abc import Callable

from trackside.clients.environment import Changes


def posix(changes: Changes) -> str:
    """For bash, zsh, ksh and dash."""
    return "".join(
        f"unset {name}\n" if value is None else f"export {name}={shlex.quote(value)}\n"
        for name, value in changes.items()
    )


def fish(changes: Changes) -> str:
    return "".join(
        f"set -e {name}\n" if value is None else f"set -gx {name} {_fish_quoted(value)}\n"
        for name, value in changes.items()
    )


SHELLS: dict[str, Callable[[Changes], str]] = {"posix": posix, "fish": fish}


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
