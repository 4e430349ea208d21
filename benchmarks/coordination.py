"""The hosts of one job that share only an S3 server, ours: what it costs the lead, and how many
requests each host sends, for 4, 16 and 64 hosts.

The supervisors are simulated: each host coordinates as in a job, with a folder of its own, and
runs no script. The lead has a process for itself, which is measured; the others share one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import getpagesize

import boto3

from benchmarks.report import Comparison, Target
from benchmarks.training_request import training_request
from trackside.api.keys import AccessKeys, Rights
from trackside.coordination.store import StoreCoordination
from trackside.records.group import GroupRecord
from trackside.records.hosts import HostRecord, Phase
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.spec import JobSpec
from trackside.settings import Settings

BUCKET = "jobs"
NUM_HOSTS = (4, 16, 64)
_CHANGE_SECONDS = 15.0
"""How often a host's record changes while its script runs: it says how much was uploaded."""
_PER_HOST = 1.5
"""How much more a host of 64 may cost than one of 4."""
_MEMORY = 1.1
"""How much more memory the lead of 64 may take than that of 4."""


def run(quick: bool = False) -> list[Comparison]:
    seconds = 5.0 if quick else 60.0
    measured = {number: _measure(number, seconds) for number in NUM_HOSTS}
    for number, found in measured.items():
        print(f"{number} hosts: {json.dumps(found)}", file=sys.stderr)
    return [
        _comparison(measured, "sent", "Requests that a host sends, the lead not counted", "1/s"),
        _comparison(measured, "lead_sent", "Requests that the lead sends for each host", "1/s"),
        _comparison(
            measured, "lead_cpu", "Processor time of the lead for each host", "% of a core"
        ),
        _comparison(measured, "lead_mib", "Memory of the lead", "MiB", _MEMORY),
    ]


def _comparison(
    measured: dict[int, dict[str, float]],
    name: str,
    title: str,
    unit: str,
    most: float = _PER_HOST,
) -> Comparison:
    few, *_, many = NUM_HOSTS
    figures = {f"{number} hosts": measured[number][name] for number in NUM_HOSTS if number != many}
    return Comparison(
        f"{title} ({many} hosts against fewer)",
        unit,
        {"trackside": measured[many][name], **figures},
        targets=(Target(f"{few} hosts", 1 / most),),
    )


def _measure(num_hosts: int, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = folder / "server"
        variables = {"TRACKSIDE_HOME": str(home), "TRACKSIDE_S3": "embedded"}
        command = ["trackside.cli", "server", "--listen", "127.0.0.1:0", "--quiet"]
        with subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            try:
                assert server.stdout is not None
                url = server.stdout.readline().split()[-1]
                environment = _access(home, url)
                return _measure_hosts(folder, num_hosts, seconds, environment)
            finally:
                server.terminate()


def _access(home: Path, url: str) -> dict[str, str]:
    key, secret = AccessKeys(Home(home).server.root).create("bench", Rights.ADMIN)
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key.id,
        aws_secret_access_key=secret,
    )
    client.create_bucket(Bucket=BUCKET)
    return {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": key.id,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
    }


def _measure_hosts(
    folder: Path, num_hosts: int, seconds: float, environment: dict[str, str]
) -> dict[str, float]:
    """The two processes start together; each measures itself once it hears the others."""
    program = [sys.executable, "-m", "benchmarks.coordination"]
    given = [str(folder), str(num_hosts), str(seconds)]
    commands = [[*program, part, *given] for part in ("lead", "others")]
    processes = [
        subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        )
        for command in commands
    ]
    outputs = [process.communicate()[0] for process in processes]
    lead, others = (json.loads(output) for output in outputs)
    return {
        "sent": others["sent"] / seconds / (num_hosts - 1),
        "lead_sent": lead["sent"] / seconds / num_hosts,
        "lead_cpu": 100 * lead["cpu"] / seconds / num_hosts,
        "lead_cpu_all": 100 * lead["cpu"] / seconds,
        "lead_mib": lead["mib"],
        "most_silent_seconds": lead["most_silent_seconds"],
    }


# In the two processes


def coordinate(part: str, folder: Path, num_hosts: int, seconds: float) -> dict[str, float]:
    resources = {"InstanceType": "local", "InstanceCount": num_hosts, "VolumeSizeInGB": 1}
    output = {"S3OutputPath": f"s3://{BUCKET}/of-{num_hosts}"}
    request = training_request("job", OutputDataConfig=output, ResourceConfig=resources)
    spec = JobSpec.from_request(request)
    names = spec.hosts[:1] if part == "lead" else spec.hosts[1:]
    hosts = [_host(folder, spec, name) for name in names]
    for host in hosts:
        host.start()
        host.announce(HostRecord(phase=Phase.RUNNING))
    while not all(map(_hears_all, hosts)):
        time.sleep(0.2)
    time.sleep(10.0)  # until the other process has met all, too
    found = _go_on(hosts, seconds)
    time.sleep(10.0)  # the other process still measures
    for host in hosts:
        host.close()
    return found


def _host(folder: Path, spec: JobSpec, name: str) -> StoreCoordination:
    home = Home(folder / name)
    job = home.job("job")
    job.host(name, 1).root.mkdir(parents=True)
    Journal(job.journal).open()
    group = GroupRecord(addresses={}, interface="eth0", shares_files=False)
    return StoreCoordination(job, spec, name, 1, Settings(home=home.root), group)


def _hears_all(host: StoreCoordination) -> bool:
    assert host.mirror is not None
    peers = host.mirror.state.peers
    others = host.hosts[1:] if host.is_lead else host.hosts[:1]
    return all(name in peers and peers[name].heard is not None for name in others)


def _go_on(hosts: list[StoreCoordination], seconds: float) -> dict[str, float]:
    """As a job does in the middle of its training."""
    mirrors = [host.mirror for host in hosts if host.mirror is not None]
    began, cpu = time.monotonic(), time.process_time()
    sent = sum(mirror.num_requests for mirror in mirrors)
    changed_at, most_silent = began, 0.0
    while (now := time.monotonic()) - began < seconds:
        if now - changed_at > _CHANGE_SECONDS:
            changed_at = now
            for host in hosts:
                host.announce(HostRecord(phase=Phase.RUNNING, tail=str(now)))
        silent = [each.silent_seconds for each in mirrors[0].state.peers.values()]
        most_silent = max([most_silent, *silent])
        time.sleep(1.0)
    return {
        "sent": sum(mirror.num_requests for mirror in mirrors) - sent,
        "cpu": time.process_time() - cpu,
        "mib": int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize() / 2**20,
        "most_silent_seconds": most_silent,
    }


if __name__ == "__main__":
    part, folder, number, seconds = sys.argv[1:]
    print(json.dumps(coordinate(part, Path(folder), int(number), float(seconds))))
