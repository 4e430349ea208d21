"""What `trackside --version` prints: version, commit, Python, and which extras are installed.

The commit is that of the build, or of the clone that an editable installation runs from.
"""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import trackside

PACKAGE = Path(trackside.__file__).parent
EXTRAS = {
    "analysis": ("matplotlib", "pandas", "polars"),
    "demo": ("sklearn", "tensorboard", "torch"),
    "gpu": ("pynvml",),
    "kubernetes": ("kubernetes",),
    "mcp": ("mcp",),
    "postgres": ("psycopg",),
    "ray": ("ray",),
    "server": ("awscrt", "cryptography", "prometheus_client", "starlette", "uvicorn"),
    "tensorboard": ("tensorboard",),
    "ui": ("starlette", "uvicorn"),
}
"""The modules of each extra in pyproject.toml beyond Trackside's own dependencies."""
_SHOWN_DIGITS = 7
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def describe() -> str:
    """One line, without importing any of the extras."""
    installed = [extra for extra, modules in EXTRAS.items() if all(map(find_spec, modules))]
    missing = [extra for extra in EXTRAS if extra not in installed]
    python = ".".join(map(str, sys.version_info[:3]))
    parts = [f"commit {commit() or 'unknown'}, Python {python}"]
    parts += [f"extras: {', '.join(installed)}"] if installed else []
    parts += [f"without: {', '.join(missing)}"] if missing else []
    return f"trackside {trackside.__version__} ({'; '.join(parts)})"


def commit(package: Path = PACKAGE) -> str:
    """Shortened; empty if neither a build nor a clone has one."""
    try:
        full, _, note = (package / "commit.txt").read_text().strip().partition(" ")
    except OSError:
        is_clone = package.parent.name == "src"  # not below another project's `.git`
        full, note = _checked_out(package.parents[1]) if is_clone else "", ""
    return " ".join(filter(None, (full[:_SHOWN_DIGITS], note)))


def _checked_out(clone: Path) -> str:
    """The commit of a clone or worktree, from the files below `.git`: git itself takes longer."""
    try:
        folder = _git_folder(clone / ".git")
        head = (folder / "HEAD").read_text().strip()
        if head.startswith("ref: "):
            head = _commit_of(head.removeprefix("ref: "), folder)
    except OSError:
        return ""
    return head if _COMMIT.fullmatch(head) else ""


def _git_folder(path: Path) -> Path:
    """A worktree has a file instead, which names the folder."""
    if path.is_dir():
        return path
    return path.parent / path.read_text().strip().removeprefix("gitdir: ")


def _commit_of(ref: str, folder: Path) -> str:
    shared = folder
    if (folder / "commondir").exists():
        shared = folder / (folder / "commondir").read_text().strip()
    for parent in (folder, shared):
        if (parent / ref).is_file():
            return (parent / ref).read_text().strip()
    packed = (shared / "packed-refs").read_text()
    found = re.search(rf"^([0-9a-f]+) {re.escape(ref)}$", packed, re.MULTILINE)
    return found[1] if found else ""
