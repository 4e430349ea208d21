"""Does it notice? Trainings that are broken, and healthy ones that look suspicious."""

from benchmarks.zoo.runner import run

__all__ = ["run"]
