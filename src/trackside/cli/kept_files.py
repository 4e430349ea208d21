"""Summarizes and downloads the files that a job kept from its working folder."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trackside.cli.messages import print_message
from trackside.cli.text import size
from trackside.jobs.kept_files import KeptFile
from trackside.records.event_names import is_event_file
from trackside.sdk.download import Downloaded, bring_back, unchanged_since
from trackside.sdk.job import TrainingJob
from trackside.texts.terminal_text import one_line

_MOST_NAMED = 3


def offer(job: TrainingJob) -> None:
    """One line with what was kept and how to download it; none if nothing was."""
    if files := job.kept_files():
        command = f"trackside artifacts {shlex.quote(job.name)} --download ."
        print(f"{_sentence(files)} Bring them here: {command}")


def bring_all_back(job: TrainingJob, folder: Path, began: float, *, quiet: bool = False) -> None:
    """To where the script would have written them. Files changed here since `began` stay."""
    files = job.kept_files()
    for file in files:
        copied = bring_back(file, folder, job.name, unchanged_since(began))
        if copied.existing is not None:
            print_message(conflict_text(copied))
    if quiet:
        return
    if files:
        print(f"{_sentence(files)} Brought to {one_line(str(folder))}")
    else:
        print(f"{job.name} kept no files: there is nothing to bring back.")


def summary(files: Sequence[KeptFile]) -> str:
    """`3 files kept (12.0 MB): checkpoints/last.pt, runs/exp1/…`"""
    counted = "1 file" if len(files) == 1 else f"{len(files):,} files"
    total = size(sum(file.size_bytes for file in files))
    return f"{counted} kept ({total}): {', '.join(map(one_line, _named(files)))}"


def _sentence(files: Sequence[KeptFile]) -> str:
    text = summary(files)
    return text if text.endswith("…") else f"{text}."


def conflict_text(copied: Downloaded) -> str:
    existing, path = one_line(str(copied.existing)), one_line(str(copied.path))
    return f"{existing} is another file and stays; the job's is {path}"


def _named(files: Sequence[KeptFile]) -> list[str]:
    """Files; or folders with several files or only event files."""
    of_folders = Counter(file.path.rpartition("/")[0] for file in files)
    names: dict[str, None] = {}
    for file in files:
        folder, _, name = file.path.rpartition("/")
        is_one = not folder or (of_folders[folder] == 1 and not is_event_file(name))
        names[file.path if is_one else f"{folder}/…"] = None
    return [*names][:_MOST_NAMED] + (["…"] if len(names) > _MOST_NAMED else [])
