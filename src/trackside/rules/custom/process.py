"""`python -m trackside.rules.custom.process`: one rule of the user's, apart from everything else.

Its plan is the first line of stdin, a JSON object; a line `over` follows when the job has ended.
What it has to say goes out as JSON lines. `custom_rule.py` is the other side.
"""

import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from trackside.capture.trial import Trial
from trackside.finding import Finding
from trackside.rules.custom import rule_source
from trackside.rules.custom.judge import CustomJudge
from trackside.rules.failing import trace_end
from trackside.rules.saved import feeds
from trackside.storage.locate import locate


def main() -> int:
    channel = Channel()
    plan = channel.read_plan()
    try:
        Watcher(plan, channel).run()
    except Exception as error:  # noqa: BLE001 the user's code: told, whole, and the end of it
        lift_limit()
        traceback.print_exc()
        channel.say("failure", text=_told(error, plan))
        return 1
    channel.say("over")
    return 0


class Channel:
    """The two pipes to the evaluator, out of the reach of a rule that prints or reads.

    Owns a thread that ends this process when the evaluator has gone, whatever the rule is at.
    """

    def __init__(self) -> None:
        self._in, self._out = os.fdopen(os.dup(0), "rb"), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)
        self._over = Event()

    def read_plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads(self._in.readline())
        Thread(target=self._listen, name="trackside-evaluator", daemon=True).start()
        return plan

    def is_told_over(self) -> bool:
        """Whether the job has ended."""
        return self._over.is_set()

    def _listen(self) -> None:
        for _ in self._in:
            self._over.set()
        os._exit(1)

    def say(self, kind: str, **what: Any) -> None:
        line = json.dumps({"kind": kind, **what}).encode() + b"\n"
        while line:
            line = line[os.write(self._out, line) :]

    @contextmanager
    def timed(self, step: int | None) -> Iterator[None]:
        """The evaluator's clock runs while the rule's own code does."""
        self.say("begins", step=step)
        yield
        self.say("looked", step=step)


class Watcher:
    """Asks one rule about each step, as they come."""

    def __init__(self, plan: dict[str, Any], channel: Channel) -> None:
        self._name: str = plan["rule"]
        self._texts: dict[str, str] = plan["parameters"]
        self._home = Path(plan["home"])
        self._channel = channel
        rule_source.make_smdebug_importable()
        limit_memory(plan["memory_bytes"])
        self._rule = self._load(plan)
        channel.say("looked", step=None)  # loaded: from here on it waits
        place = None if plan["trial"] is None else locate(plan["trial"], home=self._home)
        self._feed = feeds.tensors(place, self._home)

    def run(self) -> None:
        judge: CustomJudge | None = None
        while judge is None or not judge.is_at_end:
            is_last = self._channel.is_told_over()
            if self._feed.advance(last=is_last):
                evidence = self._feed.evidence
                if judge is None:
                    judge = self._make(evidence.trial)
                for step in filter(judge.wants, evidence.steps):
                    with self._channel.timed(step):
                        self._say(judge.finding(step))
                if evidence.is_all:
                    return
            elif is_last and self._feed.evidence is None:
                return
            else:
                time.sleep(feeds.LOCAL_SECONDS)

    def _load(self, plan: dict[str, Any]) -> Callable[..., Any]:
        if not plan["source"]:
            rule: Callable[..., Any] = rule_source.installed()[self._name].load()
            return rule
        path = rule_source.fetch(plan["source"], Path(plan["folder"]), self._home)
        return rule_source.find(rule_source.load(path), self._name)

    def _make(self, trial: Trial) -> CustomJudge:
        with self._channel.timed(None):
            return CustomJudge(self._rule, self._name, self._texts, trial, self._home)

    def _say(self, finding: Finding | None) -> None:
        if finding is not None:
            self._channel.say("finding", line=finding.to_line().decode())


def limit_memory(size_bytes: int) -> None:
    """Private, writable memory, which an allocation asks for and is refused at once.

    Not the address space, of which a mere `import torch` maps gigabytes; and not the resident
    size, which can only be looked at afterwards, when the machine may have nothing left.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (size_bytes, resource.RLIM_INFINITY))


def lift_limit() -> None:
    """To be able to tell of it."""
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _told(error: Exception, plan: dict[str, Any]) -> str:
    if isinstance(error, MemoryError):
        gigabytes = plan["memory_bytes"] / (1 << 30)
        return (
            f"ClientError: the rule used more than {gigabytes:g} GB of memory. Let it keep less, "
            f"or raise TRACKSIDE_RULE_MEMORY_GB.\n{trace_end(error)}"
        )
    return f"ClientError: {trace_end(error)}"


if __name__ == "__main__":
    sys.exit(main())
