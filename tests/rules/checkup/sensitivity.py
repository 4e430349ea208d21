"""Which findings change when a number of the check-up moves: every parameter of its rules, and
every constant of the modules that they are in.

`python -m tests.rules.checkup.sensitivity TRIALS` prints a table for the trials of `zoo_recorder`.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from trackside.capture.trial import Trial, create_trial
from trackside.rules.checkup.checkup import PARTS
from trackside.rules.checkup.vitals_rule import VitalsRule
from trackside.rules.parameters import parameters_of
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.vital_signs import VitalSigns

Found = frozenset[tuple[str, str]]
"""Rules that fire, each with a tensor."""
_PREFIX = "trackside.rules."
_CASES_SHOWN = 6


@dataclass(frozen=True)
class Number:
    name: str
    """`Rule.parameter`, or `module.CONSTANT`."""
    value: float
    readers: tuple[type[VitalsRule], ...]
    """Rules that it can matter to."""
    parameter: str = ""
    modules: tuple[str, ...] = ()
    """Of a constant: its own module, and those that import it."""
    constant: str = ""

    def scaled(self, factor: float) -> float:
        """A whole number stays one, and moves by 1 at least."""
        if not isinstance(self.value, int):
            return self.value * factor
        step = -1 if factor < 1 else 1
        moved = round(self.value * factor)
        return moved if moved != self.value else self.value + step

    def found(self, vitals: VitalSigns, value: float | None = None) -> Found:
        """By its readers, with this value in its place."""
        if value is None:
            return _found([rule() for rule in self.readers], vitals)
        if self.parameter:
            return _found([rule(**{self.parameter: value}) for rule in self.readers], vitals)
        with self._set(value):
            return _found([rule() for rule in self.readers], vitals)

    @contextmanager
    def _set(self, value: float) -> Iterator[None]:
        modules = [sys.modules[name] for name in self.modules]
        for module in modules:
            setattr(module, self.constant, value)
        try:
            yield
        finally:
            for module in modules:
                setattr(module, self.constant, self.value)


def numbers() -> list[Number]:
    return [*_parameters(), *_constants()]


def vitals_of(trial: Trial) -> VitalSigns:
    evidence = Evidence(trial)
    while not evidence.is_all:
        evidence.advance()
    return evidence.vitals


def changes(number: Number, vitals: VitalSigns, factor: float) -> list[str]:
    """`+Rule` that fires only with the number moved, `-Rule` that fires only without."""
    usual, moved = number.found(vitals), number.found(vitals, number.scaled(factor))
    gained = {f"+{rule}" for rule, _ in moved - usual}
    return sorted(gained | {f"-{rule}" for rule, _ in usual - moved})


def _found(rules: list[VitalsRule], vitals: VitalSigns) -> Found:
    return frozenset((rule.name(), sign.tensor) for rule in rules for sign in rule.judge(vitals))


def _parameters() -> Iterator[Number]:
    for part in PARTS:
        for each in parameters_of(part):
            if _is_number(each.default):
                yield Number(f"{part.name()}.{each.name}", each.default, (part,), each.name)


def _constants() -> Iterator[Number]:
    homes = {sys.modules[part.__module__] for part in PARTS}
    shared = {sys.modules[cls.__module__] for cls in (VitalsRule, VitalSigns)}
    for home in sorted(homes | shared, key=lambda each: each.__name__):
        for name in _assigned(home):
            users = {each for each in homes | shared if name in _imported(each, home.__name__)}
            modules = {home, *users}
            yield Number(
                f"{home.__name__.removeprefix(_PREFIX)}.{name}",
                getattr(home, name),
                _rules_of(modules),
                modules=tuple(sorted(module.__name__ for module in modules)),
                constant=name,
            )


def _rules_of(modules: set[ModuleType]) -> tuple[type[VitalsRule], ...]:
    """All of them, of a constant by which figures are made."""
    if sys.modules[VitalSigns.__module__] in modules:
        return PARTS
    return tuple(part for part in PARTS if sys.modules[part.__module__] in modules)


@cache
def _tree(module: ModuleType) -> ast.Module:
    assert module.__file__
    return ast.parse(Path(module.__file__).read_text())


def _assigned(module: ModuleType) -> Iterator[str]:
    for node in _tree(module).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                for each in names:
                    if isinstance(each, ast.Name) and _is_number(getattr(module, each.id)):
                        yield each.id


def _imported(module: ModuleType, home: str) -> set[str]:
    return {
        alias.name
        for node in _tree(module).body
        if isinstance(node, ast.ImportFrom) and node.module == home
        for alias in node.names
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def main() -> None:
    parser = argparse.ArgumentParser(prog=__spec__.name, description=__doc__)
    parser.add_argument("trials", type=Path, help="what `zoo_recorder` has saved")
    parser.add_argument("--by", type=float, default=0.2, help="relative change of each number")
    arguments = parser.parse_args()
    cases = {
        f"{path.parent.name}/{path.name}": vitals_of(create_trial(str(path)))
        for path in sorted(arguments.trials.glob("*/*"))
        if path.suffix != ".part"
    }
    sys.stdout.write("\n".join(_table(cases, arguments.by)) + "\n")


def _table(cases: dict[str, VitalSigns], by: float) -> Iterator[str]:
    """Of the numbers that change anything; the others are named below it."""
    unmoved = []
    yield f"| number | value | at -{by:.0%} | at +{by:.0%} |"
    yield "|---|---:|---|---|"
    for number in numbers():
        cells = [_cell(number, cases, factor) for factor in (1 - by, 1 + by)]
        if any(cells):
            yield f"| `{number.name}` | {number.value:.6g} | {' | '.join(cells)} |"
        else:
            unmoved.append(f"`{number.name}`")
    healthy = sum(case.startswith("healthy") for case in cases)
    yield ""
    yield f"{len(cases)} cases: {len(cases) - healthy} broken, {healthy} healthy."
    yield f"{len(unmoved)} of {len(numbers())} numbers change nothing: {', '.join(unmoved)}."


def _cell(number: Number, cases: dict[str, VitalSigns], factor: float) -> str:
    changed = {case: changes(number, vitals, factor) for case, vitals in cases.items()}
    shown = [f"{case} ({' '.join(each)})" for case, each in changed.items() if each]
    more = f", and {len(shown) - _CASES_SHOWN} more" if len(shown) > _CASES_SHOWN else ""
    return ", ".join(shown[:_CASES_SHOWN]) + more


if __name__ == "__main__":
    main()
