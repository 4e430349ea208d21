"""The first lines of a job's report: its status, its key figures, where its files are."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from trackside.curves.curve_choice import all_curves, headline
from trackside.curves.event_reader import Curves
from trackside.jobs.artifacts import FILES, Artifact
from trackside.jobs.described_locations import num_hosts_of
from trackside.records.script_packages import ScriptPackages
from trackside.rules.report.facts import Fact, Head, Place
from trackside.texts.quantities import duration, size
from trackside.texts.secret_names import hidden
from trackside.texts.shown_names import shown_name
from trackside.views.job.failure_reason import in_short

MOST_FIGURES = 4
MOST_FILES = 12
"""Number of kept files listed."""
_RUNNING = ("InProgress", "Stopping")
_MODEL = "/output/model.tar.gz"


def head(
    described: Mapping[str, Any],
    curves: Curves | None,
    artifacts: Sequence[Artifact],
    packages: ScriptPackages | None,
) -> Head:
    name, status = shown_name(described["TrainingJobName"]), described["TrainingJobStatus"]
    return Head(
        name,
        status,
        [*_figures(described, curves), *_facts(described)],
        phases=list(_phases(described)),
        cause=in_short(described.get("FailureReason", "")),
        failure=described.get("FailureReason", ""),
        hyperparameters={
            key: hidden(key, value)
            for key, value in described.get("HyperParameters", {}).items()
            if not key.startswith("sagemaker_")
        },
        is_running=status in _RUNNING,
        places=[*_places(name, artifacts), *_packages(packages)],
    )


def _figures(described: Mapping[str, Any], curves: Curves | None) -> list[Fact]:
    """The metrics that the job defines; else the last values of the most useful curves."""
    defined = {
        each["Name"] for each in described["AlgorithmSpecification"].get("MetricDefinitions", ())
    }
    finals = {
        each["MetricName"]: each["Value"] for each in described.get("FinalMetricDataList", ())
    }
    chosen = {name: value for name, value in finals.items() if name in defined}
    for curve in headline(all_curves(curves), MOST_FIGURES) if curves else ():
        chosen.setdefault(curve.name, float(curve.series.values[-1]))
    shown = chosen or finals
    return [Fact(name, f"{value:.5g}") for name, value in [*shown.items()][:MOST_FIGURES]]


def _facts(described: Mapping[str, Any]) -> Iterator[Fact]:
    status = described["TrainingJobStatus"]
    start, end = described.get("TrainingStartTime"), described.get("TrainingEndTime")
    if described["SecondaryStatus"] != status:
        yield Fact("state", described["SecondaryStatus"])
    if start is not None:
        seconds = (end or datetime.now(UTC)) - start
        yield Fact("training", duration(seconds.total_seconds()))
    if (count := num_hosts_of(described)) > 1:
        yield Fact("hosts", str(count))
    yield Fact("created", f"{described['CreationTime']:%Y-%m-%d %H:%M} UTC")
    if described["Trackside"]["attempt"] > 1:
        yield Fact("attempt", str(described["Trackside"]["attempt"]))


def _phases(described: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for each in described["SecondaryStatusTransitions"]:
        end = each.get("EndTime") or datetime.now(UTC)
        if each["Status"] != described["TrainingJobStatus"]:  # the final one never changes
            yield each["Status"], max(0.0, (end - each["StartTime"]).total_seconds())


def _packages(known: ScriptPackages | None) -> Iterator[Place]:
    if known is not None:
        versions = (f"{name} {version}" for name, version in known.packages.items())
        yield Place("packages", ", ".join([f"python {known.python}", *versions]))


def _places(name: str, artifacts: Sequence[Artifact]) -> Iterator[Place]:
    for each in artifacts:
        many = f", {each.num_files:,} files" if each.num_files > 1 else ""
        kind = "model" if each.uri.endswith(_MODEL) else each.kind
        yield Place(f"{kind} ({size(each.size_bytes)}{many})", each.uri)
    kept = [file.path for each in artifacts if each.kind == FILES for file in each.files]
    if kept:
        more = f" and {len(kept) - MOST_FILES:,} more" if len(kept) > MOST_FILES else ""
        paths = ", ".join(kept[:MOST_FILES]) + more
        yield Place("left in the working folder", paths)
    if artifacts:
        yield Place("a copy of all of these", f"trackside artifacts {name} --download DIR")
    yield Place("log", f"trackside logs {name}")
    yield Place("curves in TensorBoard", f"trackside tensorboard {name}")
