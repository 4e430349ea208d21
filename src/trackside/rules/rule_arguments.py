"""The arguments of rules arrive as strings; these turn them into what a rule works with."""

from collections.abc import Sequence


def parse_list_from_str(arg: str | Sequence[str] | None, delimiter: str = ",") -> list[str]:
    """ "a, b" to ["a", "b"]; None and "" to an empty list; a list to itself."""
    if arg is None:
        return []
    if isinstance(arg, str):
        return [part.strip() for part in arg.split(delimiter) if part.strip()]
    if not isinstance(arg, list):
        raise TypeError(f"{arg!r} is neither a string nor a list of strings.")
    return list(arg)


def parse_bool(arg: str | bool | None, default: bool = False) -> bool:
    """True and "True" in any case; the default for None."""
    if arg is None:
        return default
    if isinstance(arg, bool):
        return arg
    if isinstance(arg, str) and arg.strip().lower() in ("true", "false"):
        return arg.strip().lower() == "true"
    raise ValueError(f"{arg!r} is neither 'True' nor 'False'.")
