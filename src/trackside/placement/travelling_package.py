"""Trackside and what it imports, as one file for machines that have none of it.

It has the submitter's own versions. Compiled parts are of the submitter's system and Python; a host
that differs in one of them uses what is installed there.
"""

import hashlib
import importlib.metadata
import io
import platform
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import trackside
from trackside.files import durable
from trackside.files.permissions import make_folder
from trackside.quick_dataclass import dataclass

OWN, OTHERS = "own", "others"
"""The folders in it: of Trackside, and of the packages that it needs. A host's own come before the
latter, so that scripts see no other versions there than without Trackside."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Package:
    key: str
    """Of the content: the same for the same versions."""
    path: Path
    fits: str
    """The system and Python that it is for."""


def kind_of_system() -> str:
    return f"{sys.platform}-{platform.machine()}-{sys.version_info[0]}.{sys.version_info[1]}"


def packed(folder: Path) -> Package:
    """The package, made below this folder unless it is there already."""
    members = {**_own(), **_others()}
    digest = hashlib.sha256(kind_of_system().encode())
    for name, path in sorted(members.items()):
        digest.update(f"{name}\0".encode() + _content_mark(name, path))
    key = digest.hexdigest()[:24]
    target = folder / f"{key}.zip"
    if not target.exists():
        make_folder(folder)
        for other in folder.glob("*.zip"):  # of a version before
            other.unlink(missing_ok=True)
        durable.write_bytes(target, _zipped(members))
    return Package(key, target, kind_of_system())


def _content_mark(name: str, path: Path) -> bytes:
    """An installed package does not change under one version; a clone of Trackside does."""
    if name.startswith(OWN):
        return hashlib.sha256(path.read_bytes()).digest()
    return str(path.stat().st_size).encode()


def _zipped(members: dict[str, Path]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in members.items():
            archive.write(path, name)
    return content.getvalue()


def _own() -> dict[str, Path]:
    root = Path(trackside.__file__).parent
    return {
        f"{OWN}/{root.name}/{path.relative_to(root)}": path
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _others() -> dict[str, Path]:
    found = {}
    for distribution in _needed_distributions():
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            is_code = ".." not in file.parts and "__pycache__" not in file.parts
            if is_code and path.is_file():
                found[f"{OTHERS}/{file}"] = path
    return found


def _needed_distributions() -> Iterator[importlib.metadata.Distribution]:
    """Of Trackside's dependencies and of theirs, those that are installed; no extras."""
    names, seen = [trackside.__name__], {trackside.__name__}
    while names:
        name = names.pop()
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if name != trackside.__name__:
            yield distribution
        for line in distribution.requires or ():
            match = _NAME.match(line)
            if match and "extra ==" not in line and match[0].lower() not in seen:
                seen.add(match[0].lower())
                names.append(match[0])
