"""The command line's front door: which commands there are, and what an error looks like.

Each command is a file of its own, imported only when it is called or listed.
"""

import logging
import sys
from importlib import import_module

import click

import trackside
from trackside.cli.failures import EXPECTED, INTERRUPTED, exit_code, explain

COMMANDS = (
    "run",
    "jobs",
    "show",
    "logs",
    "tensors",
    "metrics",
    "compare",
    "tensorboard",
    "findings",
    "rules",
    "report",
    "stop",
    "artifacts",
    "upload",
    "reindex",
    "queue",
    "server",
    "keys",
    "env",
)
"""In the order of a job's life; each is the function of that name in the module of that name."""


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"trackside.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> None:
        try:
            super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of our output has seen enough
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except EXPECTED as failure:
            if ctx.params["debug"]:
                raise
            print(explain(failure), file=sys.stderr)
            ctx.exit(exit_code(failure))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the trace of an error, and all logs.")
@click.version_option(trackside.__version__, message="trackside %(version)s")
def main(debug: bool) -> None:
    """Runs training jobs under the SageMaker contract on this machine.

    \b
    A first job:
      trackside run train.py --channel training=./data --wait

    Exit codes: 0 done, 1 the job failed, 2 wrong usage or input, 3 storage not reachable,
    4 a check found something, 130 the wait was interrupted (the job goes on).
    """
    if debug:
        logging.basicConfig(level=logging.DEBUG)
