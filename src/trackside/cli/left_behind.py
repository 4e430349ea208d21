"""Files beside a script that it needs, and that stay behind when only the script is packed."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from warnings import catch_warnings, simplefilter

_REQUIREMENTS = "requirements.txt"


def warnings(entry_point: str) -> list[str]:
    """What to tell whoever runs a script without `--source-dir`."""
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


def _left_behind(script: Path) -> Iterator[str]:
    for name in sorted(_imported(script)):
        if (script.parent / f"{name}.py").is_file():
            yield f"{name}.py"
        elif (script.parent / name / "__init__.py").is_file():
            yield f"{name}/"
    if script.is_file() and (script.parent / _REQUIREMENTS).is_file():
        yield _REQUIREMENTS


def _imported(script: Path) -> set[str]:
    """Names of top-level modules, wherever in the script they are imported; none if it cannot be
    read, of which others tell."""
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
