"""A Ray cluster that takes `ray job submit`: it needs Ray's dashboard, and packages of its own,
which the cluster of the tests does without."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.machines import Machine, machines
from tests.ray_cluster import HEAD, RayCluster

from benchmarks.download import peer_folder

VERSION = "2.60.0"
"""As in our own environment: Ray refuses a client of another one."""
_MEMORY = 8 << 30


class RayWithJobs(RayCluster):
    """As `ray start` makes it, with workers started in advance."""

    @property
    def python(self) -> Path:
        return peer_folder(f"ray-{VERSION}", f"ray[default]=={VERSION}") / "python"

    def submit(self, command: str) -> str:
        """What is typed on the head; it returns when Ray has the job."""
        return f"{self.python.parent / 'ray'} job submit --no-wait -- {command}"

    def _start(self, machine: Machine, *options: str) -> None:
        given = [option for option in options if not option.startswith("--include-dashboard")]
        words = [
            *(str(self.python), "-m", "ray.scripts.scripts", "start", *given),
            *(f"--node-ip-address={machine.address}", "--block", "--disable-usage-stats"),
            *("--object-store-memory=100000000", f"--memory={_MEMORY}"),
        ]
        variables = {**self.variables, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": ""}
        with (machine.disk / "ray.log").open("ab") as log:
            self._daemons.append(machine.start(*words, variables=variables, output=log))


@contextmanager
def ray_with_jobs(*nodes: str, head_cores: int = 4) -> Iterator[RayWithJobs]:
    with machines(HEAD, *nodes) as network:
        cluster = RayWithJobs(network, nodes, head_cores)
        yield cluster
    cluster.collect()
