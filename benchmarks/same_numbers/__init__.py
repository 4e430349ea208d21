"""Whether a watched training gives the same numbers, bit for bit: scripts of the zoo in plain
Python and watched as by `--rule all`.

`python -m benchmarks same_numbers` goes on with the series where it was stopped: results are kept
in `benchmarks/.data/same_numbers.jsonl`. `--quick` takes five. `python -m benchmarks.same_numbers`
has options for a part of the series, and for scripts by name.
"""

from benchmarks.same_numbers.series import run

__all__ = ["run"]
