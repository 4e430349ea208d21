"""Trainings that hang, and trainings that are slow but alive: which of the former are named, with
rank and line, how soon, and of which of the latter a hang is reported.

`python -m benchmarks hangs` runs whole local jobs, some at a time; `--quick` takes six of them.
`python -m benchmarks.hangs CASE ...` takes those that are named.
"""

from benchmarks.hangs.examine import run

__all__ = ["run"]
