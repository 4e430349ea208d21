"""Every name below a job: its folder on this machine while it runs, its keys in object storage.

Submitter, supervisor, sandbox and readers agree through this module and nothing else.
"""

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.files import durable, permissions
from trackside.files.json_record import FORMAT as FORMAT  # also of all names here
from trackside.files.script_folder import ScriptFolder
from trackside.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackside.records.spec import JobSpec

ML = "/opt/ml"
"""The base folder that the script sees."""
WORKING_FOLDER = f"{ML}/code"
"""Where its script is started, with the source in it."""
TENSORBOARD = f"{ML}/output/tensorboard"
"""Where scripts write curves unless a TensorBoard output names another folder."""
CURVES_FOLDER = "tensorboard-output"
"""A job's own below the TensorBoard location."""
FIRST_HOST = "algo-1"
_GRAIN_NS = 100_000_000
"""Within which a file system may give two changes the same time."""


def sandbox_nonce(nonce: str, attempt: int) -> str:
    """Marks the processes of one host in one attempt; `nonce` is its supervisor's, from `placed`.

    Random, not derived from names: two homes on one machine may each have a job of the same name.
    """
    return f"{nonce}.{attempt}"


def safe_name(text: str) -> str:
    """A free text as one segment of a path or key."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).lstrip(".") or "-"


@dataclass(frozen=True, slots=True)
class Home:
    """TRACKSIDE_HOME."""

    root: Path

    def close_to_others(self) -> int | None:
        """Restrict a home that an older version, or another program, made accessible to its owner.
        Returns its previous mode; None when it was restricted already, or belongs to another user.
        """
        parts = (self.jobs, self.buckets, self.overlays, self.server.root, self.index)
        for part in (*parts, self.job_table, self.profiles):
            if not part.is_symlink():  # a location that the user chose
                permissions.close_to_others(part)
        if not self.root.is_dir() or self.root in (Path.home(), Path("/")):
            return None
        return permissions.close_to_others(self.root)

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    @property
    def notes_lock(self) -> Path:
        """Held while a note is added to a job that is in storage alone."""
        return self.root / "notes.lock"

    @property
    def index(self) -> Path:
        return self.root / "index.sqlite"

    @property
    def cache(self) -> Path:
        """What is made again if it is missing: it may be removed at any time."""
        return self.root / "cache"

    @property
    def packages(self) -> Path:
        """Trackside, packed for machines that have none of it: `placement/travelling_package`."""
        return self.cache / "packages"

    @property
    def job_table(self) -> Path:
        """What the table of jobs shows of those that have ended: `views/row_cache`."""
        return self.cache / "job-table.sqlite"

    @property
    def series(self) -> Path:
        """Curves as columns, a file for each job: `curves/series_store`."""
        return self.cache / "series"

    def series_of(self, job: str) -> Path:
        return self.series / f"{job}.series"

    def figures_of(self, job: str) -> Path:
        """Figures of a finished job's tensors: `views/kept_figures`."""
        return self.cache / "figures" / safe_name(job)

    @property
    def issue_states(self) -> Path:
        """Which issues people have called fixed or muted: a line each, the last of an issue
        counts."""
        return self.root / "issue-states.jsonl"

    @property
    def issue_states_lock(self) -> Path:
        """Held while a line is added to it."""
        return self.root / "issue-states.lock"

    @property
    def issues_cache(self) -> Path:
        """What the rules found in jobs that have ended: `views/findings_cache`."""
        return self.cache / "issues.sqlite"

    @property
    def buckets(self) -> Path:
        """The embedded bucket store: a folder per bucket."""
        return self.root / "buckets"

    @property
    def overlays(self) -> Path:
        """Environments made for a requirements.txt, by content."""
        return self.root / "overlays"

    def overlays_of(self, uid: int, owner: str) -> Path:
        """Those of jobs that run as another user: no owner's jobs execute what another owner's
        installed.
        """
        from hashlib import sha256  # few jobs need it

        digest = sha256(owner.encode()).hexdigest()[:16]
        return self.overlays / f"user-{uid}-{digest}"

    @property
    def ending(self) -> Path:
        """A file for each job whose end is written but may not be in storage: `pending_uploads`."""
        return self.root / "ending"

    @property
    def log_indexes(self) -> Path:
        """A folder for where the lines of finished jobs' logs are: `views/open_logs`."""
        return self.cache / "logs"

    def log_index(self, job: str, host: str, attempt: int) -> Path:
        return self.log_indexes / f"{safe_name(job)}_{safe_name(host)}_{attempt}.json"

    def log_indexes_of(self, job: str) -> "Iterator[Path]":
        """Those that are there; names of jobs have no underscore, so no other job's are."""
        return self.log_indexes.glob(f"{safe_name(job)}_*.json")

    @property
    def server(self) -> "ServerFolder":
        return ServerFolder(self.root / "server")

    @property
    def ui(self) -> Path:
        """Where the running `trackside ui` is; it holds a lock on this file."""
        return self.root / "ui.json"

    @property
    def profiles(self) -> Path:
        """The servers that this user has logged in to: `profiles`."""
        return self.root / "profiles.json"

    def jobs_changed_at(self) -> int | None:
        """When a job's folder was last added or removed, in nanoseconds: equal when none was since.

        None while that may happen again within the clock's resolution.
        """
        try:
            changed_at = self.jobs.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        return changed_at if abs(time.time_ns() - changed_at) > _GRAIN_NS else None

    def job(self, name: str) -> "JobFolder":
        return JobFolder(self.jobs / name)


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """A server's own files; `api/keys` manages the access keys in it."""

    root: Path

    @property
    def address(self) -> Path:
        """Where clients on this machine reach the server that was started last."""
        return self.root / "address.json"

    @property
    def identity(self) -> Path:
        """This home's name among those that share a database."""
        return self.root / "identity.json"

    @property
    def scheduler_lock(self) -> Path:
        """Held by the one server that starts queued jobs; its content is that server's pid."""
        return self.root / "scheduler.lock"

    @property
    def own_key(self) -> Path:
        """The key of clients on this machine, readable by its owner only."""
        return self.root / "own_key.json"

    @property
    def page_sessions(self) -> Path:
        """Who is logged in to the page: `page/sessions`."""
        return self.root / "page_sessions.json"

    @property
    def team_keys(self) -> Path:
        """Which database has the access keys, if they are not in a file of this folder."""
        return self.root / "team_keys.json"

    @property
    def logs(self) -> Path:
        """What programs wrote to log groups of their own."""
        return self.root / "logs"

    def sdk_config(self, bucket: str) -> Path:
        """The configuration for SageMaker's SDKs, with this default bucket: see `trackside env`."""
        return self.root / f"sagemaker-config.{bucket}.yaml"


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A job's folder on the machine that runs it."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "job.json"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def placed(self) -> Path:
        """Which group of hosts was placed for the job: `placed.Placed`."""
        return self.root / "placed.json"

    @property
    def group(self) -> Path:
        """Where the hosts of the group are; absent when all are on this machine: `group`."""
        return self.root / "group.json"

    @property
    def lock(self) -> Path:
        """Held by the process that starts this job's supervisors, so that no other does."""
        return self.root / ".lock"

    @property
    def hosts(self) -> Path:
        return self.root / "hosts"

    @property
    def gang(self) -> Path:
        """A folder for what the hosts of an attempt agree on, below."""
        return self.root / "gang"

    @property
    def network_lock(self) -> Path:
        """Held by a host while it creates the network of the job's containers."""
        return self.gang / "network.lock"

    def started_hosts(self, attempt: int) -> Path:
        """A folder that the attempt's containers share, with a file for each that has
        started: its address."""
        return self.gang / f"{attempt}.started"

    def meeting(self, attempt: int) -> Path:
        """What all hosts of the attempt need to know before they start."""
        return self.gang / f"{attempt}.json"

    def end_order(self, attempt: int) -> Path:
        """Why all hosts of the attempt must end; while it is absent, they continue."""
        return self.gang / f"{attempt}.end.json"

    @property
    def mirror(self) -> Path:
        """What a host that coordinates through storage must know after a restart."""
        return self.root / "mirror.json"

    def requests(self, host: str) -> Path:
        """A folder for what the host is asked to do, a file for each request."""
        return self.root / "requests" / host

    def host(self, host: str, attempt: int) -> "HostFolder":
        return HostFolder(self.hosts / host / str(attempt))

    def supervisors(self) -> list[Path]:
        """What the supervisors of all hosts and attempts have recorded about themselves."""
        return [HostFolder(path).supervisor for path in self.hosts.glob("*/*")]

    @property
    def rules(self) -> "RulesFolder":
        return RulesFolder(self.root / "rules")

    @property
    def ballast(self) -> Path:
        return self.root / durable.BALLAST

    def reserve_ballast(self) -> None:
        """Space that is freed when the disk is full, so that the job's end can still be written."""
        if self.ballast.exists():
            return
        try:
            self.ballast.write_bytes(bytes(durable.BALLAST_BYTES))
        except OSError:
            # Too late to reserve anything; half a ballast would take the space that is left.
            self.ballast.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class RulesFolder:
    """Files of the evaluator: one per job, whatever the number of hosts and attempts."""

    root: Path

    @property
    def placed(self) -> Path:
        """The intent to start the evaluator: written by the process that starts it."""
        return self.root / "placed.json"

    @property
    def evaluator(self) -> Path:
        """The evaluator's pid, start time and nonce: written by itself, and removed at its end."""
        return self.root / "evaluator.json"

    @property
    def lock(self) -> Path:
        """Held by the evaluator while it lives: of two, the later one exits."""
        return self.root / ".lock"

    @property
    def log(self) -> Path:
        return self.root / "evaluator.log"

    @property
    def statuses(self) -> Path:
        """The status of each rule: `rule_status`."""
        return self.root / "statuses.json"

    @property
    def findings(self) -> Path:
        """A line per `Finding`, append-only."""
        return self.root / "findings.jsonl"

    @property
    def actions(self) -> Path:
        """A line for each action before it is taken, and one for its result."""
        return self.root / "actions.jsonl"

    @property
    def notices(self) -> Path:
        """The same for each notification: readable by the owner only."""
        return self.root / "notices.jsonl"

    @property
    def published(self) -> Path:
        """Exists when all results of rules are in storage."""
        return self.root / "published"

    @property
    def notified(self) -> Path:
        """Exists when every notification, including that of the job's end, was delivered or given
        up.
        """
        return self.root / "notified"

    @property
    def current_rule(self) -> Path:
        """The rule that is being evaluated at this moment."""
        return self.root / "in_hand"

    @property
    def deaths(self) -> Path:
        """How many evaluators died while evaluating which rule."""
        return self.root / "deaths.json"

    @property
    def outputs(self) -> Path:
        """Files that rules produce, a folder for each; uploaded to `rule-output` of the job."""
        return self.root / "output"

    def output(self, configuration: str) -> Path:
        return self.outputs / safe_name(configuration)

    def custom(self, number: int, name: str) -> Path:
        """A folder for the source and the log of a custom rule: `number` among the job's."""
        return self.root / "custom" / f"{number}-{safe_name(name)[:40]}"


