"""Changes of an environment, as the lines that a shell evaluates.

What is kept of the user's own keys is a variable of that shell alone: it is not exported.
"""

import shlex
from collections.abc import Callable, Iterable

from trackside.clients.environment import Change, GiveBack, Keep, Set, Unset

_KEPT = "_trackside_"


def posix(changes: Iterable[Change]) -> str:
    """For bash, zsh, ksh and dash."""
    return "".join(f"{_posix(change)}\n" for change in changes)


def fish(changes: Iterable[Change]) -> str:
    return "".join(f"{_fish(change)}\n" for change in changes)


SHELLS: dict[str, Callable[[Iterable[Change]], str]] = {"posix": posix, "fish": fish}


def _posix(change: Change) -> str:
    match change:
        case Set(name, value):
            return f"export {name}={shlex.quote(value)}"
        case Unset(name):
            return f"unset {name}"
        case Keep(name):
            kept = _KEPT + name
            keep = f"unset {kept}; {kept}=${name}"
            # Under `set -a` all that is assigned would be exported.
            return f"case $- in *a*) set +a; {keep}; set -a;; *) {keep};; esac"
        case GiveBack(name):
            kept = _KEPT + name
            back = f'export {name}="${kept}"; unset {kept}'
            return f'if [ -n "${{{kept}+x}}" ]; then {back}; else unset {name}; fi'


def _fish(change: Change) -> str:
    match change:
        case Set(name, value):
            return f"set -gx {name} {_fish_quoted(value)}"
        case Unset(name):
            return f"set -e {name}"
        case Keep(name):
            return f"set -e {_KEPT}{name}; set -gu {_KEPT}{name} ${name}"
        case GiveBack(name):
            kept = _KEPT + name
            back = f"set -gx {name} ${kept}; set -e {kept}"
            return f"if set -q {kept}; {back}; else; set -e {name}; end"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
