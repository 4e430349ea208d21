"""What stays the same for all attempts of one host."""

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from trackside.journal import Journal
from trackside.layout import JobFolder
from trackside.settings import Settings
from trackside.spec import JobSpec

logger = logging.getLogger(__name__)


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

    def say(self, message: str) -> None:
        """Into the job's status. For people, so a disk too full for it ends nothing."""
        try:
            self.journal.say(message[:500])
        except OSError as error:
            logger.warning("%s (not in the journal: %s)", message, error)

    @property
    def supervisor_command(self) -> list[str]:
        """Starts this host's supervisor again."""
        arguments = [str(self.folder.root), self.host, self.nonce]
        return [sys.executable, "-P", "-m", "trackside.supervisor", *arguments]
