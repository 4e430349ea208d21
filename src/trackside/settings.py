"""Settings from environment variables, read once. docs/settings.md lists them all."""

import os
from collections.abc import Mapping
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any

from trackside.errors import InvalidSetting
from trackside.files.permissions import keep_private
from trackside.quick_dataclass import dataclass
from trackside.records.layout import Home
from trackside.texts.secret_names import hidden

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
"""Which GPUs a host's processes may use."""
EMBEDDED = "embedded"
"""The value of TRACKSIDE_URL that disables servers, even if a profile is stored."""

INTERNAL = frozenset(
    {
        "TRACKSIDE_ARGUMENT_ORDER",
        "TRACKSIDE_BUILD_PAGE",
        "TRACKSIDE_AUDIT_PLAN",
        "TRACKSIDE_CAPTURE",
        "TRACKSIDE_CAPTURE_AGE",
        "TRACKSIDE_EXIT_RECORD",
        "TRACKSIDE_FINDING",
        "TRACKSIDE_GROUP",
        "TRACKSIDE_GROUP_ADDRESSES",
        "TRACKSIDE_GROUP_ENDS",
        "TRACKSIDE_GROUP_FILE",
        "TRACKSIDE_GROUP_INTERFACE",
        "TRACKSIDE_GROUP_NOTICE",
        "TRACKSIDE_HANG_SECONDS",
        "TRACKSIDE_HOSTS_SHARED_MACHINE",
        "TRACKSIDE_HOST_WAIT_SECONDS",
        "TRACKSIDE_JOB",
        "TRACKSIDE_KEEP_BAKED_CODE",
        "TRACKSIDE_MESSAGE",
        "TRACKSIDE_NONCE",
        "TRACKSIDE_HOSTS_FOLDER",
        "TRACKSIDE_LIBRARY",
        "TRACKSIDE_OVERLAYS",
        "TRACKSIDE_REQUIRE",
        "TRACKSIDE_RULE",
        "TRACKSIDE_S3",
        "TRACKSIDE_SCRIPT_VARIABLES",
        "TRACKSIDE_SOURCE_IN_PLACE",
        "TRACKSIDE_STEP",
        "TRACKSIDE_TENSOR",
        "TRACKSIDE_LINE",
        "TRACKSIDE_THRESHOLD",
        "TRACKSIDE_UMASK",
        "TRACKSIDE_VALUE",
    }
)
"""Set by Trackside for the processes it starts, by the tests, or read by storage or a build."""


DEFAULT_OUTPUT = "s3://trackside"
LEASE_SECONDS = 600.0
HEARTBEAT_SECONDS = 5.0

_CHOICES = {
    "TRACKSIDE_ENFORCE": ("asked", "types"),
    "TRACKSIDE_ISOLATION": ("auto", "root", "user", "none"),
    "TRACKSIDE_PAGE_LOGIN": ("others", "always"),
    "TRACKSIDE_SANDBOX": ("process", "docker"),
    "TRACKSIDE_SMTP_SECURITY": ("starttls", "tls", "none"),
    "TRACKSIDE_STANDBY": ("yes", "no"),
}
_UNITS = {
    "TRACKSIDE_BODY_MEMORY_MB": "megabytes",
    "TRACKSIDE_CONNECTIONS": "a count",
    "TRACKSIDE_CONNECTIONS_PER_ADDRESS": "a count",
    "TRACKSIDE_JOBS_PER_KEY": "a count",
    "TRACKSIDE_KEEP_FILES_GB": "gigabytes",
    "TRACKSIDE_RULE_MEMORY_GB": "gigabytes",
    "TRACKSIDE_RULE_PROCESSES": "a count",
    "TRACKSIDE_SERIES_GB": "gigabytes",
}
"""Units of the numbers that are not seconds."""
_KINDS = {"gigabytes": "size", "megabytes": "size", "a count": "count"}


