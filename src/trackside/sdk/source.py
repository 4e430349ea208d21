"""The user's code: checked before anything is created, then packed as sourcedir.tar.gz.

The toolkit unpacks it in the job; `trackside.files.archive` compresses.
"""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trackside.errors import InvalidSpec, Violation
from trackside.files import archive
from trackside.quick_dataclass import dataclass
from trackside.sdk.locations import is_remote

ENTRY_POINT = r"[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*"
"""The names the toolkit accepts."""

LEFT_OUT = frozenset(
    {
        ".DS_Store",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        "__pycache__",
        "node_modules",
    }
)
"""Never packed, wherever they are; nor is a virtual environment, recognized by its pyvenv.cfg."""

IGNORE_FILE = ".tracksideignore"
"""Packed along with a single script: it names the outputs that are not kept."""

PathText = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Source:
    """What a job runs: a program in files of this machine, or in an archive elsewhere."""

    program: str
    """The entry point relative to the code folder; empty when it is not a file."""
    uri: str | None = None
    """An existing archive; nothing is packed then."""
    parts: tuple[Path, ...] = ()
    """Folders whose content goes to the archive's root, and single files."""
    named: tuple[Path, ...] = ()
    """Dependencies: files and folders that keep their own name in the archive."""
    in_place: Path | None = None
    """The folder that the program runs in; nothing is packed then."""

    def pack(self, leave_out: Sequence[Path] = ()) -> Iterator[bytes]:
        """The archive's bytes, without `LEFT_OUT` and without the folders of `leave_out`."""
        skipped = frozenset(os.path.realpath(path) for path in leave_out)
        members = [*_members(self.parts, skipped, named=False)]
        members += _members(self.named, skipped, named=True)
        return archive.pack(members)


def find_source(
    entry_point: PathText,
    source_dir: PathText | None = None,
    dependencies: Sequence[PathText] = (),
    *,
    check_syntax: bool = True,
) -> Source:
    """Find the code. `InvalidSpec` names everything that would prevent the job from starting."""
    program = os.fspath(entry_point)
    if source_dir is not None and is_remote(source_dir):
        return _remote(_normal(program), os.fspath(source_dir), dependencies)
    violations, named = _dependencies(dependencies)
    if source_dir is None:
        script = Path(os.path.abspath(os.path.expanduser(program)))
        ignore = script.with_name(IGNORE_FILE)
        parts = (script, ignore) if ignore.is_file() else (script,)
        source = Source(script.name, parts=parts, named=named)
    else:
        folder = Path(os.path.abspath(os.path.expanduser(source_dir)))
        source = Source(_inside(program, folder), parts=(folder,), named=named)
        script = folder / source.program
        if not folder.is_dir():
            advice = "is not a folder on this machine"
            raise InvalidSpec([*violations, Violation("source_dir", str(source_dir), advice)])
    violations += _problems(source.program, script, given=program, check_syntax=check_syntax)
    if violations:
        raise InvalidSpec(violations)
    return source


def find_folder(source_dir: PathText | None, dependencies: Sequence[PathText] = ()) -> Source:
    """The same for a module or a command, which runs in a folder: the current one by default."""
    if source_dir is not None and is_remote(source_dir):
        return _remote("", os.fspath(source_dir), dependencies)
    folder = Path(os.path.abspath(os.path.expanduser(source_dir or ".")))
    violations, named = _dependencies(dependencies)
    if not folder.is_dir():
        advice = "is not a folder on this machine"
        violations.append(Violation("source_dir", str(source_dir), advice))
    if violations:
        raise InvalidSpec(violations)
    return Source("", parts=(folder,), named=named)


def in_place(source: Source) -> Source:
    """The same program, run in its folder itself."""
    [folder] = source.parts
    return replace(source, parts=(), in_place=folder)


def _dependencies(given: Sequence[PathText]) -> tuple[list[Violation], tuple[Path, ...]]:
    named = tuple(Path(os.path.abspath(os.path.expanduser(path))) for path in given)
    missing = [str(path) for path in named if not path.exists()]
    advice = "does not exist on this machine"
    return [Violation("dependencies", path, advice) for path in missing], named


