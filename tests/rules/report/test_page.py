"""The page: whole, harmless whatever texts are in it, and of bounded size."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import browser
from tests.capture.trials import SMDEBUG_TRIAL
from tests.rules.profiling import START, Profiling
from tests.rules.recording import Recording
from trackside.capture.trial import create_trial
from trackside.curves.event_file import EventFile
from trackside.curves.event_reader import Curves, read
from trackside.records.finding import Finding
from trackside.records.rule_status import Evaluation, RuleStatus
from trackside.rules.report.charts import Axis, Line, line_chart, short
from trackside.rules.report.facts import Fact, Head, Material, Place
from trackside.rules.report.heat_cells import in_model_order, natural
from trackside.rules.report.heatmaps import NOT_FINITE, ZERO, heat_map, heat_map_card
from trackside.rules.report.markup import Html, document, element, prose
from trackside.rules.report.page import report_page
from trackside.rules.report.profiler_report import ProfilerReport
from trackside.rules.saved.profile import Profile

HOSTILE = "\"'></script></title><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\x1b[31m"


class Parsed(HTMLParser):
    """Elements with their attributes, and all text outside of scripts and styles."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def make_trial(folder: Path, names: list[str], num_steps: int = 12) -> Any:
    recording = Recording(folder)
    for step in range(num_steps):
        recording.step(step, {name: [0.1 * (step + 1), -0.2] for name in names})
    return recording.end()


def make_curves(folder: Path, **values: list[float]) -> Curves:
    for run in ("", "system/algo-1"):
        file = EventFile(folder / run)
        for tag, series in values.items():
            for step, value in enumerate(series):
                file.add((tag if not run else "cpu/total_percent", value, step, 1.7e9 + step))
        file.close()
    return read(folder)


def make_profile(folder: Path) -> tuple[Profile, ProfilerReport]:
    profiling = Profiling(folder)
    profiling.samples({"cpu": [[20, 30]] * 240})
    profiling.steps([0.5 if step % 18 == 7 else 0.1 for step in range(200)], start=START + 5)
    profile, rule = profiling.end(), ProfilerReport()
    profile.advance()
    list(rule.check(profile))
    return profile, rule


@pytest.fixture
def hostile(tmp_path):
    """Everything a user, a script or a job can name, named with malice."""
    profile, rule = make_profile(tmp_path / "profile")
    finding = Finding(
        rule=HOSTILE,
        message=HOSTILE,
        advice=HOSTILE,
        step=3,
        mode=HOSTILE,
        worker=HOSTILE,
        tensor=HOSTILE,
        value=float("nan"),
        threshold=1.0,
    )
    name = "gradient/" + HOSTILE.replace("\x1b", "")
    return Material(
        Head(
            HOSTILE,
            HOSTILE,
            [Fact(HOSTILE, HOSTILE)],
            [(HOSTILE, 3.0)],
            failure=HOSTILE,
            hyperparameters={HOSTILE: HOSTILE},
            places=[Place(HOSTILE, HOSTILE)],
        ),
        findings=[finding, finding, *rule.found],
        evaluations=[Evaluation(configuration=HOSTILE, rule=HOSTILE, details=HOSTILE)],
        curves=make_curves(tmp_path / "curves", **{HOSTILE: [1.0, 2.0]}),
        trial=make_trial(tmp_path / "trial", [name, "gradient/line\nbreak"]),
        profile=profile,
        profiler_rules=rule.rules,
        gaps=[HOSTILE],
        made=HOSTILE,
    )


def test_no_text_of_a_user_becomes_markup(hostile):
    parsed = Parsed(report_page(hostile))
    assert len(parsed.of("script")) == 1
    assert parsed.of("img") == []
    handlers = [key for _, attributes in parsed.elements for key in attributes if key[:2] == "on"]
    assert handlers == []
    links = [attributes["href"] for attributes in parsed.of("a")]
    assert all(link and link.startswith("#") for link in links)
    assert "<script>alert(1)</script>" in parsed.text
    assert "\x1b" not in parsed.text


def test_the_page_loads_nothing(hostile):
    page = report_page(hostile)
    parsed = Parsed(page)
    assert not [key for _, each in parsed.elements for key in each if key in ("src", "srcset")]
    assert parsed.of("link") == parsed.of("iframe") == []
    [policy] = [each for each in parsed.of("meta") if "http-equiv" in each]
    assert (policy["content"] or "").startswith("default-src 'none'")
    assert b"url(" not in page
    assert b"@import" not in page


def test_a_browser_draws_it_without_complaint_and_runs_no_other_script(hostile, tmp_path):
    path = tmp_path / "it's a #page.html"
    path.write_bytes(report_page(hostile))
    shown = browser.show(path, tmp_path / "browser")
    assert shown.complaints == []
    assert shown.is_drawn
    assert "<img" not in shown.dom


