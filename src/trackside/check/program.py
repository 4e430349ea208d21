"""The files of a script: the one that is started, and the modules beside it that it imports.

Nothing is imported or run; a file that cannot be parsed is reported, and left out.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trackside.errors import InputError

MOST_FILES = 200
MOST_BYTES = 1 << 20
_COMMENT = re.compile(r"#[^\n]*")
_IGNORED = re.compile(r"#\s*trackside:\s*ignore(?:\[(?P<names>[\w, ]*)\])?")


@dataclass(frozen=True, slots=True)
class Module:
    """One parsed file; `names` has what its imports are called: `{"F": "torch.nn.functional"}`."""

    path: str
    """As messages have it: relative to the script's folder."""
    tree: ast.Module
    names: Mapping[str, str]
    ignored: Mapping[int, frozenset[str]]
    """Lines with a comment `# trackside: ignore[Rule]`; an empty set stands for all rules."""
    comments: str = ""
    """All of them."""

    def definitions(self) -> dict[str, ast.FunctionDef | ast.ClassDef]:
        found: dict[str, ast.FunctionDef | ast.ClassDef] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = node
        return found


@dataclass(slots=True)
class Program:
    """All modules that were read, by the name that an import has for them."""

    entry: Module
    modules: dict[str, Module] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    """Files that could not be read, in words."""


TextOf = Callable[[str], str | None]
"""The text of a file, by its path relative to the script's folder; None if there is none.
`OSError` or `ValueError` if it cannot be read."""


def read_program(script: Path) -> Program:
    """`InputError` if the script itself cannot be read or parsed."""

    def text_of(path: str) -> str | None:
        place = script.parent / path
        return _text(place) if place.is_file() else None

    try:
        return program_of(script.name, text_of)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The script {str(script)!r} cannot be read: {error}.") from error
    except SyntaxError as error:
        raise InputError(f"{script}:{error.lineno}: {error.msg}. Python cannot run it.") from error


def program_of(entry: str, text_of: TextOf) -> Program:
    """Raises what `text_of` does, and `SyntaxError`, for the script itself."""
    text = text_of(entry)
    if text is None:
        raise FileNotFoundError(f"no file {entry!r}")
    program = Program(parse(entry, text))
    waiting = [program.entry]
    while waiting and len(program.modules) < MOST_FILES:
        for name, path in _imported(waiting.pop()):
            if name not in program.modules and (module := _read(path, text_of, program)):
                program.modules[name] = module
                waiting.append(module)
    return program


def parse(path: str, text: str) -> Module:
    """`SyntaxError` if it is not Python."""
    tree = ast.parse(text, path)
    comments = "\n".join(_COMMENT.findall(text))
    return Module(path, tree, dict(_imports(tree)), dict(_ignored(text)), comments)


def _read(path: str, text_of: TextOf, program: Program) -> Module | None:
    try:
        text = text_of(path)
        return None if text is None else parse(path, text)
    except (OSError, ValueError, SyntaxError) as error:
        program.troubles.append(f"{path} is left out: {error}")
        return None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"it is larger than {MOST_BYTES >> 20} MiB")
    return data.decode()


def _imported(module: Module) -> Iterator[tuple[str, str]]:
    """Where modules of the script would be, if they are not of a package that is installed."""
    for target in sorted({*module.names.values()}):
        parts = target.split(".")
        for length in range(len(parts), 0, -1):
            name, place = ".".join(parts[:length]), "/".join(parts[:length])
            yield from ((name, f"{place}.py"), (name, f"{place}/__init__.py"))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    (alias.name if alias.asname else alias.name.partition(".")[0]),
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _ignored(text: str) -> Iterator[tuple[int, frozenset[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := _IGNORED.search(line):
            names = found["names"] or ""
            yield number, frozenset(name.strip() for name in names.split(",") if name.strip())
