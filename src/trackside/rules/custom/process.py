"""The process of one custom rule: runs inside the isolation of `isolation.py`.

The first line of stdin is its plan, a JSON object; a line `over` follows when the job has ended. It
writes its messages as JSON lines. `custom_rule.py` is the other end; `trial_server.py` serves the
data it reads.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from trackside.capture.trial import Trial
from trackside.records.finding import Finding
from trackside.rules.custom import limits, rule_source
from trackside.rules.custom.rule_loop import CustomJudge
from trackside.rules.custom.rule_messages import checked
from trackside.rules.custom.served_store import EvaluatorLine, ServedStore
from trackside.rules.parameters import other_trials
from trackside.rules.rule_failure import trace_end
from trackside.rules.saved import feeds
from trackside.storage.locate import Location


def main(line: int) -> int:
    """`line` is the descriptor of the socket to the trial server."""
    channel = Channel()
    plan = channel.read_plan()
    try:
        Watcher(plan, channel, EvaluatorLine(line)).run()
    except Exception as error:  # noqa: BLE001 the user's code: reported in full
        limits.use_reserve()
        traceback.print_exc()
        channel.say("failure", text=_failure_text(error, plan))
        return 1
    channel.say("over")
    return 0


class Channel:
    """The two pipes to the evaluator, out of reach of a rule that prints or reads.

    Owns a thread that ends this process when the evaluator has ended, whatever the rule is doing.
    """

    def __init__(self) -> None:
        self._in, self._out = os.fdopen(os.dup(0), "rb"), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)
        # What a rule prints is in the log before the rule can be ended.
        sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
        self._over = Event()
        os.register_at_fork(after_in_child=self._discard_output)

    def read_plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads(self._in.readline())
        Thread(target=self._listen, name="trackside-evaluator", daemon=True).start()
        return plan

    def is_end_requested(self) -> bool:
        """Whether the job has ended."""
        return self._over.is_set()

    def _listen(self) -> None:
        for _ in self._in:
            self._over.set()
        os._exit(1)

    def _discard_output(self) -> None:
        """In a forked child: its output is not read, for it is not the rule."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._out)
        os.close(null)

    def say(self, kind: str, **what: Any) -> None:
        line = json.dumps({"kind": kind, **what}).encode() + b"\n"
        while line:
            line = line[os.write(self._out, line) :]

    @contextmanager
    def timed(self, step: int | None) -> Iterator[None]:
        """The evaluator's timeout runs while the rule's own code does."""
        self.say("begins", step=step)
        yield
        self.say("checked", step=step)


class Watcher:
    """Invokes one rule for each step as it arrives."""

    def __init__(self, plan: dict[str, Any], channel: Channel, line: EvaluatorLine) -> None:
        self._name: str = plan["rule"]
        self._texts: dict[str, str] = plan["parameters"]
        self._channel = channel
        self._line = line
        rule_source.make_smdebug_importable()
        self._rule = self._load(plan)
        channel.say("checked", step=None)  # loaded: waits for steps from here on
        self._feed = self._feed_of(plan["trial"])

    def run(self) -> None:
        judge: CustomJudge | None = None
        while judge is None or not judge.is_at_end:
            is_last = self._channel.is_end_requested()
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
        path = rule_source.local_path(plan["source"], Path.cwd())
        path.write_bytes(self._line.ask("source"))
        return rule_source.find(rule_source.load(path), self._name)

    def _feed_of(self, uri: str | None) -> feeds.Feed:
        if uri is None:
            return feeds.tensors(None, Path.cwd())
        store = ServedStore(self._line, 0)
        return feeds.tensors(Location(store, "", uri), Path.cwd(), store.has_news)

    def _make(self, trial: Trial) -> CustomJudge:
        with self._channel.timed(None):
            return CustomJudge(self._rule, self._name, self._texts, trial, self._open)

    def _open(self, uri: str) -> Trial:
        """Open one of the trials named by the parameters; the evaluator numbers them from 1."""
        number = 1 + other_trials(self._texts).index(uri)
        return Trial(uri, location=Location(ServedStore(self._line, number), "", uri))

    def _say(self, finding: Finding | None) -> None:
        if finding is not None:
            self._channel.say("finding", line=checked(finding).to_line().decode())


def _failure_text(error: Exception, plan: dict[str, Any]) -> str:
    if isinstance(error, MemoryError):
        return f"{limits.memory_message(plan['memory_bytes'])}\n{trace_end(error)}"
    if limits.is_refused_process(error):
        return f"{limits.processes_message(plan['num_processes'])}\n{trace_end(error)}"
    return f"ClientError: {trace_end(error)}"
