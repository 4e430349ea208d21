"""One frame of `trackside watch`: the sentence, what to try, charts, the machine, the log. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trackside.cli.chart import EVENT_STYLE, FRAME_ROWS, LEAST_ROWS
from trackside.cli.metric_view import MOST_LINES, group_chart
from trackside.cli.styled_text import Text, cell_len
from trackside.cli.tables import status_style
from trackside.cli.text import duration
from trackside.curves.curve_choice import Curve, groups
from trackside.texts.terminal_text import one_line
from trackside.views.job.live_job import Snapshot
from trackside.views.logs.log_tail import TailLine

LEAST_COLUMNS, LEAST_LINES = 40, 10
_CHART_ROWS = 12
"""From twice this height on, there are two charts."""
_LOG_ROWS = 5
_MOST_SENTENCE_ROWS = 4
_MOST_ADVICE_ROWS = 3
_MOST_MARKS = 8
HELP = (
    ("q", "quit; the job runs on"),
    ("s", "stop the job"),
    ("tab", "next metric; shift-tab: the one before"),
    ("l", "more or less of the log"),
    ("?", "this help"),
)


@dataclass(frozen=True, slots=True)
class Ui:
    """What the user chose."""

    metric: int = 0
    """Number of the first chart; any integer, taken modulo the number of charts."""
    is_log_large: bool = False
    is_help: bool = False
    asks_to_stop: bool = False
    note: str = ""
    """The result of the last action, or why nothing is new."""
    is_ascii: bool = False

    def pressed(self, key: str) -> "Ui":
        """After a key that only changes the view."""
        if self.is_help:
            return replace(self, is_help=False)
        match key:
            case "\t":
                return replace(self, metric=self.metric + 1)
            case "\x1b[Z":
                return replace(self, metric=self.metric - 1)
            case "l":
                return replace(self, is_log_large=not self.is_log_large)
            case "?" | "h":
                return replace(self, is_help=True)
            case _:
                return self


def frame(seen: Snapshot, ui: Ui, columns: int, rows: int | None, *, keys: bool) -> list[Text]:
    """At most `rows` lines, of at most so many columns; without `rows`, as many as are useful."""
    columns = max(columns, LEAST_COLUMNS)
    head = [*_head(seen, columns), *_sentence(seen, columns)]
    foot = [*_use(seen, columns), *([_footer(seen, ui)] if keys else [])]
    if ui.is_help:
        body = [Text(f"  {key:<5}{meaning}") for key, meaning in HELP]
    elif rows is None:
        body = [*_charts(seen, ui, columns, 2 * _CHART_ROWS), *_log(seen, columns, _LOG_ROWS)]
    else:
        body = _body(seen, ui, columns, max(rows, LEAST_LINES) - len(head) - len(foot))
    shown = [*head, *body, *foot]
    return [each.cropped(columns) for each in _fitted(shown, len(foot), rows)]


def update_line(seen: Snapshot) -> str:
    """One line, for output that is no terminal."""
    parts = [_progress(seen), *(f"{curve.name} {_last(curve)}" for curve in seen.curves[:3])]
    return f"{', '.join(filter(None, parts))}: {seen.view.sentence}"


def _fitted(lines: list[Text], num_last: int, rows: int | None) -> list[Text]:
    """Too many are left out above the last ones."""
    if rows is None or len(lines) <= rows:
        return lines
    num_last = min(num_last, rows - 1)
    return [*lines[: rows - num_last], *lines[len(lines) - num_last :]]


def _body(seen: Snapshot, ui: Ui, columns: int, room: int) -> list[Text]:
    if room < 1:
        return []
    log_rows = room // 2 if ui.is_log_large else min(_LOG_ROWS, room // 3)
    drawn = _charts(seen, ui, columns, room - log_rows - 1)
    log = _log(seen, columns, room - len(drawn) - 1)
    empty = [Text("")] * (room - len(drawn) - len(log))
    return [*drawn, *empty, *log]


def _head(seen: Snapshot, columns: int) -> Iterator[Text]:
    view = seen.view
    shown = Text(one_line(view.shown), "bold").append("  ")
    shown.append(view.secondary, status_style(view.status))
    for part in (_progress(seen), _duration(seen), _left(seen)):
        if part and cell_len(shown.plain) + cell_len(part) + 2 <= columns:
            shown.append(f"  {part}", "dim")
    yield shown


def _progress(seen: Snapshot) -> str:
    if seen.step is None:
        return ""
    if seen.of is None or seen.of <= seen.step:
        return f"step {seen.step:,}"
    return f"step {seen.step:,} of {seen.of:,}, {seen.step / seen.of:.0%}"


def _left(seen: Snapshot) -> str:
    """By the speed so far."""
    if seen.is_over or not seen.seconds or not seen.step or not seen.of or seen.of <= seen.step:
        return ""
    return f"about {duration(seen.seconds * (seen.of - seen.step) / seen.step)} left"


def _duration(seen: Snapshot) -> str:
    return "" if seen.seconds is None else duration(seen.seconds)


def _sentence(seen: Snapshot, columns: int) -> Iterator[Text]:
    view = seen.view
    is_wrong = bool(view.diagnoses) or view.failure is not None
    style = "bold red" if is_wrong else "green" if view.sentence.startswith("Healthy") else "yellow"
    yield from _wrapped(Text(view.sentence, style), columns, _MOST_SENTENCE_ROWS)
    advice = view.diagnoses[0].advice if view.diagnoses else ""
    if view.failure is not None and view.failure.hint:
        advice = view.failure.hint
    if advice:
        yield from _wrapped(Text(f"Try: {one_line(advice)}"), columns, _MOST_ADVICE_ROWS)
    if len(view.diagnoses) > 1:
        others = ", ".join(each.cause for each in view.diagnoses[1:])
        yield Text(f"Also: {one_line(others)}", "dim")
    yield Text("")


def _wrapped(text: Text, columns: int, most: int) -> list[Text]:
    lines = [*text.wrapped(columns)]
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1].cropped(columns - 2).append(" …")]
    return lines


def _charts(seen: Snapshot, ui: Ui, columns: int, room: int) -> list[Text]:
    """Of the chosen metric and, if there is room, of those after it."""
    if room < FRAME_ROWS + LEAST_ROWS:
        return []
    drawable = _drawable(seen.curves)
    if not drawable:
        return [Text("No curves yet.", "dim")]
    marked = _marked(seen)
    legend = [_legend(marked, is_ascii=ui.is_ascii)] if marked else []
    room -= len(legend)
    count = max(1, min(len(drawable), room // _CHART_ROWS))
    lines: list[Text] = []
    for number in range(count):
        group = drawable[(ui.metric + number) % len(drawable)]
        size = (columns, room // count)
        lines += group_chart(group, size, steps=[*marked], is_ascii=ui.is_ascii)
    return [*lines, *legend]


def _drawable(curves: Sequence[Curve]) -> list[list[Curve]]:
    """Curves of one metric together; those that move before those of one point."""
    found = [group[:MOST_LINES] for group in groups(curves) if any(len(c.series) for c in group)]
    return sorted(found, key=lambda group: max(len(each.series) for each in group) < 2)


def _marked(seen: Snapshot) -> dict[int, str]:
    """What went wrong, by the step at which it began."""
    found: dict[int, str] = {}
    for each in seen.view.diagnoses:
        if each.step is not None and (each.step in found or len(found) < _MOST_MARKS):
            before = f"{found[each.step]}, " if each.step in found else ""
            found[each.step] = before + one_line(each.cause)
    return found


def _legend(marked: dict[int, str], *, is_ascii: bool) -> Text:
    parts = [f"step {step:,}: {causes}" for step, causes in marked.items()]
    return Text("^ " if is_ascii else "▲ ", EVENT_STYLE).append("; ".join(parts), "dim")


def _use(seen: Snapshot, columns: int) -> Iterator[Text]:
    """As many figures as fit on a line."""
    shown = ""
    for label, value in seen.use.items():
        part = f"{', ' if shown else ''}{label} {value}"
        if cell_len(shown) + cell_len(part) > columns:
            break
        shown += part
    if shown:
        yield Text(shown, "dim")


def _log(seen: Snapshot, columns: int, room: int) -> list[Text]:
    """The last lines, below a line that separates them."""
    if room < 1:
        return []
    last: Sequence[TailLine] = seen.log[-room:]
    is_labelled = len(seen.view.hosts) > 1
    lines = [f"{each.host} | {each.text}" if is_labelled else each.text for each in last]
    return [Text("log", "dim underline"), *(Text(line) for line in lines)]


def _footer(seen: Snapshot, ui: Ui) -> Text:
    if ui.asks_to_stop:
        return Text(
            f"Stop {seen.view.shown}? Its output is kept. y: yes, any other key: no", "bold"
        )
    shown = Text("q quit  s stop  tab metric  l log  ? help", "dim")
    return shown.append(f"   {one_line(ui.note)}", "bold yellow") if ui.note else shown


def _last(curve: Curve) -> str:
    return f"{curve.series.values[-1]:.5g}"
