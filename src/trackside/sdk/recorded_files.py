"""Files that are stored with a job to show later what it was made of, by where they are stored:
how its code differed from its commit, and the script of a job that runs in place.
"""

import os
from pathlib import Path

from trackside.errors import ArchiveError
from trackside.records.layout import JobKeys
from trackside.sdk.git_state import GitReader
from trackside.sdk.source import Source

MOST_SCRIPT_BYTES = 1 << 20


def git_diff(keys: JobKeys, git: GitReader) -> dict[str, bytes]:
    diff = git.diff()
    return {keys.git_diff: diff} if diff else {}


def script_alone(keys: JobKeys, script: Path | None) -> dict[str, bytes]:
    """Packed as the source of other jobs is; the files beside it are not stored."""
    if script is None or not os.path.isfile(script):
        return {}
    try:
        if script.stat().st_size > MOST_SCRIPT_BYTES:
            return {}
        return {keys.source: b"".join(Source(script.name, parts=(script,)).pack())}
    except (OSError, ArchiveError):
        return {}
