"""Reads a script and judges it by every rule."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trackside.check.program import Module, Program, read_program
from trackside.check.reader import read_trace
from trackside.check.remark import ScriptRule
from trackside.check.rules import ALL


@dataclass(frozen=True, slots=True, order=True)
class Found:
    path: str
    line: int
    rule: str
    message: str
    advice: str


def check_script(script: Path) -> tuple[list[Found], list[str]]:
    """What was found, by place, and which files could not be read.

    `InputError` if the script cannot be read.
    """
    program = read_program(script)
    return check_program(program), program.troubles


def check_program(program: Program, rules: Iterable[ScriptRule] = ALL) -> list[Found]:
    trace = read_trace(program)
    found = {
        Found(remark.path, remark.line, rule.name, remark.message, rule.advice)
        for rule in rules
        for remark in rule.check(trace)
    }
    modules = {each.path: each for each in (program.entry, *program.modules.values())}
    return sorted(each for each in found if not _is_ignored(each, modules[each.path]))


def _is_ignored(found: Found, module: Module) -> bool:
    names = module.ignored.get(found.line)
    return names is not None and (not names or found.rule in names)