def _remote(program: str, uri: str, dependencies: Sequence[PathText]) -> Source:
    violations = [*_name_problems(program)] if program else []
    if not uri.endswith(".tar.gz"):
        violations.append(Violation("source_dir", uri, "must name a .tar.gz when it is a URI"))
    if dependencies:
        advice = f"cannot be added to the archive {uri!r}; put them into it"
        violations.append(Violation("dependencies", [*map(str, dependencies)], advice))
    if violations:
        raise InvalidSpec(violations)
    return Source(program, uri=uri)


def _normal(program: str) -> str:
    """`./train.py` is what shells complete to; the toolkit's rule knows only `train.py`."""
    return os.path.normpath(program) if program else ""


def _inside(program: str, folder: Path) -> str:
    """The program relative to the folder if it is inside; otherwise unchanged."""
    program = os.path.expanduser(program)
    if os.path.isabs(program):
        relative = os.path.relpath(program, folder)
        return program if relative.startswith("..") else relative
    return _normal(program)


def _problems(program: str, script: Path, *, given: str, check_syntax: bool) -> Iterator[Violation]:
    names = [*_name_problems(program)]
    if names and not script.is_dir():
        yield from names
    elif script.is_dir():
        yield Violation("entry_point", given, _folder(script))
    elif not script.is_file():
        yield Violation("entry_point", given, _missing(script, given))
    elif script.suffix == ".ipynb":
        yield Violation("entry_point", given, _notebook(script))
    elif check_syntax and script.suffix == ".py":
        yield from _syntax_problems(script, given)


def _name_problems(program: str) -> Iterator[Violation]:
    if program.startswith(("..", "/")):
        advice = "must lie inside source_dir, and is named relative to it"
        yield Violation("entry_point", program, advice)
    elif not re.fullmatch(ENTRY_POINT, program):
        wrong = sorted(set(re.sub("[A-Za-z0-9._+/-]", "", program)))
        reason = f"has {' '.join(map(repr, wrong))} in it" if wrong else "is not a plain file name"
        yield Violation(
            "entry_point",
            program,
            f"{reason}; use letters, digits and . _ + - in each part of the path",
        )


def _folder(folder: Path) -> str:
    scripts = _scripts(folder)
    named = f". Scripts there: {', '.join(scripts)}" if scripts else ""
    return f"is a folder. Name the script in it, and the folder as source_dir{named}"


def _notebook(script: Path) -> str:
    return (
        "is a notebook, and jobs run scripts. `jupyter nbconvert --to script` makes one of it:"
        f" {script.with_suffix('.py').name}"
    )


def _missing(script: Path, given: str) -> str:
    folder = script.parent
    advice = f"does not exist: there is no {str(script)!r}"
    # The most common mistake: the path is relative to here although source_dir is given too.
    if os.path.isfile(given) and not os.path.isabs(given):
        return f"{advice}. It is named relative to source_dir: write {os.path.basename(given)!r}"
    scripts = _scripts(folder)
    return advice + (f". Scripts there: {', '.join(scripts)}" if scripts else "")


def _scripts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.py"))[:5] if folder.is_dir() else []


def _syntax_problems(script: Path, given: str) -> Iterator[Violation]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own warnings appear in its log
            compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
    except SyntaxError as failure:
        at = f"{script}:{failure.lineno or 1}"
        yield Violation("entry_point", given, f"is not valid Python: {at}: {failure.msg}")
    except ValueError as failure:  # a NUL byte
        yield Violation("entry_point", given, f"is not valid Python: {script}: {failure}")


def _members(
    roots: Sequence[Path], skipped: frozenset[str], *, named: bool
) -> Iterator[archive.Source]:
    for root in roots:
        if root.is_dir():
            yield from _walk(root, root.name if named else "", skipped, (os.path.realpath(root),))
        else:
            yield archive.Source(root)


def _walk(
    folder: Path, into: str, skipped: frozenset[str], above: tuple[str, ...]
) -> Iterator[archive.Source]:
    """Links are followed, as their targets do not exist where the job runs; never in a circle."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name in LEFT_OUT:
            continue
        if not entry.is_dir():
            if entry.is_file():
                yield archive.Source(Path(entry.path), into=into)
            continue
        real = os.path.realpath(entry.path)
        is_environment = os.path.exists(os.path.join(real, "pyvenv.cfg"))
        if real not in skipped and real not in above and not is_environment:
            inner = f"{into}/{entry.name}" if into else entry.name
            yield from _walk(Path(entry.path), inner, skipped, (*above, real))
