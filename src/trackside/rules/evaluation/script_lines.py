"""Where in a job's script its findings are: the lines at which reading it shows the same faults."""

from functools import cached_property
from typing import TYPE_CHECKING

from trackside.coordination.host_files import files_of
from trackside.rules.watched_job import WatchedJob

if TYPE_CHECKING:
    from trackside.check.program import TextOf

_MOST_BYTES = 200_000
"""Of the script and the modules beside it: more would take noticeable time."""


class ScriptLines:
    """The script is read once, when a rule has found something."""

    def __init__(self, job: WatchedJob) -> None:
        self._job = job

    def of(self, rule: str) -> str:
        """`train.py:31`; empty if reading does not show this rule's fault."""
        return self._first.get(rule, "")

    @cached_property
    def _first(self) -> dict[str, str]:
        """By rule the first line. Empty if there is no script of Python, or none that can be read:
        jobs run other programs, too."""
        script = self._job.spec.entry_point or ""
        if not script.endswith(".py"):
            return {}
        from trackside.check.check import check_program  # only where something was found
        from trackside.check.program import program_of

        try:
            found = check_program(program_of(script, self._text_of()))
        except (OSError, ValueError, SyntaxError, RecursionError):
            return {}
        return {each.rule: f"{each.path}:{each.line}" for each in reversed(found)}

    def _text_of(self) -> "TextOf":
        spec = self._job.spec
        host = files_of(self._job.folder, spec.hosts[0], self._job.attempt)
        folder = host.working_folder(spec.options.in_place)
        left = _MOST_BYTES

        def text_of(path: str) -> str | None:
            nonlocal left
            try:
                data = folder.read(path, left + 1)
            except (FileNotFoundError, NotADirectoryError):
                return None
            if len(data) > left:
                raise ValueError(f"the script has more than {_MOST_BYTES:,} bytes")
            left -= len(data)
            return data.decode()

        return text_of
