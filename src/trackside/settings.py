"""What the environment decides, read once into one frozen object. docs/settings.md lists it all."""

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
"""As TRACKSIDE_URL: no server, whatever profiles there are."""

INTERNAL = frozenset(
    {
        "TRACKSIDE_ARGUMENT_ORDER",
        "TRACKSIDE_CAPTURE",
        "TRACKSIDE_CAPTURE_AGE",
        "TRACKSIDE_EXIT_RECORD",
        "TRACKSIDE_FINDING",
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
        "TRACKSIDE_THRESHOLD",
        "TRACKSIDE_UMASK",
        "TRACKSIDE_VALUE",
    }
)
"""Set by Trackside for the processes it starts, by the tests, or read by the storage module."""


DEFAULT_OUTPUT = "s3://trackside"

_CHOICES = {
    "TRACKSIDE_ENFORCE": ("asked", "types"),
    "TRACKSIDE_ISOLATION": ("auto", "root", "user", "none"),
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
}
"""Of the numbers that are not seconds."""
_KINDS = {"gigabytes": "size", "megabytes": "size", "a count": "count"}


def _setting(variable: str, default: Any, *, is_secret: bool = False) -> Any:
    return field(default=default, repr=not is_secret, metadata={"variable": variable})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path = _setting("TRACKSIDE_HOME", Path("~/.trackside"))
    """Job folders, the index, the embedded buckets, cached overlays."""
    url: str = _setting("TRACKSIDE_URL", "")
    """The server that runs the jobs; `embedded` for none, whatever profiles there are."""
    profile: str = _setting("TRACKSIDE_PROFILE", "")
    """Which of the servers that `trackside login` stored."""
    access_key_id: str = _setting("TRACKSIDE_ACCESS_KEY_ID", "")
    """Who we are to that server."""
    secret_access_key: str = _setting("TRACKSIDE_SECRET_ACCESS_KEY", "", is_secret=True)
    output: str = _setting("TRACKSIDE_OUTPUT", DEFAULT_OUTPUT)
    """Where a job's output goes when none is named."""
    storage: str = _setting("TRACKSIDE_STORAGE", "")
    """The object store of a team's server, such as s3://bucket/prefix; `output` unless that is
    set."""
    database: str = _setting("TRACKSIDE_DATABASE", "", is_secret=True)
    """postgresql://…: the index that several homes share."""
    team_key_file: str = _setting("TRACKSIDE_TEAM_KEY_FILE", "")
    """The file with the key that seals a team's access keys, which then are in its database."""
    keys_grace_seconds: float = _setting("TRACKSIDE_KEYS_GRACE", 3600.0)
    """How long a team's access keys stay valid while its database does not respond."""
    upload_deadline_seconds: float = _setting("TRACKSIDE_UPLOAD_DEADLINE", 900.0)
    """How long the end of a job waits for an object store that does not respond."""
    upload_age_seconds: float = _setting("TRACKSIDE_UPLOAD_AGE", 7 * 86400.0)
    """How long the server keeps a multipart upload to which nothing is added."""
    keep: str = _setting("TRACKSIDE_KEEP", "")
    """AGE,SIZE such as 90d,200GB: what is older or does not fit is removed; empty keeps all."""
    keep_files_gb: float = _setting("TRACKSIDE_KEEP_FILES_GB", 10.0)
    """How much of what a script leaves in its working folder is kept, per host; 0 is nothing."""
    isolation: str = _setting("TRACKSIDE_ISOLATION", "auto")
    """auto, root, user or none: how the process sandbox makes its own /opt/ml."""
    standby: str = _setting("TRACKSIDE_STANDBY", "yes")
    """yes or no: whether `trackside run` makes the supervisor of a copy of its own process."""
    run_as: str = _setting("TRACKSIDE_RUN_AS", "")
    """USER and LABEL=USER,…: who runs scripts, where that is not Trackside's own user."""
    python: str = _setting("TRACKSIDE_PYTHON", "")
    """The interpreter that runs scripts; the one Trackside runs in when empty."""
    images: str = _setting("TRACKSIDE_IMAGES", "")
    """PATTERN=PROGRAM,… and PATTERN=docker:IMAGE,…: which interpreter, or which image, is used for
    which training image."""
    sandbox: str = _setting("TRACKSIDE_SANDBOX", "process")
    """process or docker: whether a server runs every job in a container."""
    allow_images: str = _setting("TRACKSIDE_ALLOW_IMAGES", "")
    """PATTERN,…: which images the jobs of a server may name, besides those of its table."""
    capacity: str = _setting("TRACKSIDE_CAPACITY", "")
    """cores=N,memory_gb=N,gpus=N: what a server's jobs may use; the machine's when empty."""
    enforce: str = _setting("TRACKSIDE_ENFORCE", "asked")
    """asked or types: whether a server's jobs are kept to what they ask for in their own words, or
    else to what their instance type has."""
    jobs_per_key: int = _setting("TRACKSIDE_JOBS_PER_KEY", 0)
    """How many jobs of an access key run at a time, unless it has its own limit; 0 is any."""
    shared_folders: str = _setting("TRACKSIDE_SHARED_FOLDERS", "")
    """FOLDER:…: folders of this machine that every job of its server may name."""
    job_variables: str = _setting("TRACKSIDE_JOB_VARIABLES", "")
    """NAME,…: variables of a server's own that its jobs get though their names look secret."""
    connections: int = _setting("TRACKSIDE_CONNECTIONS", 1024)
    """How many connections a server keeps open; 0 is as many as it has descriptors for."""
    connections_per_address: int = _setting("TRACKSIDE_CONNECTIONS_PER_ADDRESS", 256)
    """How many of them one address of another machine may have; 0 is any number."""
    header_seconds: float = _setting("TRACKSIDE_HEADER_SECONDS", 20.0)
    """How long a server waits for the headers of a request; 0 is for ever, as below."""
    body_seconds: float = _setting("TRACKSIDE_BODY_SECONDS", 30.0)
    """How long it waits for a body of which next to nothing arrives."""
    answer_seconds: float = _setting("TRACKSIDE_ANSWER_SECONDS", 300.0)
    """How long it waits for a client that reads nothing of its response."""
    body_memory_mb: int = _setting("TRACKSIDE_BODY_MEMORY_MB", 64)
    """How much of the bodies of all requests it holds in memory; 0 is any amount."""
    rule_step_seconds: float = _setting("TRACKSIDE_RULE_STEP_SECONDS", 60.0)
    """How long a rule of the user's may take for one step."""
    rule_memory_gb: float = _setting("TRACKSIDE_RULE_MEMORY_GB", 2.0)
    """How much memory a rule of the user's may use."""
    rule_processes: int = _setting("TRACKSIDE_RULE_PROCESSES", 128)
    """How many processes and threads it may have at a time."""
    rule_folders: str = _setting("TRACKSIDE_RULE_FOLDERS", "")
    """FOLDER:…: what it may read besides Python and its trials."""
    smtp_host: str = _setting("TRACKSIDE_SMTP_HOST", "")
    """HOST or HOST:PORT that takes the mail of rules."""
    smtp_security: str = _setting("TRACKSIDE_SMTP_SECURITY", "starttls")
    """starttls, tls or none: how the connection to it is made safe."""
    smtp_user: str = _setting("TRACKSIDE_SMTP_USER", "")
    smtp_password: str = _setting("TRACKSIDE_SMTP_PASSWORD", "", is_secret=True)
    smtp_from: str = _setting("TRACKSIDE_SMTP_FROM", "trackside@localhost")
    webhook_url: str = _setting("TRACKSIDE_WEBHOOK_URL", "")
    """Where the actions of rules are posted that are no mail."""
    webhook_secret: str = _setting("TRACKSIDE_WEBHOOK_SECRET", "", is_secret=True)
    """Signs what is posted there."""
    allow_callbacks: str = _setting("TRACKSIDE_ALLOW_CALLBACKS", "")
    """HOST or NETWORK,…: what jobs of a server may have called though it is on its own machine."""

    @property
    def layout(self) -> Home:
        return Home(self.home)

    @property
    def embedded(self) -> "Settings":
        """The same, to run jobs on this machine: neither they nor their processes use a
        server."""
        return replace(self, url=EMBEDDED, profile="", access_key_id="", secret_access_key="")

    @property
    def runs_here(self) -> bool:
        """Whether jobs run on this machine, once that is settled: see `profiles`."""
        return self.url in ("", EMBEDDED)

    @property
    def variables(self) -> dict[str, str]:
        """The environment from which another process loads these same settings."""
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
    if isinstance(value, float | int) and not value >= 0:  # also what is no number
        kind = _KINDS.get(unit, "length of time")
        raise InvalidSetting(f"{variable} = {text!r} is no {kind}. Give {unit} from 0 on.")
    choices = _CHOICES.get(variable)
    if choices and text not in choices:
        raise InvalidSetting(f"{variable} = {text!r} is not one of {', '.join(choices)}.")
    return Path(text) if isinstance(default, Path) else value


def environment() -> dict[str, str]:
    """This process's own environment, for the supervisors it starts."""
    return dict(os.environ)


def replace_environment(environ: Mapping[str, str]) -> None:
    """For a process that was forked: it and those it starts see this environment alone."""
    os.environ.clear()
    os.environ.update(environ)


def keep_files_private() -> None:
    """For a process of our own: what it makes is for its owner alone. Those that it starts find
    the user's umask in TRACKSIDE_UMASK."""
    os.environ["TRACKSIDE_UMASK"] = keep_private(os.environ.get("TRACKSIDE_UMASK"))


def run_embedded() -> None:
    """For a server: neither it nor what it starts is a client of another one, or of itself."""
    os.environ["TRACKSIDE_URL"] = EMBEDDED


def choose_profile(name: str) -> None:
    """For this process and those it starts: as if TRACKSIDE_PROFILE had named it."""
    os.environ["TRACKSIDE_PROFILE"] = name
    os.environ.pop("TRACKSIDE_URL", None)


def work_in(folder: str) -> None:
    """For the process of a custom rule: what it keeps goes there."""
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
