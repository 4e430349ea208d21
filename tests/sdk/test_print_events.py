"""What `fit` prints: statuses between whole lines of the log."""

import builtins
import io
import json
from typing import Any

from trackside.jobs.logs import LogLine
from trackside.records.journal import History, fold_lines
from trackside.records.rule_status import Evaluation, RuleStatus
from trackside.sdk.print_events import LinePrinter, shown_on

START = "2026-11-16 09:25:35,758 trackside-toolkit INFO     Invoking user script\n"


def history(*moves: str, message: str = "") -> History:
    events: list[dict[str, Any]] = [
        {"kind": "status", "seq": 1, "time": 0.0, "secondary": "Starting"}
    ]
    for number, move in enumerate(moves, 2):
        events.append({"kind": "status", "seq": number, "time": float(number), "secondary": move})
    if message:
        events.append({"kind": "message", "seq": 99, "time": 99.0, "message": message})
    return fold_lines(json.dumps(event).encode() for event in events)


def line(data: bytes, host: str = "algo-1") -> LogLine:
    return LogLine(host, 1, 0, 0.0, data)


def printed(*items: History | LogLine | Evaluation, num_hosts: int = 1) -> str:
    out = io.StringIO()
    printer = LinePrinter(out, num_hosts=num_hosts)
    for item in items:
        printer.show(item)
    return out.getvalue()


def statuses(text: str) -> list[str]:
    return [shown[20:] for shown in text.splitlines()]


def test_each_status_is_a_line_once():
    before, after = history("Downloading"), history("Downloading", "Training")
    assert statuses(printed(before, before, after)) == [
        "Starting - Starting the training job",
        "Downloading - Downloading input data",
        "Training - Training in progress.",
    ]


def test_a_message_that_changes_is_shown_again():
    shown = printed(history("Downloading"), history("Downloading", message="3 of 7 files"))
    assert statuses(shown)[-1] == "Downloading - 3 of 7 files"


def test_the_text_of_a_single_host_is_passed_on_as_it_is():
    parts = [b"a\n", b"10%\r20%\r", b"done\n", b"\x1b[31mred\n"]
    assert printed(*map(line, parts)) == "a\n10%\r20%\rdone\n\x1b[31mred\n"


def test_a_character_cut_in_two_is_put_together_again():
    whole = "grün\n".encode()
    assert printed(line(whole[:3]), line(whole[3:])) == "grün\n"
    assert printed(line(b"\xff\n")) == "\ufffd\n"


def test_a_status_never_lands_in_the_middle_of_a_line():
    shown = printed(line(b"half"), history(), line(b"rest\n")).splitlines()
    assert shown[0] == "half"
    assert shown[1].endswith("Starting - Starting the training job")
    assert shown[2] == "rest"


def test_with_several_hosts_each_line_says_whose_it_is():
    items = [line(b"a"), line(b"b\n"), line(b"x\n", "algo-2"), line(b"c"), line(b"y\n", "algo-2")]
    assert printed(*items, num_hosts=2).splitlines() == [
        "algo-1 | ab",
        "algo-2 | x",
        "algo-1 | c",
        "algo-2 | y",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Tee:
    """As scripts put it in place of `sys.stdout`: nothing but what `print` needs."""

    def write(self, text: str) -> None: ...


def printed_on(out: Any) -> str:
    log = [START, "  SM_HOSTS=[]\n", "  python -- train.py\n"]
    items = [LogLine("algo-1", 1, 0, 0.0, part.encode()) for part in log]
    return "".join(item.data.decode() for item in shown_on(out, items))


def test_a_person_at_a_terminal_is_spared_the_variables():
    assert printed_on(Terminal()) == f"{START}  python -- train.py\n"


def test_a_person_at_a_notebook_is_spared_them_too(monkeypatch):
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    assert printed_on(io.StringIO()) == f"{START}  python -- train.py\n"


def test_a_file_gets_every_line():
    assert "SM_HOSTS" in printed_on(io.StringIO())
    assert "SM_HOSTS" in printed_on(Tee())


def test_a_rule_without_data_is_a_quiet_line_once_the_job_has_failed():
    said = "ClientError: No debugging data was saved by the training job. Check that …"
    rule = Evaluation(
        configuration="Checkup", rule="Checkup", status=RuleStatus.ERROR, details=said
    )
    assert printed(history("Failed"), rule).splitlines()[-1] == (
        "Checkup: nothing was saved to judge before the job failed"
    )
    assert said in printed(history("Completed"), rule)