def test_the_browser_refuses_a_script_that_is_not_the_page_s_own(tmp_path):
    injected = Html("<script>document.title = 'taken'</script>")
    path = tmp_path / "page.html"
    path.write_bytes(document("mine", injected, style="", script="document.body.id = 'ran'"))
    shown = browser.show(path, tmp_path / "browser")
    assert "<title>mine</title>" in shown.dom
    assert 'id="ran"' in shown.dom
    assert any("Content Security Policy" in each for each in shown.complaints)


def test_the_likeliest_cause_comes_first_with_what_it_explains_folded_into_it():
    found = [
        Finding(rule="NothingLearnt", message="the loss stays", step=0),
        Finding(rule="LowGPUUtilization", message="idle", worker="algo-1"),
        Finding(rule="Mine", message="as I asked", step=5),
        Finding(rule="LearningRateZero", message="the rate is 0", step=3, advice="Raise it."),
    ]
    parsed = Parsed(report_page(Material(Head("job", "Completed"), findings=found)))
    heads = "1LearningRateZerocertain", "2Mine", "3LowGPUUtilizationlikely"
    places = [parsed.text.index(each) for each in heads]
    assert places == sorted(places)
    assert "It explains NothingLearnt" in parsed.text
    assert "All 2 findings" in parsed.text
    assert parsed.text.index("Diagnosis") < parsed.text.index("Raise it.")


def test_findings_of_one_rule_are_one_and_what_began_first_comes_first():
    found = [
        Finding(rule="Later", message="b", step=20, tensor="t", value=2.0, threshold=1.0),
        Finding(rule="Machine", message="c", worker="algo-1"),
        Finding(rule="First", message="a", step=10, tensor="deep.weight", value=1e-9),
        Finding(rule="Later", message="b2", step=15, tensor="u"),
    ]
    text = Parsed(report_page(Material(Head("job", "Completed"), findings=found))).text
    places = [text.index(each) for each in ("1First", "2Later", "3Machine")]
    assert places == sorted(places)
    assert "from step 15 on" in text
    assert "deep.weight" in text
    assert "value 1e-09" in text


def test_a_job_with_nothing_captured_still_has_a_page():
    head = Head("bare", "Failed", failure="exit code 1", phases=[("Training", 3.0)])
    parsed = Parsed(report_page(Material(head, gaps=["No curves. Write some."])))
    assert "No rule watched this job" in parsed.text
    assert "exit code 1" in parsed.text
    assert "No curves. Write some." in parsed.text
    anchors = {attributes["href"] for attributes in parsed.of("a")}
    assert anchors == {"#diagnosis", "#gaps"}


def test_a_long_failure_shows_its_cause_and_its_last_lines():
    said = "\n".join(f"frame {number}" for number in range(30))
    head = Head("bare", "Failed", cause="ValueError: no (exit code 1)", failure=said)
    page = report_page(Material(head)).decode()
    folded = page[page.index("<details>") : page.index("</details>")]
    assert "22 lines before" in folded
    assert folded.endswith("frame 0\n" + said[8 : said.index("\nframe 22")] + "</pre>")
    assert page.index("ValueError: no (exit code 1)") < page.index("<details>")
    assert page.index("</details>") < page.index("frame 22\n") < page.index("frame 29</pre>")


def test_a_failure_of_one_sentence_is_reported_once():
    head = Head("bare", "Failed", cause="The machine is gone.", failure="The machine is gone.")
    assert report_page(Material(head)).decode().count("The machine is gone.") == 1


def test_rules_are_listed_with_their_statuses(tmp_path):
    evaluations = [
        Evaluation(configuration="mine", rule="Overfit", status=RuleStatus.ISSUES_FOUND),
        Evaluation(configuration="DeadRelu", rule="DeadRelu", status=RuleStatus.NO_ISSUES_FOUND),
    ]
    profile, rule = make_profile(tmp_path)
    material = Material(
        Head("job", "Completed"),
        evaluations=evaluations,
        profile=profile,
        profiler_rules=rule.rules,
    )
    text = Parsed(report_page(material)).text
    assert "mine (Overfit)IssuesFound" in text
    assert "DeadReluNoIssuesFound" in text
    assert "LowGPUUtilizationnothing to watch" in text


