"""How much of the machine a script may use: what its job asks for, kept by the kernel.

Each host has a control group. Where none can be made, what was asked for is only counted, by a
server's queue, and the host's record says so.
"""

from dataclasses import asdict

from trackside.files import damaged_files, durable
from trackside.records.layout import HostFolder
from trackside.records.spec import Options
from trackside.system import control_group
from trackside.system.control_group import ControlGroup

GIB = 1 << 30
_PREFIX = "trackside-job-"


class ScriptLimits:
    """Of one host in one attempt; all methods do nothing for a job that asks for nothing."""

    def __init__(self, options: Options, folder: HostFolder, nonce: str) -> None:
        """`nonce` names the group: no other sandbox has the same."""
        self._cores, self._memory_gb = options.cores, options.memory_gb or None
        self._path = folder.control_group
        self._name = _PREFIX + nonce
        self._group = damaged_files.read(ControlGroup, self._path) if self._is_wanted else None

    @property
    def folders(self) -> tuple[str, ...]:
        """Of the groups that the script is to be in."""
        return () if self._group is None else tuple(self._group.folders)

    def begin(self) -> str:
        """Before the script starts: make its group. What is to be told of that."""
        if not self._is_wanted:
            return ""
        if self._group is None:
            self._group = self._made()
            durable.write_json(self._path, asdict(self._group))
        kept = {
            f"{self._cores} core{'s' * (self._cores != 1)}": (self._cores, self._group.cpu),
            f"{self._memory_gb} GB of memory": (self._memory_gb, self._group.memory),
        }
        asked = {text: folder for text, (value, folder) in kept.items() if value}
        enforced = " and ".join(text for text, folder in asked.items() if folder)
        counted = " and ".join(text for text, folder in asked.items() if not folder)
        told = [f"Limited to {enforced}."] if enforced else []
        if counted:
            told.append(f"{counted}: counted, not enforced, as no control group can be made here.")
        return " ".join(told)

    def exceeded(self) -> str:
        """A sentence about a script that was ended because it used too much; else empty."""
        if self._group is None or not self._group.memory or not self._group.num_killed:
            return ""
        return (
            f"OutOfMemory: the script used more than the limit of {self._memory_gb} GB of memory "
            "that its job asked for, and the kernel killed it. "
        )

    def end(self) -> None:
        """The script is over. Whoever it left behind goes, too."""
        if self._group is not None:
            self._group.remove()

    @property
    def _is_wanted(self) -> bool:
        return bool(self._cores or self._memory_gb)

    def _made(self) -> ControlGroup:
        memory = self._memory_gb and self._memory_gb * GIB
        group = control_group.make(self._name, memory_bytes=memory, num_cores=self._cores)
        if control_group.can_join(group):
            return group
        group.remove()
        return ControlGroup()
