"""What `--rule all` costs a job: processor time of the training's process, of the evaluator and of
the rest (command, supervisor, sandbox), and wall time, in turn with the same job without rules and
with plain Python.

`python -m benchmarks job_cost` runs whole local jobs, one at a time; `--quick` is a short look.
"""

from benchmarks.job_cost.compare import run

__all__ = ["run"]
