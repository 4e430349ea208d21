"""docs/job-folder.md has every name of `trackside.records.layout`, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

from trackside.coordination.mirror_files import TAKEN
from trackside.records.layout import FORMAT, HostFolder, JobFolder, JobKeys, RulesFolder

PAGE = Path(__file__).parent.parent.parent / "docs" / "job-folder.md"
JOB = JobFolder(Path("/job"))
HOST = HostFolder(Path("/host/ATTEMPT"))
RULES = RulesFolder(Path("rules"))
KEYS = JobKeys("OUTPUT", "NAME")
OF_SANDBOX = {"sandbox/intent.json", "sandbox/process.json", "sandbox/exit.json", "sandbox/lock"}
"""Names of the sandbox's own (`supervisor/sandbox_folder.py`)."""


def of_properties(owner: object) -> Iterator[str]:
    for name, member in vars(type(owner)).items():
        if isinstance(member, property):
            found = getattr(owner, name)
            yield str(found.root if isinstance(found, RulesFolder) else found)


def documented() -> set[str]:
    return set(re.findall(r"`([^`]+)`", PAGE.read_text()))


def of_folders() -> set[str]:
    attempt: int = "ATTEMPT"  # type: ignore[assignment]
    number: int = "NUMBER"  # type: ignore[assignment]
    job = {*of_properties(JOB), str(JOB.meeting(attempt)), str(JOB.end_order(attempt))}
    job.add(str(JOB.started_hosts(attempt)))
    job |= {f"{JOB.requests('HOST')}/ID{end}" for end in (".json", TAKEN)}
    host = {*of_properties(HOST), str(HOST.logger_state("KIND")), str(HOST.kept_list("HOST"))}
    host.add(str(HOST.machine("HOST")))
    rules = {*of_properties(RULES), str(RULES.custom(number, "NAME"))}
    below = {name.removeprefix("/job/") for name in job}
    below |= {name.removeprefix("/host/ATTEMPT/") for name in host}
    return (below | rules) - {"gang"}


def of_storage() -> set[str]:
    epoch: int = "EPOCH"  # type: ignore[assignment]
    keys = {*of_properties(KEYS), KEYS.input("CHANNEL"), KEYS.rule_source("DIGEST", "FILE")}
    keys.add(f"{KEYS.parts(epoch)}/HOST")
    return {key.removeprefix("OUTPUT/NAME/") for key in keys} - {"OUTPUT/NAME"}


def test_every_name_is_in_the_page() -> None:
    assert of_folders() - documented() == set()
    assert of_storage() - documented() == {"trackside/logs"}  # which has its chunks' full names


def test_every_name_of_the_page_is_in_the_layout() -> None:
    heads = re.findall(r"^- ((?:`[^`]+`[^:]*?)+):", PAGE.read_text(), re.MULTILINE)
    named = {name for head in heads for name in re.findall(r"`([^`]+)`", head)}
    known = of_folders() | of_storage() | OF_SANDBOX
    others = {"logger-files", "printed-metrics", "trackside/logs/HOST/ATTEMPT-OFFSET.log"}
    assert named - known - others == set()
    assert len(named) > 50


def test_the_page_has_the_present_format() -> None:
    assert f"`format`, now {FORMAT};" in PAGE.read_text().replace("\n  ", " ")
