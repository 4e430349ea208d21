"""The text that Prometheus scrapes, read back by its own parser."""

import math
import threading

from prometheus_client.parser import text_string_to_metric_families

from trackside.api.exposition import Counter, Family, Histogram, page

Sample = tuple[str, tuple[tuple[str, str], ...]]


def read(*metrics: Family | Counter | Histogram) -> dict[Sample, float]:
    text = page(metrics).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_labels_of_any_text_come_back_as_they_were():
    odd = 'a "b" \\ c\nd, é}'
    found = read(Family("m", "With a \\ and\na newline.", [({"x": odd}, 1.5)]))
    assert found == {("m", (("x", odd),)): 1.5}


def test_a_histogram_counts_up_to_each_bound():
    histogram = Histogram("h", "x", ("s",), (0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe("a", value=value)
    found = read(histogram)
    bounds = {dict(labels)["le"]: n for (name, labels), n in found.items() if name == "h_bucket"}
    assert bounds == {"0.1": 2, "1": 3, "+Inf": 4}
    assert found["h_count", (("s", "a"),)] == 4
    assert math.isclose(found["h_sum", (("s", "a"),)], 7.65)


def test_counters_lose_nothing_when_many_add_at_once():
    counter = Counter("c_total", "x", ("s",))

    def add() -> None:
        for _ in range(1000):
            counter.add("a")

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(counter) == {("c_total", (("s", "a"),)): 8000}
