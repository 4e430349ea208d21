"""What stays the same for all attempts of one host."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from trackside.journal import Journal
from trackside.layout import JobFolder
from trackside.settings import Settings
from trackside.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Context:
    folder: JobFolder
    spec: JobSpec
    host: str
    nonce: str
    settings: Settings
    environ: Mapping[str, str]
    """The environment the submitter gave us; never written to disk."""

    @property
    def journal(self) -> Journal:
        return Journal(self.folder.journal)

    @property
    def supervisor_command(self) -> list[str]:
        """Starts this host's supervisor again."""
        arguments = [str(self.folder.root), self.host, self.nonce]
        return [sys.executable, "-P", "-m", "trackside.supervisor", *arguments]