def test_vitals_are_curves_unless_they_never_change_and_those_of_layers_a_map(tmp_path):
    recording = Recording(tmp_path)
    for step in range(12):
        changing = ["gradient_norm", "input/fingerprint", "activation/a/std", "activation/b/std"]
        values = {f"vitals/{name}": [step + 1.0] for name in changing}
        recording.step(step, {**values, "vitals/batch_size": [32.0]})
    material = Material(Head("job", "Completed"), trial=recording.end())
    parsed = Parsed(report_page(material))
    assert [each["aria-label"] for each in parsed.of("svg")] == ["gradient_norm"]
    assert "1 that never changedvitalvaluebatch_size32" in parsed.text
    [canvas] = parsed.of("canvas")
    assert canvas["height"] == "2"
    assert "a/std" in parsed.text


def levels(card: bytes) -> Any:
    [canvas] = Parsed(card).of("canvas")
    cells = np.frombuffer(base64.b64decode(canvas["data-heat"] or ""), "<u2")
    return cells.reshape(int(canvas["height"] or 0), int(canvas["width"] or 0))


def test_a_heat_map_has_a_row_for_each_layer_in_the_order_of_saving(tmp_path):
    names = [f"gradient/layer.{place}.weight" for place in (10, 2, 1)]
    drawn = heat_map(make_trial(tmp_path, names), sorted(names), "Gradients")
    assert drawn is not None
    assert drawn.names == tuple(names)
    assert drawn.steps.tolist() == list(range(12))
    assert np.allclose(drawn.levels[0], np.log10((0.1 * np.arange(1, 13) + 0.2) / 2))
    cells = levels(heat_map_card(drawn).encode())
    assert cells.shape == (3, 12)
    assert (cells[:, 0].max(), cells[:, -1].min()) == (0, 65_000)


def test_layers_of_smdebug_are_in_natural_order():
    trial = create_trial(str(SMDEBUG_TRIAL))
    names = trial.tensor_names()
    assert in_model_order(trial, [*reversed(names)]) == sorted(names, key=natural)
    assert sorted(["a10", "a2", "a1.b"], key=natural) == ["a1.b", "a2", "a10"]


def test_zeros_and_values_that_are_not_finite_stand_out(tmp_path):
    recording = Recording(tmp_path)
    for step, value in enumerate([1.0, 0.0, float("nan"), float("inf")]):
        recording.step(step, {"gradient/a": [value, value]})
    drawn = heat_map(recording.end(), ["gradient/a"], "Gradients")
    assert drawn is not None
    assert levels(heat_map_card(drawn).encode())[0, 1:].tolist() == [ZERO, NOT_FINITE, NOT_FINITE]


def test_many_steps_and_many_layers_stay_within_bounds(tmp_path):
    names = [f"gradient/layer.{place}" for place in range(320)]
    recording = Recording(tmp_path)
    for step in range(450):
        values: dict[str, Any] = {name: [1.0] for name in names}
        values["gradient/layer.7"] = [float("nan") if step == 333 else 1.0]
        recording.step(step, values)
    drawn = heat_map(recording.end(), names, "Gradients")
    assert drawn is not None
    assert drawn.levels.shape == (300, 400)
    assert drawn.left_out == 20
    [row] = [place for place, name in enumerate(drawn.names) if name.endswith(".7")]
    assert (drawn.levels[row] == np.inf).sum() == 1  # one NaN in 450 steps is still seen
    assert len(heat_map_card(drawn)) < 1e6


def test_a_curve_of_a_million_points_is_thinned_with_its_spike():
    values = np.zeros(1_000_000)
    values[123_456] = 9.0
    chart = line_chart("loss", [Line("loss", np.arange(1_000_000), values)])
    assert len(chart) < 40_000
    assert ",9.0," in chart.replace("&quot;", '"')


def test_a_curve_breaks_where_it_is_not_finite():
    chart = line_chart("loss", [Line("", np.arange(4), np.array([1.0, 2.0, np.nan, 3.0]))])
    [path] = re.findall(r'<path d="([^"]*)" class="curve s0">', chart)
    assert path.count("M") == 2
    assert chart.count('class="broken"') == 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 100, [0, 20, 40, 60, 80, 100]), (0.03, 0.07, [0.03, 0.04, 0.05, 0.06, 0.07])],
)
def test_ticks_are_round(low, high, expected):
    assert np.allclose(Axis(low, high, 0, 1).ticks(), expected)


def test_there_is_no_tick_between_two_steps():
    assert np.allclose(Axis(0, 1, 0, 1, is_whole=True).ticks(), [0, 1])
    chart = line_chart("loss", [Line("loss", np.array([0, 1]), np.array([2.0, 1.0]))])
    assert ">0.5<" not in re.sub(r"data-chart=\S+", "", chart).partition("tick x")[2]


def test_small_values_of_a_logarithmic_axis_are_not_called_zero():
    chart = line_chart("p", [Line("p", np.arange(3), np.array([1e-15, 1e-8, 1.0]))])
    labels = re.findall(r'class="tick y">([^<]+)', chart)
    assert "0" not in labels
    assert "1e-15" in labels


