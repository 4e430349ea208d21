"""`python -m benchmarks [NAME ...] [--quick]`: run, print the tables, keep them.

A benchmark is a module of this folder with `run(quick: bool) -> Iterable[Comparison]`, each
printed as it comes.
"""

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks.report import as_table, write_json

NAMES = (
    "startup",
    "containers",
    "engines",
    "download",
    "pack",
    "unpack",
    "trial",
    "capture",
    "rank_figures",
    "memory",
    "curves",
    "series_store",
    "log_search",
    "heat_map",
    "inside",
    "rules",
    "rules_reaction",
    "hangs",
    "rules_cost",
    "job_cost",
    "same_numbers",
    "learnt_invariants",
    "finetuning",
    "finetuning_libraries",
    "s3_serve",
    "api",
    "coordination",
    "queue",
    "siege",
    "scale",
    "job_table",
    "page",
    "resume",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(NAMES)}; all when none")
    parser.add_argument("--quick", action="store_true", help="small inputs: a look, not a claim")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/.data/results.json"))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown benchmark {sorted(unknown)}; known: {', '.join(NAMES)}")
    comparisons = []
    for name in arguments.names or NAMES:
        for comparison in import_module(f"benchmarks.{name}").run(quick=arguments.quick):
            comparisons.append(comparison)
            print(as_table(comparison), flush=True)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    write_json(comparisons, arguments.json)
    print(f"Kept as {arguments.json}")


if __name__ == "__main__":
    main()
