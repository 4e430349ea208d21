"""How the machine was used, over all: figures without a verdict."""

from collections.abc import Iterator
from typing import Any

from trackside.curves.machine_curves import DIMENSION_TITLES
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.profiler.profiler_rule import CPU, ProfilerRule
from trackside.rules.profiler.summaries import overall
from trackside.rules.saved.profile import Profile, Window
from trackside.rules.saved.profile_tables import NodeTable


@dataclass
class OverallSystemUsage(ProfilerRule):
    """Never fires. Its report shows how much of each resource every node used."""

    def judge(self, window: Window) -> Iterator[Finding]:
        for node in window.profile.nodes:
            self.datapoints += len(window.samples(node, CPU))
        return iter(())

    def details(self, profile: Profile) -> dict[str, Any]:
        return system_usage(profile)


def system_usage(profile: Profile) -> dict[str, Any]:
    """By node and resource, and by core, GPU or card below them: max p99 p95 p50 min."""
    return {
        node: {
            title: {
                name: overall(table.samples(dimension).column(name))
                for name in table.names(dimension)
            }
            for dimension, title in ordered_dimensions(table)
        }
        for node, table in sorted(profile.nodes.items())
    }


def ordered_dimensions(table: NodeTable) -> list[tuple[str, str]]:
    """With their titles; unknown ones come last, under their own names."""
    known = list(DIMENSION_TITLES)
    found = [each for each in known if each in table.dimensions]
    found += [each for each in table.dimensions if each not in known]
    return [(each, DIMENSION_TITLES.get(each, each)) for each in found]