@dataclass(frozen=True, slots=True)
class HostFolder:
    """One host in one attempt."""

    root: Path

    @property
    def placed(self) -> Path:
        """What the release 0.1.0 wrote in place of the job's `placed`."""
        return self.root / "placed.json"

    @property
    def supervisor(self) -> Path:
        """The living supervisor's pid, start time and nonce: written by itself."""
        return self.root / "supervisor.json"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def record(self) -> Path:
        """The host's progress: read by the other hosts and by readers."""
        return self.root / "host.json"

    @property
    def control_group(self) -> Path:
        """Which control group its script is in, if its job requests limits."""
        return self.root / "control_group.json"

    @property
    def log(self) -> Path:
        """Everything the script wrote, byte for byte."""
        return self.root / "log"

    @property
    def log_times(self) -> Path:
        """The log's size over time: the lines' time stamps."""
        return self.root / "log.times"

    @property
    def curves(self) -> Path:
        """Event files of the supervisor's own, by run: they go where the job's curves are."""
        return self.root / "curves"

    def logger_state(self, kind: str) -> Path:
        """How far the script's logs, in files or printed, have been converted to curves."""
        return self.root / f"{kind}.json"

    @property
    def reported_metrics(self) -> Path:
        """Metrics that the script, or a client on its behalf, reports as lines of JSON."""
        return self.ml / "output" / "metrics" / "sagemaker"

    @property
    def metrics(self) -> Path:
        """A folder for the totals of `metric_totals`."""
        return self.root / "metrics"

    @property
    def packages(self) -> Path:
        """What the script could import, written by the toolkit beside `exit_record`."""
        return self.root / "packages.json"

    @property
    def environment(self) -> Path:
        """A folder for the part of it that is stored: `script_packages`."""
        return self.root / "environment"

    def machine(self, host: str) -> Path:
        """The facts of its machine, in the same folder: `machine.Machine`."""
        return self.environment / f"{host}.machine.json"

    @property
    def data_lists(self) -> Path:
        """A folder with a file per channel: `channel_data.ChannelData`."""
        return self.root / "data"

    @property
    def code(self) -> Path:
        """The script's working folder: what it sees as `WORKING_FOLDER`."""
        return self.ml / "code"

    @property
    def kept_lists(self) -> Path:
        """A folder for the list below."""
        return self.root / "kept"

    def kept_list(self, host: str) -> Path:
        """`kept_list.KeptList`; its name is different in each attempt."""
        return self.kept_lists / f"{host}.{self.root.name}.json"

    @property
    def baseline(self) -> Path:
        """What was in the working folder before the script started: `supervisor/working_folder`."""
        return self.root / "baseline.json"

    @property
    def sandbox(self) -> Path:
        return self.root / "sandbox"

    @property
    def container(self) -> Path:
        """The engine and network of a script that runs in a container; no other has it."""
        return self.sandbox / "container.json"

    @property
    def caller(self) -> Path:
        """The process that called `trackside.init`: see `attached_process`."""
        return self.sandbox / "caller.json"

    @property
    def caller_end(self) -> Path:
        """How the run of that process ended."""
        return self.sandbox / "caller.end.json"

    @property
    def caller_status(self) -> Path:
        """Its exit status, one byte, where the process could not record how its run ended."""
        return self.sandbox / "caller.status"

    @property
    def ml(self) -> Path:
        """What the script sees as /opt/ml."""
        return self.root / "ml"

    @property
    def mounts(self) -> Path:
        """The folders that the script sees outside /opt/ml, by their path below the root."""
        return self.root / "mounts"

    @property
    def private(self) -> Path:
        """Where a job that runs as another user, or in a container, writes outside of the two."""
        return self.root / "private"

    @property
    def profiler_parts(self) -> Path:
        """The profiler's file of the current minute; on the same disk as `ml`."""
        return self.root / "profiler.part"

    @property
    def exit_record(self) -> Path:
        """The script's own exit code, written by the toolkit."""
        return self.root / "script.json"

    def script_folder(self, path: Path) -> ScriptFolder:
        """One below `ml`, `mounts` or `private`, for a process that reads or writes there.

        When `ml` has another owner, its script runs as another user and may have put links there;
        one in a container may have put links there, and files of any user.
        """
        if self.container.exists():
            return ScriptFolder(path, within=self.root)
        try:
            owner = self.ml.lstat().st_uid
        except FileNotFoundError:
            owner = os.geteuid()
        if owner == os.geteuid():
            return ScriptFolder(path)
        return ScriptFolder(path, within=self.root, owner=owner)

    def working_folder(self, in_place: str | None) -> ScriptFolder:
        """The host's own copy of the code, or the user's folder that the script runs `in_place`."""
        if in_place is not None:
            return ScriptFolder(Path(in_place))
        return self.script_folder(self.code)

    def inside(self, path: str) -> Path:
        """The folder behind a path that the script sees: below `ml`, or in `mounts`."""
        if path == ML or path.startswith(ML + "/"):
            return self.ml / path[len(ML) :].strip("/")
        return self.mounts / path.strip("/")


