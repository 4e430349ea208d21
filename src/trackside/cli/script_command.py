"""What `trackside run` runs, and the arguments that belong to it and not to us.

Everything behind `--` reaches it byte for byte: click sees only what stands before.
"""

import re
import shlex
from typing import Any

import click

_BEHIND = "trackside.behind"
_EXTRA = re.compile(r"unexpected extra arguments? \((\S+?)[ )]")
"""The first of those that click does not know what to do with."""


class Run(click.Command):
    """Whoever types the script's own arguments among our options is told where they stand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_BEHIND] = args[at + 1 :]
        own = args[:at]
        try:
            return super().parse_args(ctx, [*own])
        except click.NoSuchOption as unknown:
            raise _meant_for_script(unknown, own, unknown.option_name) from None
        except click.UsageError as wrong:
            if extra := _EXTRA.search(wrong.message):
                raise _meant_for_script(wrong, own, extra[1]) from None
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "SCRIPT [-- ARGUMENT…]"]


def program_of(ctx: click.Context) -> dict[str, Any]:
    """For the estimator: the script or module and its arguments, or a command."""
    behind, script, module = ctx.meta[_BEHIND], ctx.params["entry_point"], ctx.params["module"]
    if script is None and module is None:
        if not behind:
            [missing] = [each for each in ctx.command.params if each.name == "entry_point"]
            raise click.MissingParameter(ctx=ctx, param=missing)
        return {"command": behind}
    return {"entry_point": script, "module": module, "arguments": behind or None}


def _meant_for_script(wrong: click.UsageError, typed: list[str], given: str) -> click.UsageError:
    """`--epochs` and `epochs=3` alike."""
    told = wrong.format_message()
    told += "" if told.endswith((".", ")")) else "."
    if not typed[0].startswith("-") and "." not in typed[0]:  # `python`, `torchrun`
        form = shlex.join(["trackside", "run", "--", *typed])
        return click.UsageError(f"{told} A command stands behind `--`: {form}", wrong.ctx)
    script = next((each for each in typed if each.endswith((".py", ".sh"))), "SCRIPT")
    form = shlex.join(["trackside", "run", script, "--", given])
    way_out = f"The script's own arguments stand at the end, behind `--`: {form} …"
    return click.UsageError(f"{told} {way_out}", wrong.ctx)
