"""The entry point of the command line: its commands, and error handling.

Each command has its own file, imported only when it is called or listed.
"""

import logging
import signal
import threading
from importlib import import_module
from pathlib import Path

import click

from trackside.cli.failures import EXPECTED, INTERRUPTED, USAGE, exit_code, explain
from trackside.cli.messages import print_message, print_warnings
from trackside.errors import JobNotFound
from trackside.files import disk_space
from trackside.settings import Settings, choose_profile
from trackside.texts.terminal_text import visible

OWN_PROCESS = "own process"
"""The context's object if this process runs only the command line, and so may be forked; programs
that call `main` themselves do not set it.
"""

GROUPS = {
    "Jobs": ("run", "check", "audit-resume", "jobs", "show", "logs", "stop", "artifacts", "delete"),
    "Inspect and diagnose a job": (
        "ui",
        "watch",
        "issues",
        "findings",
        "report",
        "metrics",
        "compare",
        "tensorboard",
        "tensors",
        "rules",
        "invariants",
        "mcp",
    ),
    "Container images": ("image",),
    "Clusters": ("placements",),
    "Recovery and disk space": (
        "upload",
        "reindex",
        "gc",
    ),
    "Servers and AWS clients": (
        "server",
        "queue",
        "keys",
        "env",
        "login",
        "logout",
    ),
}
"""As in the help."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
"""Each is the function of that name in the module of that name, with `_` for `-`."""
SUMMARIES = {
    "run": "Run a script, a module or a command as a training job.",
    "check": "Read training scripts and report mistakes, without running them.",
    "audit-resume": "Stop and resume a script, and name what was not restored.",
    "jobs": "List jobs, newest first.",
    "show": "Show one job: its status, why it failed, where its files are.",
    "logs": "Print a job's log, byte for byte.",
    "stop": "Stop a job and keep its output.",
    "artifacts": "List or download what a job has stored: model, output, …",
    "delete": "Delete finished jobs; with --data, also their output.",
    "ui": "Open the page: what is wrong, jobs, curves, logs.",
    "watch": "Watch a job live: what is wrong, curves, machine, log.",
    "issues": "Show what is wrong, grouped over jobs, and what may have caused it.",
    "findings": "Show what rules have found, and what to try.",
    "report": "Write an HTML report about a job.",
    "metrics": "Show the curves of a job in the terminal.",
    "compare": "Show jobs side by side: settings, machine use, metrics.",
    "tensorboard": "Show jobs side by side in TensorBoard, live.",
    "tensors": "List the tensors that a job has saved, with statistics.",
    "rules": "List the built-in rules, or try some on a job.",
    "invariants": "Experimental: name what held in good jobs, and not in this one.",
    "mcp": "Serve jobs to coding agents, over the Model Context Protocol.",
    "image": "Build container images, for `trackside run --image`.",
    "placements": "List where jobs can run, and what is free there.",
    "upload": "Upload what a job could not store when it finished.",
    "reindex": "Rebuild the list of jobs from storage.",
    "gc": "Remove old files of finished jobs from TRACKSIDE_HOME.",
    "server": "Run and show jobs for a team, over the AWS API.",
    "queue": "Show which jobs wait for the machine, and why.",
    "keys": "Access keys of this machine's server.",
    "env": "Print shell commands that point AWS clients at the server.",
    "login": "Use the jobs of a server from now on.",
    "logout": "Use the jobs of this machine again.",
}
"""The first sentence of each command's help, so that `trackside --help` imports none of them."""
SYNONYMS = {
    "build": "image",
    "cancel": "stop",
    "clean": "gc",
    "curves": "metrics",
    "dashboard": "ui",
    "describe": "show",
    "download": "artifacts",
    "inspect": "show",
    "kill": "stop",
    "lint": "check",
    "list": "jobs",
    "log": "logs",
    "ls": "jobs",
    "problems": "issues",
    "prune": "gc",
    "ps": "jobs",
    "remove": "delete",
    "rm": "delete",
    "start": "run",
    "status": "show",
    "submit": "run",
    "tail": "logs",
    "train": "run",
    "web": "ui",
}
"""Names that other programs use for them."""


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"trackside.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(_unknown_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, COMMANDS))
        room = formatter.width - longest - 6
        for title, names in GROUPS.items():
            rows = [
                (name.ljust(longest), _summary(name).get_short_help_str(room)) for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> None:
        try:
            super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of our output has closed it
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError:
            raise  # it shows itself
        except click.UsageError as wrong:
            _print_usage_error(wrong)
            ctx.exit(USAGE)
        except EXPECTED as failure:
            if ctx.params["debug"]:
                raise
            print_message(explain(failure) + _way_out(failure))
            if type(failure) is JobNotFound:
                _suggest_jobs(failure.name)
            ctx.exit(exit_code(failure))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks, and all logs.")
@click.option("--profile", metavar="NAME", help="The server that `login` stored under this name.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, is_given: _show_version(ctx) if is_given else None,
    help="Show the version, its commit and the extras that are installed, and exit.",
)
def main(debug: bool, profile: str | None) -> None:
    """Runs training scripts as jobs, stores their output, and finds what is wrong with them.

    \b
    A first job, and how to inspect it:
      trackside run train.py --rule all --wait
      trackside jobs
      trackside report JOB --open

    Exit codes: 0 done, 1 the job failed, 2 wrong usage or input, 3 storage or server not
    reachable, 4 a check found something, 5 a rule stopped the job, 6 its time limit did,
    7 somebody did, 130 the wait was interrupted (the job goes on).
    """
    _hear_interrupts()
    print_warnings()
    if debug:
        logging.basicConfig(level=logging.DEBUG)
    if profile:
        choose_profile(profile)


def _show_version(ctx: click.Context) -> None:
    from trackside.cli.version import describe

    click.echo(describe())
    ctx.exit()


def _summary(name: str) -> click.Command:
    """What the help needs of a command, without importing it."""
    return click.Command(name, help=SUMMARIES[name])


def _hear_interrupts() -> None:
    """A shell without job control starts background commands with SIGINT ignored, which children
    inherit: the wait for a job could not be interrupted.
    """
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _unknown_command(given: str) -> str:
    import difflib

    near = difflib.get_close_matches(given, COMMANDS, n=1)
    likely = SYNONYMS.get(given) or next(iter(near), "")
    if likely:
        return f"No command is called {given!r}. Did you mean `trackside {likely}`?"
    if given.endswith(".py"):
        return f"No command is called {given!r}. To run a script: `trackside run {given}`."
    return f"No command is called {given!r}. `trackside --help` lists them."


def _print_usage_error(wrong: click.UsageError) -> None:
    """As click does, but wrapped."""
    if wrong.ctx is not None:
        print_message(f"{wrong.ctx.get_usage()}\nTry '{wrong.ctx.command_path} --help' for help.\n")
    print_message(f"Error: {visible(wrong.format_message())}{_newest_job(wrong)}")


def _newest_job(wrong: click.UsageError) -> str:
    """For a command without a job: usually the one just started is meant."""
    if not isinstance(wrong, click.MissingParameter):
        return ""
    from trackside.cli.job_names import is_job, newest

    if wrong.param is None or not is_job(wrong.param):
        return ""
    name = newest()
    if not name:
        return " There is none yet: `trackside run SCRIPT` starts one."
    return f" The newest is {name!r}; `trackside jobs` lists all."


def _way_out(failure: BaseException) -> str:
    """Advice for a home that is not writable."""
    if not isinstance(failure, OSError):
        return ""
    home = Settings.load().home
    there = next(path for path in (home, *home.parents) if path.exists())
    if disk_space.takes_nothing(failure) and (trouble := disk_space.trouble(there)):
        first = "Make it writable" if disk_space.is_read_only(failure) else "Free some space"
        return f". {trouble} {first}, or set TRACKSIDE_HOME to a folder on another disk."
    if not isinstance(failure.filename, str):
        return ""
    is_ours = Path(failure.filename).is_relative_to(home)
    return ". Set TRACKSIDE_HOME to a folder that you can write in." if is_ours else ""


def _suggest_jobs(name: str) -> None:
    from trackside.cli.job_names import meant

    if found := meant(name):
        print_message(f"Did you mean {' or '.join(map(repr, found))}?")
