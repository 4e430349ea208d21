"""Detects files next to a script that it needs and that are not packed with the script alone."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from warnings import catch_warnings, simplefilter

_CODE = "/opt/ml/code/"
_MISSING = (
    re.compile(r"No such file or directory: '(?P<path>[^']+)'"),
    re.compile(r"can't open file '(?P<path>[^']+)'"),
    re.compile(r"FileNotFoundError: (?P<path>\S+) not found"),
    re.compile(r"(?P<path>[^\s:'\"]+): No such file or directory"),
    re.compile(r"FileNotFoundError: .*?(?P<path>/opt/ml/code/[^\s'\"]*[^\s'\".,])"),
)
"""Messages of Python, NumPy, shells and datasets for a missing file."""
_REQUIREMENTS = "requirements.txt"


def warnings(entry_point: str) -> list[str]:
    """Warnings for a script that is run without `--source-dir`."""
    script = Path(entry_point).expanduser()
    missing = [*_left_behind(script)]
    if not missing:
        return []
    named = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
    folder = os.path.dirname(entry_point) or "."
    whole = f"trackside run {script.name} --source-dir {folder}"
    stays = "stays" if len(missing) == 1 else "stay"
    return [
        f"Only {script.name} itself is packed; {named} beside it {stays} behind. "
        f"`{whole} …` takes the whole folder."
    ]


def advice(cause: str, entry_point: str | None, source_dir: str | None) -> str:
    """Advice on a file that the script did not find but that exists where the job was started, or
    next to the script; "" for any other failure.
    """
    script = Path(entry_point).expanduser() if entry_point else None
    packed = Path(source_dir or ".") if source_dir or script is None else None
    folders = [Path("."), *([script.parent] if script else [])]
    for named in _named_files(cause):
        for folder in folders:
            if packed is not None and (packed / named).exists():
                continue  # left out for another reason
            if (folder / named).exists():
                return _take_along(named, folder, script)
    return ""


def _named_files(cause: str) -> Iterator[str]:
    """Relative to the folder that the script ran in."""
    for pattern in _MISSING:
        for found in pattern.finditer(cause):
            named = os.path.normpath(found["path"].removeprefix(_CODE))
            if not named.startswith(("/", "..")) and named != ".":
                yield named


def _take_along(named: str, folder: Path, script: Path | None) -> str:
    advice_text = f"{named!r} is in {str(folder.absolute())!r}, and was not packed."
    if script is not None:
        program = os.path.relpath(script, folder)
        advice_text += (
            f" `trackside run {program} --source-dir {folder} …` takes that folder along."
        )
        there = "" if folder == Path(".") else f" --source-dir {folder}"
        advice_text += f" `trackside run --in-place {program}{there} …` runs in the folder itself."
    head = folder / named.partition("/")[0]
    if head.is_dir():
        channel = re.sub("[^A-Za-z0-9]+", "-", head.name).strip("-") or "data"
        variable = f"SM_CHANNEL_{channel.upper()}"
        place = os.path.join(".", head)
        advice_text += (
            f" `--channel {channel}={place}` brings much data; the script finds it by {variable}."
        )
    return advice_text


def _left_behind(script: Path) -> Iterator[str]:
    for name in sorted(_imported(script)):
        if (script.parent / f"{name}.py").is_file():
            yield f"{name}.py"
        elif (script.parent / name / "__init__.py").is_file():
            yield f"{name}/"
    if script.is_file() and (script.parent / _REQUIREMENTS).is_file():
        yield _REQUIREMENTS


def _imported(script: Path) -> set[str]:
    """Names of imported top-level modules, anywhere in the script; empty if it cannot be parsed,
    which is reported elsewhere.
    """
    try:
        with catch_warnings():
            simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return {name.partition(".")[0] for name in names}