def _setting(variable: str, default: Any, *, is_secret: bool = False) -> Any:
    return field(default=default, repr=not is_secret, metadata={"variable": variable})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path = _setting("TRACKSIDE_HOME", Path("~/.trackside"))
    """Job folders, the index, the embedded buckets, cached overlays."""
    url: str = _setting("TRACKSIDE_URL", "")
    """The server that runs the jobs; `embedded` for none, even if a profile is stored."""
    profile: str = _setting("TRACKSIDE_PROFILE", "")
    """Which of the servers that `trackside login` stored."""
    access_key_id: str = _setting("TRACKSIDE_ACCESS_KEY_ID", "")
    """The access key for that server."""
    secret_access_key: str = _setting("TRACKSIDE_SECRET_ACCESS_KEY", "", is_secret=True)
    output: str = _setting("TRACKSIDE_OUTPUT", DEFAULT_OUTPUT)
    """Where a job's output is stored if the job does not name a location."""
    storage: str = _setting("TRACKSIDE_STORAGE", "")
    """The object store of a team's server, such as s3://bucket/prefix; default of `output`."""
    database: str = _setting("TRACKSIDE_DATABASE", "", is_secret=True)
    """postgresql://…: the index that several homes share."""
    team_key_file: str = _setting("TRACKSIDE_TEAM_KEY_FILE", "")
    """The file with the key that encrypts a team's access keys in its database."""
    keys_grace_seconds: float = _setting("TRACKSIDE_KEYS_GRACE", 3600.0)
    """How long a team's access keys stay valid while its database does not respond."""
    upload_deadline_seconds: float = _setting("TRACKSIDE_UPLOAD_DEADLINE", 900.0)
    """How long the end of a job waits for an object store that does not respond."""
    lease_seconds: float = _setting("TRACKSIDE_LEASE", LEASE_SECONDS)
    """How long a host of another machine may be silent before it is taken for lost."""
    heartbeat_seconds: float = _setting("TRACKSIDE_HEARTBEAT", HEARTBEAT_SECONDS)
    """How often such a host gives a sign of life."""
    upload_age_seconds: float = _setting("TRACKSIDE_UPLOAD_AGE", 7 * 86400.0)
    """How long the server keeps a multipart upload without new parts."""
    keep: str = _setting("TRACKSIDE_KEEP", "")
    """AGE,SIZE such as 90d,200GB: older jobs and those beyond SIZE are removed; empty: none."""
    series_gb: float = _setting("TRACKSIDE_SERIES_GB", 10.0)
    """Size limit of the curves that the page keeps as columns; the least recently used go first."""
    keep_files_gb: float = _setting("TRACKSIDE_KEEP_FILES_GB", 10.0)
    """Size limit per host for files kept from the script's working folder; 0 keeps none."""
    isolation: str = _setting("TRACKSIDE_ISOLATION", "auto")
    """auto, root, user or none: how the process sandbox provides its own /opt/ml."""
    standby: str = _setting("TRACKSIDE_STANDBY", "yes")
    """yes or no: whether `trackside run` forks the supervisor from its own process."""
    run_as: str = _setting("TRACKSIDE_RUN_AS", "")
    """USER and LABEL=USER,…: the users that run scripts instead of Trackside's own user."""
    python: str = _setting("TRACKSIDE_PYTHON", "")
    """The interpreter that runs scripts; if empty, Trackside's own."""
    images: str = _setting("TRACKSIDE_IMAGES", "")
    """PATTERN=PROGRAM,… and PATTERN=docker:IMAGE,…: which interpreter, or which image, is used for
    which training image."""
    sandbox: str = _setting("TRACKSIDE_SANDBOX", "process")
    """process or docker: whether a server runs every job in a container."""
    allow_images: str = _setting("TRACKSIDE_ALLOW_IMAGES", "")
    """PATTERN,…: which images the jobs of a server may name, besides those of its table."""
    placement: str = _setting("TRACKSIDE_PLACEMENT", "local")
    """local, slurm[:USER@LOGIN], ray[:HOST:PORT] or kubernetes[:CONTEXT]: where a server runs its
    jobs."""
    ssh_command: str = _setting(
        "TRACKSIDE_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=10"
    )
    """How the login node of a cluster is reached; followed by its name and a command line."""
    instance_types: str = _setting("TRACKSIDE_INSTANCE_TYPES", "")
    """NAME: cores=N,memory_gb=N,gpus=N; …: instance types of one's own, or others than AWS's."""
    capacity: str = _setting("TRACKSIDE_CAPACITY", "")
    """cores=N,memory_gb=N,gpus=N: what a server's jobs may use; if empty, the whole machine."""
    enforce: str = _setting("TRACKSIDE_ENFORCE", "asked")
    """asked or types: whether jobs of a server are limited only to resources that they request
    explicitly, or also to those of their instance type."""
    jobs_per_key: int = _setting("TRACKSIDE_JOBS_PER_KEY", 0)
    """How many jobs of an access key run at a time, unless it has its own limit; 0: unlimited."""
    shared_folders: str = _setting("TRACKSIDE_SHARED_FOLDERS", "")
    """FOLDER:…: folders of this machine that every job of its server may name."""
    job_variables: str = _setting("TRACKSIDE_JOB_VARIABLES", "")
    """NAME,…: the server's variables that jobs get although their names look secret."""
    connections: int = _setting("TRACKSIDE_CONNECTIONS", 1024)
    """How many connections a server keeps open; 0: as many as it has file descriptors for."""
    connections_per_address: int = _setting("TRACKSIDE_CONNECTIONS_PER_ADDRESS", 256)
    """How many of them one address of another machine may have; 0: unlimited."""
    header_seconds: float = _setting("TRACKSIDE_HEADER_SECONDS", 20.0)
    """How long a server waits for the headers of a request; 0 here and below: no limit."""
    body_seconds: float = _setting("TRACKSIDE_BODY_SECONDS", 30.0)
    """How long it waits for a body that almost stops arriving."""
    answer_seconds: float = _setting("TRACKSIDE_ANSWER_SECONDS", 300.0)
    """How long it waits for a client that does not read its response."""
    body_memory_mb: int = _setting("TRACKSIDE_BODY_MEMORY_MB", 64)
    """How much of all request bodies it holds in memory; 0: unlimited."""
    path_prefix: str = _setting("TRACKSIDE_PATH_PREFIX", "")
    """What a reverse proxy has before /ui, the path of a server's page."""
    page_login: str = _setting("TRACKSIDE_PAGE_LOGIN", "others")
    """others or always: whether the server's own user needs no login on its machine, or does."""
    page_idle_seconds: float = _setting("TRACKSIDE_PAGE_IDLE", 7 * 86400.0)
    """How long a login to the page lasts without a request."""
    rule_step_seconds: float = _setting("TRACKSIDE_RULE_STEP_SECONDS", 60.0)
    """How long a custom rule may take for one step."""
    rule_memory_gb: float = _setting("TRACKSIDE_RULE_MEMORY_GB", 2.0)
    """How much memory a custom rule may use."""
    rule_processes: int = _setting("TRACKSIDE_RULE_PROCESSES", 128)
    """How many processes and threads it may have at a time."""
    rule_folders: str = _setting("TRACKSIDE_RULE_FOLDERS", "")
    """FOLDER:…: folders that it may read besides Python and its trials."""
    smtp_host: str = _setting("TRACKSIDE_SMTP_HOST", "")
    """HOST or HOST:PORT of the server that sends the mail of rules."""
    smtp_security: str = _setting("TRACKSIDE_SMTP_SECURITY", "starttls")
    """starttls, tls or none: how the connection to it is encrypted."""
    smtp_user: str = _setting("TRACKSIDE_SMTP_USER", "")
    smtp_password: str = _setting("TRACKSIDE_SMTP_PASSWORD", "", is_secret=True)
    smtp_from: str = _setting("TRACKSIDE_SMTP_FROM", "trackside@localhost")
    webhook_url: str = _setting("TRACKSIDE_WEBHOOK_URL", "")
    """Where actions of rules other than mail are posted."""
    webhook_secret: str = _setting("TRACKSIDE_WEBHOOK_SECRET", "", is_secret=True)
    """Signs the requests to it."""
    allow_callbacks: str = _setting("TRACKSIDE_ALLOW_CALLBACKS", "")
    """HOST or NETWORK,…: internal addresses that jobs of a server may use for callbacks."""

    @property
    def layout(self) -> Home:
        return Home(self.home)

    @property
    def embedded(self) -> "Settings":
        """The same settings without a server: jobs run on this machine."""
        return replace(self, url=EMBEDDED, profile="", access_key_id="", secret_access_key="")

    @property
    def runs_here(self) -> bool:
        """Whether jobs run on this machine; valid after `profiles` has chosen the server."""
        return self.url in ("", EMBEDDED)

    @property
    def variables(self) -> dict[str, str]:
        """The environment from which another process loads the same settings."""
        return {f.metadata["variable"]: str(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        environ = os.environ if environ is None else environ
        known = {f.metadata["variable"]: f for f in fields(cls)}
        given = {key: value for key, value in environ.items() if key.startswith("TRACKSIDE_")}
        unknown = sorted(set(given) - set(known) - INTERNAL)
        if unknown:
            name = unknown[0]
            raise InvalidSetting(
                f"Unknown setting {name!r} = {hidden(name, given[name])!r} in the environment. "
                f"Known: {', '.join(sorted(known))}. Unset it or correct its name."
            )
        values = {
            f.name: _convert(variable, given[variable], f.default)
            for variable, f in known.items()
            if given.get(variable)
        }
        if "storage" in values:
            values.setdefault("output", values["storage"])
        settings = cls(**values)
        home = Path(os.path.abspath(settings.home.expanduser()))
        object.__setattr__(settings, "home", home)
        return settings


def _convert(variable: str, text: str, default: Any) -> Any:
    unit = _UNITS.get(variable, "seconds")
    try:
        value = type(default)(text)
    except ValueError:
        raise InvalidSetting(f"{variable} = {text!r} is not a number. Give {unit}.") from None
    if isinstance(value, float | int) and not value >= 0:  # also refuses NaN
        kind = _KINDS.get(unit, "length of time")
        raise InvalidSetting(f"{variable} = {text!r} is not a {kind}. Give {unit}, at least 0.")
    choices = _CHOICES.get(variable)
    if choices and text not in choices:
        raise InvalidSetting(f"{variable} = {text!r} is not one of {', '.join(choices)}.")
    return Path(text) if isinstance(default, Path) else value


def environment() -> dict[str, str]:
    """This process's environment, for the supervisors that it starts."""
    return dict(os.environ)


def own_instance_types() -> str:
    """The setting `instance_types`, which every job in a queue asks for: 1 us, and not 0.5 ms."""
    return os.environ.get("TRACKSIDE_INSTANCE_TYPES", "")


def replace_environment(environ: Mapping[str, str]) -> None:
    """For a forked process: it and its children see only this environment."""
    os.environ.clear()
    os.environ.update(environ)


def keep_files_private() -> None:
    """Makes this process create files for their owner only. Its children find the user's umask
    in TRACKSIDE_UMASK."""
    os.environ["TRACKSIDE_UMASK"] = keep_private(os.environ.get("TRACKSIDE_UMASK"))


def run_embedded() -> None:
    """For a server: neither it nor its children are clients of a server."""
    os.environ["TRACKSIDE_URL"] = EMBEDDED


def choose_profile(name: str) -> None:
    """For this process and its children: as if TRACKSIDE_PROFILE had been set."""
    os.environ["TRACKSIDE_PROFILE"] = name
    os.environ.pop("TRACKSIDE_URL", None)


def work_in(folder: str) -> None:
    """For the process of a custom rule: its home and temporary files are there."""
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
