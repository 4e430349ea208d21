"""The job that rules watch, as its evaluator sees it: where it stands and where its data is."""

import os
from itertools import chain, count
from pathlib import Path

from trackside.coordination.choose import coordination_of
from trackside.coordination.coordination import Request
from trackside.coordination.host_files import files_of, record_of
from trackside.records.death import Cause, may_try_again
from trackside.records.finding import RuleKey
from trackside.records.hosts import Phase
from trackside.records.job_updates import with_updates
from trackside.records.journal import History, Journal
from trackside.records.layout import JobFolder, JobKeys, curves_of, profile_of, safe_name
from trackside.records.owners import Submitter
from trackside.records.spec import JobSpec, RuleConfiguration
from trackside.records.status import Secondary, Status
from trackside.settings import Settings
from trackside.storage.locate import Location, locate


class WatchedJob:
    """`refresh` first; in between, results stay the same."""

    def __init__(self, folder: JobFolder, spec: JobSpec, settings: Settings) -> None:
        """`spec` as it was submitted."""
        self.folder = folder
        self._asked = spec
        self.settings = settings
        self.keys = JobKeys.of(spec)
        self._journal_path = folder.journal
        self.journal = Journal(self._journal_path)
        self._seen: tuple[int, int] | None = None
        self._take(self.journal.read())

    def refresh(self) -> bool:
        """Read the journal again if it has changed, and say so."""
        status = self._journal_path.stat()
        seen = (status.st_size, status.st_mtime_ns)
        if seen == self._seen:
            return False
        self._take(self.journal.read())
        self._seen = seen
        return True

    def _take(self, history: History) -> None:
        now = with_updates(self._asked, history)
        self.history, self.spec, self.stopped_rules = history, now.spec, now.stopped_rules

    @property
    def attempt(self) -> int:
        return self.history.attempt

    @property
    def is_over(self) -> bool:
        """Its scripts have ended, and no other attempt will follow: all its data is there."""
        state = self.history.state
        if state.is_final:
            return True
        if self._may_start_again:  # an attempt that is lost uploads, too, before the next begins
            return False
        return state.secondary is Secondary.UPLOADING and all(map(self._has_ended, self.spec.hosts))

    @property
    def _may_start_again(self) -> bool:
        """Whether the lead may still decide on another attempt, after some of the ways to end."""
        if self.history.state.status is not Status.IN_PROGRESS:
            return False
        earlier, most = self.history.earlier_deaths, self.spec.max_attempts
        ways = (Cause.SIGNAL, Cause.NODE_LOST)
        return any(may_try_again(cause, earlier, most) for cause in ways)

    @property
    def was_stopped(self) -> bool:
        """It was asked to end before it did so by itself."""
        return self.history.state.status in (Status.STOPPING, Status.STOPPED)

    @property
    def came_through_server(self) -> bool:
        """Then its submitter is not the one whose machine it is."""
        return bool(Submitter.of(self.history).key)

    @property
    def is_stranger(self) -> bool:
        """Its submitter may not do all that our user may: it came through a server, or its script
        runs as another user."""
        return self.came_through_server or bool(self.history.run_as.user)

    @property
    def rules(self) -> list[tuple[bool, RuleConfiguration]]:
        """In the order of the request, each with whether it is a profiler rule."""
        tensor, profiler = self.spec.debug_rules, self.spec.profiler_rules
        return [*((False, each) for each in tensor), *((True, each) for each in profiler)]

    @property
    def output_names(self) -> dict[RuleKey, str]:
        """Of each rule the folder for what it leaves below `rule-output`: named after it, and
        its own, though a tensor rule and a profiler rule may have the same name."""
        names: dict[RuleKey, str] = {}
        for is_profiler, rule in self.rules:
            name = safe_name(rule.name)
            others = (f"{name}.{number}" for number in count(2))
            wanted = chain([name], [f"{name}.profiler"] if is_profiler else [], others)
            if (is_profiler, rule.name) not in names:
                taken = set(names.values())
                names[is_profiler, rule.name] = next(each for each in wanted if each not in taken)
        return names

    def earlier_trial(self, attempt: int) -> Location | None:
        """What an attempt that is over has saved, where it has a folder of its own that is still
        there."""
        hook = self.spec.debug_hook
        local = None if hook is None else self._only_folder(hook.local_path, attempt)
        if local is None or not local.is_dir():
            return None
        return locate(local, home=self.settings.home)

    def trial(self) -> Location | None:
        """Where the tensors are; None for a job that saves none.

        The folder the hook writes to, which is ahead of its copy in storage. Several hosts have
        several such folders, perhaps on several machines, and one place in storage; and in the
        folder of a job that runs as another user may be links.
        """
        hook = self.spec.debug_hook
        if hook is None:
            return None
        local = self.trial_folder()
        if local is not None:
            return locate(local, home=self.settings.home)
        return locate(self.keys.under(hook.uri, "debug-output"), home=self.settings.home)

    def trial_folder(self) -> Path | None:
        """The hook's own folder, where it is the only one of the job and still there."""
        hook = self.spec.debug_hook
        return None if hook is None else self._only_folder(hook.local_path)

    def ask_hosts(self, what: str) -> None:
        """Request something of every host."""
        lead, *_ = self.spec.hosts
        coordination = coordination_of(self.folder, self.spec, lead, self.attempt, self.settings)
        for host in self.spec.hosts:
            coordination.request(Request(os.urandom(8).hex(), what, host))

    def curves(self) -> Location:
        """Where the script's own curves are, all of them, while it runs too."""
        return locate(curves_of(self.spec, self.keys), home=self.settings.home)

    def profile(self) -> Location | None:
        """Where the machine's figures are; likewise."""
        stored = profile_of(self.spec)
        if stored is None or self.spec.profiler is None:
            return None
        local = self._only_folder(self.spec.profiler.local_path)
        return locate(local or stored, home=self.settings.home)

    def _only_folder(self, seen_as: str, attempt: int | None = None) -> Path | None:
        if len(self.spec.hosts) > 1 or self.history.run_as.user:
            return None
        host = files_of(self.folder, self.spec.hosts[0], attempt or self.attempt)
        local = host.inside(seen_as)
        # A job that succeeded has freed its space; one that has just started will use it.
        return local if local.is_dir() or not self.history.state.is_final else None

    def _has_ended(self, host: str) -> bool:
        record = record_of(self.folder, host, self.attempt)
        return record is not None and record.phase is Phase.ENDED
