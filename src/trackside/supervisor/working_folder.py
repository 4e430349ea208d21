"""The script's working folder: which of its files the script created, and which of those are kept.

Files are kept if they are new or changed since the baseline, which is taken after the source was
unpacked and before the script starts. `kept_sync.py` uploads them.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from pathlib import Path

from trackside.files import damaged_files, durable
from trackside.files.json_record import numbered
from trackside.files.script_folder import ScriptFolder
from trackside.quick_dataclass import dataclass
from trackside.records.event_names import is_event_file
from trackside.records.hosts import LeftOut
from trackside.supervisor.folder_scan import FileState, scan
from trackside.supervisor.ignore_patterns import IgnorePatterns

LIMIT = "TRACKSIDE_KEEP_FILES_GB"
BY_DEFAULT = "ignored by default"
IGNORE_FILE = ".tracksideignore"
_MOST_IGNORE_BYTES = 1 << 16
MOST_FILES = 10_000
"""Per host: an unpacked data set must not prevent its job from ending."""
NEVER_KEPT = (
    "__pycache__/",
    "*.pyc",
    ".git/",
    ".ipynb_checkpoints/",
    ".venv/",
    "venv/",
    "node_modules/",
    ".cache/",
    "*.egg-info/",
    # Links of wandb: to files in a run's own folder, which are kept there; and to its debug log.
    "wandb/latest-run",
    "wandb/debug*.log",
    "wandb/*/logs/debug-core.log",
)
"""Unless a line of .tracksideignore includes one again."""

_Seen = tuple[int, int, int]
"""Size, time of change and inode."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The files that existed before the script."""

    files: dict[str, _Seen] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    """The lines of .tracksideignore, so that the script cannot change them."""


def take_baseline(folder: ScriptFolder, to: Path, *, in_place: bool = False) -> None:
    """A user's own folder may hold environments and data that are ignored: with `in_place` those
    are never scanned."""
    try:
        lines = folder.read(IGNORE_FILE, _MOST_IGNORE_BYTES).decode(errors="replace").splitlines()
    except OSError:
        lines = []
    ignored = IgnorePatterns([*NEVER_KEPT, *lines])
    links: list[str] = []
    found = scan(
        folder,
        {},
        links=links,
        enters=lambda path: not in_place or not ignored.match(path, is_folder=True),
    )
    files = {path: _seen(file) for path, file in found}
    data = json.dumps(numbered(Baseline(files, links, lines))).encode()
    durable.write_bytes(to, data, lasts=False)  # not needed before there is a script


def read_baseline(path: Path) -> Baseline | None:
    """None for a script that was started without one, by an older version."""
    return damaged_files.read(Baseline, path)


class WorkingFolder:
    """Scans the folder; remembers only the last scan of `events`."""

    def __init__(
        self,
        source: ScriptFolder,
        baseline: Baseline,
        *,
        most_bytes: float,
        apart: Collection[str] = (),
        in_place: bool = False,
    ) -> None:
        """`apart` are folders below it that are stored elsewhere; `in_place` as for `Baseline`."""
        self.source = source
        self._before = baseline.files
        self._links_before = frozenset(baseline.links)
        self._ignored = IgnorePatterns([*NEVER_KEPT, *baseline.ignore])
        self._apart = frozenset(apart)
        self._most_bytes = most_bytes
        self._in_place = in_place
        self.last_made: Mapping[str, FileState] = {}
        """What `events` found, for readers of other files in the same thread."""

    def made(
        self, problems: dict[str, Exception], links: list[str] | None = None
    ) -> dict[str, FileState]:
        """Everything that the script created and that is not ignored."""
        found = scan(self.source, problems, enters=self._enters, links=links)
        return {path: file for path, file in found if self._is_made(path, file)}

    def events(self) -> dict[str, FileState]:
        """Of those, the event files: they are curves."""
        self.last_made = self.made({})
        return {path: file for path, file in self.last_made.items() if is_event_file(path)}

    def within_limit(self, made: Mapping[str, FileState]) -> dict[str, FileState]:
        """Of all others the newest that fit together, so that weights are kept before a downloaded
        data set. A large one that does not fit leaves space for smaller ones.
        """
        files = {path: file for path, file in made.items() if not is_event_file(path)}
        fitting: dict[str, FileState] = {}
        left = self._most_bytes
        for path in sorted(files, key=lambda path: files[path].mtime_ns, reverse=True):
            if files[path].size <= left and len(fitting) < MOST_FILES:
                fitting[path] = files[path]
                left -= files[path].size
        return fitting

    def left_out(self, unsent: Collection[str]) -> list[LeftOut]:
        """Everything that the script created and that is not kept, by the reason. Scans all
        folders, so it is called once, at the end.
        """
        links: list[str] = []
        made = self.made({}, links)
        enters = self._enters if self._in_place else self._is_ours
        every = dict(scan(self.source, {}, enters=enters))
        new = {path for path, file in every.items() if self._is_new(path, file)}
        files = {path for path in made if not is_event_file(path)}
        fitting = self.within_limit(made).keys()
        ignored = new - made.keys()
        by_default = set(filter(IgnorePatterns(NEVER_KEPT).covers, ignored))
        reasons: dict[str, Iterable[str]] = {
            BY_DEFAULT: by_default,
            f"ignored by {IGNORE_FILE}": ignored - by_default,
            f"beyond {self._limit}": files - fitting,
            "not followed as a link": {
                path
                for path in set(links) - self._links_before
                if not self._ignored.match(path, is_folder=False)
            },
            "not readable or storable": unsent,
        }
        found = [_counted(why, paths, every) for why, paths in reasons.items()]
        return [each for each in found if each.num_files]

    @property
    def _limit(self) -> str:
        return f"{self._most_bytes / 1e9:g} GB ({LIMIT}) or {MOST_FILES:,} files"

    def _is_made(self, path: str, file: FileState) -> bool:
        return self._is_new(path, file) and not self._ignored.match(path, is_folder=False)

    def _is_new(self, path: str, file: FileState) -> bool:
        return self._before.get(path) != _seen(file)

    def _is_ours(self, folder: str) -> bool:
        return folder not in self._apart

    def _enters(self, folder: str) -> bool:
        return self._is_ours(folder) and not self._ignored.match(folder, is_folder=True)


def _seen(file: FileState) -> _Seen:
    return file.size, file.mtime_ns, file.inode


def _counted(why: str, paths: Iterable[str], files: Mapping[str, FileState]) -> LeftOut:
    known = sorted(paths)
    size = sum(files[path].size for path in known if path in files)
    return LeftOut(why=why, num_files=len(known), size_bytes=size, example=next(iter(known), ""))
