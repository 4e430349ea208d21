"""One custom rule on a small trial: here, or on a machine that gives its user less.

`python -m tests.rules.custom.judging FOLDER` is such a machine: namespaces hide what is not to be
there, and the evaluator's side runs as a user without rights.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import trackside
from tests.rules.recording import Recording
from trackside.files import durable
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.spec import JobSpec, RuleConfiguration
from trackside.records.status import Secondary
from trackside.rules.custom.custom_rule import CustomRule
from trackside.rules.watched_job import WatchedJob
from trackside.settings import Settings
from trackside.system import linux_calls as linux

NUM_STEPS = 3
SECONDS = 120.0
USER = 54321
IS_ROOT = sys.platform == "linux" and os.geteuid() == 0


@dataclass(frozen=True)
class Judged:
    failure: str
    messages: tuple[str, ...]
    last_step: int | None
    log: str


def make_job(home: Path, settings: Mapping[str, str], **who: str) -> WatchedJob:
    """A job whose script has saved a loss at each of three steps, and has ended; `who` submitted
    it, as its journal has it."""
    spec = JobSpec.from_request(
        {
            "TrainingJobName": "job-1",
            "HyperParameters": {"sagemaker_program": "train.py"},
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "DebugHookConfig": {"S3OutputPath": "s3://bucket/debug"},
        }
    )
    folder = Home(home).job("job-1")
    folder.rules.root.mkdir(parents=True)
    durable.write_json(folder.spec, spec.to_request())
    journal = Journal(folder.journal)
    journal.open(**who)
    for status in (Secondary.DOWNLOADING, Secondary.TRAINING):
        journal.move(status)
    record(folder.host("algo-1", 1).inside("/opt/ml/output/tensors"))
    return WatchedJob(folder, spec, Settings.load({"TRACKSIDE_HOME": str(home), **settings}))


def record(folder: Path) -> None:
    folder.mkdir(parents=True)
    recording = Recording(folder)
    for step in range(NUM_STEPS):
        recording.step(step, {"loss": 0.5 + step})
    recording.end()


def configured(source: Path, **parameters: str) -> RuleConfiguration:
    given = {"source_s3_uri": str(source), "rule_to_invoke": "check", **parameters}
    return RuleConfiguration(name="Mine", parameters=given)


def start(job: WatchedJob, source: str, **parameters: str) -> CustomRule:
    path = job.settings.home.parent / "mine.py"
    path.write_text(source)
    return CustomRule(job, configured(path, **parameters), 0)


def outcome(job: WatchedJob, rule: CustomRule, is_enough: Callable[[], bool] = bool) -> Judged:
    """When it has ended, by itself or not."""
    messages: list[str] = []
    deadline = time.monotonic() + SECONDS
    while not rule.is_over and not is_enough():
        assert time.monotonic() < deadline, "the rule neither ends nor is ended"
        messages += [found.message for found in rule.findings(is_last=True)]
        select.select([] if rule.is_over else [rule], [], [], 0.05)
    log = (job.folder.rules.custom(0, "Mine") / "log").read_text()
    return Judged(rule.failure, tuple(messages), rule.last_step, log)


def judge(home: Path, source: str, settings: Mapping[str, str], **parameters: str) -> Judged:
    return judge_job(make_job(home, settings), source, **parameters)


def judge_job(job: WatchedJob, source: str, **parameters: str) -> Judged:
    rule = start(job, source, **parameters)
    try:
        return outcome(job, rule)
    finally:
        rule.close()


def judge_elsewhere(
    folder: Path,
    source: str,
    settings: Mapping[str, str],
    *,
    user: int = USER,
    covered: tuple[str, ...] = (),
    has_namespaces: bool = True,
    who: Mapping[str, str] | None = None,
) -> Judged:
    """As this user, without what is covered; `folder` is world-writable and found by everybody.

    As root only; a user without rights is on such a machine already.
    """
    plan = {
        "source": source,
        "settings": dict(settings),
        "user": user,
        "covered": covered,
        "has_namespaces": has_namespaces,
        "who": dict(who or {}),
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.rules.custom.judging", str(folder)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=SECONDS + 30,
    )
    assert ended.returncode == 0, ended.stderr
    reported: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return Judged(**{**reported, "messages": tuple(reported["messages"])})


def main(folder: Path) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount(None, "/", flags=linux.MS_SLAVE | linux.MS_REC)
    for place in plan["covered"]:
        linux.mount("covered", place, "tmpfs")
    before = os.umask(0o022)
    _open_the_way()
    os.umask(before)
    if not plan["has_namespaces"]:
        _lose_namespaces(folder / "root")
    if plan["user"]:
        os.setgroups([])
        os.setresgid(plan["user"], plan["user"], plan["user"])
        os.setresuid(plan["user"], plan["user"], plan["user"])
        linux.set_dumpable(True)
    job = make_job(folder / "home", plan["settings"], **plan["who"])
    reported = asdict(judge_job(job, plan["source"]))
    sys.stdout.write(json.dumps(reported) + "\n")


def _lose_namespaces(root: Path) -> None:
    """The same machine in another root, where the kernel makes no user namespaces."""
    root.mkdir()
    linux.bind("/", str(root))
    os.chroot(root)
    os.chdir("/")


def _open_the_way() -> None:
    """To Python and to us, as on a machine on which users may use them."""
    wanted = (sys.prefix, sys.base_prefix, str(Path(trackside.__file__).parent))
    closed: dict[Path, list[str]] = {}
    for path in wanted:
        for above in reversed(Path(path).parents):
            if not above.stat().st_mode & 0o001:
                closed.setdefault(above, []).append(path)
                break
    for above, paths in closed.items():
        found = [(path, os.open(path, os.O_PATH)) for path in paths]
        linux.mount("covered", str(above), "tmpfs", data="mode=755")
        for path, descriptor in found:
            os.makedirs(path)
            linux.bind(f"/proc/self/fd/{descriptor}", path)
            os.close(descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
