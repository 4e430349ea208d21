"""`trackside check`: reads training scripts without running them."""

import sys
from dataclasses import asdict
from pathlib import Path

import click

from trackside.cli.text import as_json
from trackside.texts.terminal_text import visible


@click.command(short_help="Read training scripts and report mistakes, without running them.")
@click.argument(
    "scripts",
    metavar="SCRIPT...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--ignore", metavar="RULE", multiple=True, help="Leave out a rule. Repeatable.")
@click.option("--json", is_flag=True, help="Print JSON.")
def check(scripts: tuple[Path, ...], ignore: tuple[str, ...], json: bool) -> None:
    """Read training scripts and the modules beside them, and report mistakes that can be seen
    without running them: calls in the wrong order or in the wrong loop, schedules in other units,
    a wrapper that is bypassed. Nothing is imported or run.

    The exit code is 1 if something was found. A comment `# trackside: ignore[RULE]` silences its
    line.

    \b
    Examples:
      trackside check train.py
      trackside check src/*.py --ignore NotShuffled --json
    """
    from trackside.check.check import check_script
    from trackside.check.rules import ALL

    known = {rule.name for rule in ALL}
    if unknown := sorted({*ignore} - known):
        names = ", ".join(sorted(known))
        raise click.BadParameter(f"{unknown[0]!r} is none of: {names}.", param_hint="--ignore")
    found = []
    for script in scripts:
        results, troubles = check_script(script)
        for trouble in troubles:
            print(visible(trouble), file=sys.stderr)
        shown = [
            {**asdict(each), "path": str(script.parent / each.path)}
            for each in results
            if each.rule not in ignore
        ]
        found += shown
    if json:
        print(as_json(found))
    else:
        _print(found)
    if found:
        sys.exit(1)


def _print(found: list[dict[str, object]]) -> None:
    for each in found:
        print(visible(f"{each['path']}:{each['line']}: {each['rule']}: {each['message']}"))
        print(visible(f"    Try: {each['advice']}"))
    if not found:
        print("Nothing found. `trackside run --rule all` watches the training itself.")
