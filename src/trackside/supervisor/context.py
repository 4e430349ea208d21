"""What stays the same for all attempts of one host."""

import logging
import sys
from collections.abc import Mapping

from trackside.quick_dataclass import dataclass
from trackside.records.group import GroupRecord, group_of
from trackside.records.journal import Journal
from trackside.records.layout import JobFolder
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.supervisor.engine_notice import EngineNotice
from trackside.system.job_environment import of_server, of_submitter
from trackside.system.wake_ups import WakeUps

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Context:
    folder: JobFolder
    spec: JobSpec
    host: str
    nonce: str
    settings: Settings
    environ: Mapping[str, str]
    """The environment from the submitter or the server; never written to disk."""
    is_of_server: bool = False
    """Whether the job came through a server: then the environment is not its submitter's."""
    wake: WakeUps | None = None
    """Cuts the supervisor's pauses short, if it can be woken."""
    notice: EngineNotice | None = None
    """Where an engine may take back this host's machine."""

    @property
    def script_environ(self) -> dict[str, str]:
        """The part of it that the script gets."""
        if self.is_of_server:
            return of_server(self.environ, self.settings.job_variables.split(","))
        return of_submitter(self.environ)

    @property
    def group(self) -> GroupRecord:
        """Where the job's hosts are."""
        return group_of(self.folder, self.spec.hosts)

    @property
    def journal(self) -> Journal:
        return Journal(self.folder.journal)

    def say(self, message: str) -> None:
        """Set the job's status message. For users, so a disk too full for it ends nothing."""
        try:
            self.journal.say(message[:500])
        except OSError as error:
            logger.warning("%s (not in the journal: %s)", message, error)

    @property
    def supervisor_command(self) -> list[str]:
        """Starts this host's supervisor again."""
        arguments = [str(self.folder.root), self.host, self.nonce]
        return [sys.executable, "-P", "-m", "trackside.supervisor", *arguments]