@dataclass(frozen=True, slots=True)
class JobKeys:
    """A job's locations in object storage, as texts."""

    output: str
    name: str

    @classmethod
    def of(cls, spec: "JobSpec") -> "JobKeys":
        return cls(spec.output.uri.rstrip("/"), spec.name)

    @classmethod
    def found_at(cls, uri: str) -> "JobKeys | None":
        """The job whose spec this is; None when it is not a spec."""
        prefix, ending, rest = uri.rpartition("/trackside/job.json")
        output, slash, name = prefix.rpartition("/")
        return cls(output, name) if ending and slash and name and not rest else None

    @property
    def prefix(self) -> str:
        return f"{self.output}/{self.name}"

    @property
    def spec(self) -> str:
        return f"{self.prefix}/trackside/job.json"

    @property
    def journal(self) -> str:
        return f"{self.prefix}/trackside/journal.jsonl"

    @property
    def artifacts(self) -> str:
        """Checksums and sizes of what was published: written last."""
        return f"{self.prefix}/trackside/artifacts.json"

    @property
    def coordination(self) -> str:
        """What hosts that share no disk write for each other."""
        return f"{self.prefix}/coordination"

    @property
    def epoch(self) -> str:
        """How many groups of hosts were placed: `coordination/epoch`."""
        return f"{self.coordination}/epoch.json"

    def parts(self, epoch: int) -> str:
        """A folder per host, with its part of the results until the lead has merged them."""
        return f"{self.coordination}/{epoch}/parts"

    def part(self, epoch: int, host: str, file: str) -> str:
        return f"{self.parts(epoch)}/{host}/{file}"

    @property
    def logs(self) -> str:
        """A folder per host, with the chunks of `log_lines`."""
        return f"{self.prefix}/trackside/logs"

    @property
    def curves(self) -> str:
        """Event files of a job without a TensorBoard output."""
        return f"{self.prefix}/trackside/curves"

    @property
    def metrics(self) -> str:
        """A file per host: the totals of its metrics."""
        return f"{self.prefix}/trackside/metrics"

    @property
    def environment(self) -> str:
        """A file per host: which Python and which packages its script had; and one with the facts
        of its machine."""
        return f"{self.prefix}/trackside/environment"

    def packages(self, host: str) -> str:
        return f"{self.environment}/{host}.json"

    def machine(self, host: str) -> str:
        return f"{self.environment}/{host}.machine.json"

    @property
    def data_lists(self) -> str:
        """A file per channel: what it consisted of."""
        return f"{self.prefix}/trackside/data"

    def data_list(self, channel: str) -> str:
        return f"{self.data_lists}/{channel}.json"

    @property
    def rules(self) -> str:
        """A folder with the statuses, findings and actions of the rules."""
        return f"{self.prefix}/trackside/rules"

    @property
    def model(self) -> str:
        return f"{self.prefix}/output/model.tar.gz"

    @property
    def model_folder(self) -> str:
        """Where an uncompressed model goes, file by file."""
        return f"{self.prefix}/output/model"

    @property
    def output_data(self) -> str:
        return f"{self.prefix}/output/output.tar.gz"

    @property
    def intermediate(self) -> str:
        return f"{self.prefix}/output/intermediate"

    @property
    def files(self) -> str:
        """What the script left in its working folder: the first host's at the top."""
        return f"{self.prefix}/files"

    def files_of(self, host: str) -> str:
        return f"{self.files}/{kept_path(host, '')}".rstrip("/")

    @property
    def kept_lists(self) -> str:
        """A list per host and attempt: which event files of the working folder are curves."""
        return f"{self.prefix}/trackside/kept"

    @property
    def source(self) -> str:
        return f"{self.prefix}/source/sourcedir.tar.gz"

    @property
    def git_diff(self) -> str:
        """How tracked files differed from their commit when the job was submitted."""
        return f"{self.prefix}/source/git.diff"

    def rule_source(self, digest: str, file: str) -> str:
        """The file of a custom rule that came with the job."""
        return f"{self.prefix}/source/rules/{digest}/{file}"

    def input(self, channel: str) -> str:
        """A channel's data that was uploaded for the job."""
        return f"{self.prefix}/input/{channel}"

    def under(self, uri: str, folder: str) -> str:
        """A folder of this job below another location, such as the TensorBoard one's."""
        return f"{uri.rstrip('/')}/{self.name}/{folder}"


def kept_path(host: str, path: str) -> str:
    """The path of a host's file among all that a job keeps: the first host's at the top, others' in
    a folder of the host's name.
    """
    return path if host == FIRST_HOST else f"{host}/{path}"


def curves_of(spec: "JobSpec", keys: JobKeys | None = None) -> str:
    """Where all curves of a job are: the script's, those from its log, and the machine's.

    `keys` if the job was found at another location than in its spec.
    """
    keys = keys or JobKeys.of(spec)
    if spec.tensorboard is None:
        return keys.curves
    return keys.under(spec.tensorboard.uri, CURVES_FOLDER)


def tensors_of(spec: "JobSpec", keys: JobKeys | None = None) -> str | None:
    """Where the hook's tensors are; None when it was not requested. `keys` as for `curves_of`."""
    if spec.debug_hook is None:
        return None
    return (keys or JobKeys.of(spec)).under(spec.debug_hook.uri, "debug-output")


def profile_of(spec: "JobSpec") -> str | None:
    """Where the profiler's files go; None when no profile was requested."""
    if spec.profiler is None or spec.profiler.disabled:
        return None
    return JobKeys.of(spec).under(spec.profiler.uri or spec.output.uri, "profiler-output")