def test_a_chart_states_what_its_axis_and_its_marks_are():
    chart = line_chart("loss", [Line("loss", np.arange(3), np.array([1.0, np.nan, 2.0]))])
    assert ">step<" in chart
    assert "▼ not finite" in chart
    assert "not finite" not in line_chart("loss", [Line("loss", np.arange(2), np.arange(2.0))])


def test_values_far_apart_are_drawn_by_their_logarithms():
    axis = Axis.around(np.array([1e-6, 1.0]), 0, 1, may_be_log=True)
    assert axis.is_log
    assert np.allclose(axis.place(np.array([1e-6, 1e-3, 1.0])), [0, 0.5, 1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (12345, "12.3k"),
        (2.5e6, "2.5M"),
        (1e28, "1e28"),
        (1e-9, "1e-09"),
        (-2.5e-4, "-2.5e-04"),
    ],
)
def test_numbers_of_axes_are_short(value, expected):
    assert short(value) == expected


def test_plain_text_is_escaped_and_markup_is_not():
    made = element("b", "<", element("i", "&"), class_="a b", title='"', hidden=True, id=None)
    assert made == '<b class="a b" title="&quot;" hidden>&lt;<i>&amp;</i></b>'


def found(page: Material) -> str:
    """The first tile, with its style."""
    match = re.search(r'<div class="tile"><b( class="\w+")?>(.*?)</b>', report_page(page).decode())
    assert match is not None
    return f"{match[1] or ''} {match[2]}".strip()


def test_findings_are_coloured_whatever_became_of_the_job():
    head = Head("job", "Completed")
    grave = Finding(rule="Overfit", message="it overfits", step=3)
    assert found(Material(head, findings=[grave])) == 'class="bad" 1'
    slow = Finding(rule="SlowDataLoading", message="slow", step=3)
    assert found(Material(head, findings=[slow, slow])) == 'class="warn" 2'
    watched = [Evaluation(configuration="mine", rule="Overfit")]
    assert found(Material(head, evaluations=watched)) == 'class="good" none'
    assert found(Material(head)) == 'class="quiet" not watched'


def test_few_points_are_marked_and_many_are_not():
    steps = np.arange(3)
    assert line_chart("few", [Line("a", steps, steps * 1.0)]).count("<circle") == 3
    steps = np.arange(100)
    assert line_chart("many", [Line("a", steps, steps * 1.0)]).count("<circle") == 0


def test_training_and_validation_are_drawn_in_one_chart(tmp_path):
    curves = make_curves(tmp_path, **{"train/loss": [3.0, 2.0], "val/loss": [3.1, 2.5]})
    parsed = Parsed(report_page(Material(Head("job", "Completed"), curves=curves)))
    assert [each["aria-label"] for each in parsed.of("svg")] == ["loss", "Processors"]
    assert "trainval" in parsed.text


def test_a_heat_map_of_uneven_steps_is_drawn_to_scale(tmp_path):
    recording = Recording(tmp_path)
    for step in (0, 5, 10, 14, 19, 64):
        recording.step(step, {"gradient/a": [step + 1.0, step + 1.0]})
    drawn = heat_map(recording.end(), ["gradient/a"], "Gradients")
    assert drawn is not None
    assert len(drawn.steps) == 64 // 4 + 1, "as wide as the closest two are apart"
    assert np.allclose(np.diff(drawn.starts), np.diff(drawn.starts)[0])
    shown = dict(zip(drawn.starts.tolist(), drawn.steps.tolist(), strict=True))
    assert all(step <= start + 68 / 17 for start, step in shown.items())
    assert [*dict.fromkeys(drawn.steps.tolist())] == [0, 5, 10, 14, 19, 64]
    assert (drawn.steps == 19).sum() > 8, "two thirds of the steps have nothing newer"


def test_the_figures_of_a_machine_that_hosts_share_are_drawn_once(tmp_path):
    for host in ("algo-1", "algo-2"):
        file = EventFile(tmp_path / "system" / host)
        for step in range(3):
            for tag in ("cpu/total_percent", "script/cpu_percent"):
                file.add((tag, 10.0, step, 1.7e9 + step))
        file.close()
    head, curves = Head("job", "Completed"), read(tmp_path)
    shared = Parsed(report_page(Material(head, curves=curves, is_one_machine=True)))
    assert shared.text.count("algo-2") == 1, "of the scripts only"
    apart = Parsed(report_page(Material(head, curves=curves)))
    assert apart.text.count("algo-2") == 2


def test_what_is_in_backticks_is_code_and_everything_is_escaped():
    shown = prose("Call `<b>.step()` & <i>, ` too")
    assert shown == "Call <code>&lt;b&gt;.step()</code> &amp; &lt;i&gt;, ` too"
