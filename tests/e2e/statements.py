"""A table of statements as somebody wrote them, each with what it must give, run in order.

In one process, as cells of a notebook are, or as one script inside of a job.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    code: str
    """As it stands in the source."""
    look: str = ""
    """An expression, evaluated right after it; `_` is the value of its last expression."""
    gives: Any = None
    """What the expression must be, as JSON has it."""


_CELLS = """
import ast, json
namespace = {{"__name__": "__main__"}}
seen = []
for code, look in json.loads({rows!r}):
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<statement>", "exec"), namespace)
    if last is not None:
        whole = compile(ast.Expression(last.value), "<statement>", "eval")
        namespace["_"] = eval(whole, namespace)
    seen.append(eval(look, namespace) if look else None)
print()
print(json.dumps(seen))
"""


def as_cells(rows: Sequence[Row]) -> str:
    """A program that runs them in order; the last line it prints is what each gave."""
    return _CELLS.format(rows=json.dumps([(row.code, row.look) for row in rows]))


def as_script(rows: Sequence[Row]) -> str:
    """A script that prints what each gave on a line of its own, for `given_in`."""
    parts = ["import json as _json"]
    for number, row in enumerate(rows):
        parts.append(row.code)
        if row.look:
            parts.append(f'print("ROW", {number}, _json.dumps({row.look}), flush=True)')
    return "\n".join(parts) + "\n"


def given_in(log: str, rows: Sequence[Row]) -> list[Any]:
    """What each row gave that ran; None for the others."""
    found = {int(number): json.loads(text) for number, text in re.findall(r"ROW (\d+) (.*)", log)}
    return [found.get(number) for number in range(len(rows))]


def assert_each(rows: Sequence[Row], given: Sequence[Any]) -> None:
    """All at once, so that a failure shows the whole table."""
    wanted = [(row.code, row.gives) for row in rows]
    assert [(row.code, each) for row, each in zip(rows, given, strict=True)] == wanted
