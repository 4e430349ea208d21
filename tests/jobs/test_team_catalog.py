"""Two homes and one database: a name is one job's, and everybody sees every job."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN, make_spec, run_to_end
from tests.postgres_server import PostgresServer
from tests.wait import until
from trackside.errors import (
    DatabaseError,
    DatabaseUnreachable,
    InputError,
    JobElsewhere,
    JobExists,
    JobNotFinished,
    JobNotFound,
    StorageError,
)
from trackside.jobs.index import Order, Page
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import LogLine
from trackside.jobs.queue import no_limit
from trackside.jobs.start_supervisor import locked
from trackside.records.layout import JobFolder
from trackside.records.log_lines import chunk_name, encode
from trackside.records.owners import Submitter, local_owner
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.storage.folder import FolderStore
from trackside.views.problems.issues import Issues


@pytest.fixture
def join(tmp_path: Path) -> Iterator[Callable[[str, str], Jobs]]:
    """Jobs of a home of this name, in this database."""

    def make(name: str, url: str) -> Jobs:
        environ = {"TRACKSIDE_HOME": str(tmp_path / name), "TRACKSIDE_DATABASE": url}
        jobs = Jobs(Settings.load(environ), ENVIRON, supervisor_command=STAND_IN)
        open_jobs.enter_context(jobs.index_kept_open())
        return jobs

    with ExitStack() as open_jobs:
        yield make
    end_processes_of(tmp_path)


@pytest.fixture
def here(join, database: str) -> Jobs:
    return join("here", database)


@pytest.fixture
def there(join, database: str) -> Jobs:
    return join("there", database)


@pytest.fixture
def shared(tmp_path: Path) -> str:
    """An output location that both can read."""
    return str(tmp_path / "shared")


@pytest.fixture
def mortal(
    mortal_postgres: PostgresServer, patient_with_databases: None
) -> Iterator[PostgresServer]:
    yield mortal_postgres
    if not mortal_postgres.is_running():
        mortal_postgres.start()


def spec(shared: str, name: str = "job-1", **changes: Any) -> JobSpec:
    return make_spec(name, OutputDataConfig={"S3OutputPath": shared}, **changes)


def submit(jobs: Jobs, what: JobSpec) -> None:
    jobs.submit(what)
    jobs.refresh(what.name)


def listed(jobs: Jobs) -> dict[str, str]:
    return {row.name: row.status for row in jobs.page(Page())}


def claims(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT name FROM trackside.jobs WHERE claim IS NOT NULL")
        return [name for (name,) in rows]


def folder(jobs: Jobs, name: str) -> Path:
    return jobs.settings.layout.job(name).root


def test_a_job_of_one_home_is_listed_and_described_by_the_other(here, there, shared):
    submit(here, spec(shared, hyper={"hold": "yes"}))
    until(lambda: here.describe("job-1")["SecondaryStatus"] == "Training")
    here.refresh()
    assert listed(there) == {"job-1": "InProgress"}
    reported, own = there.describe("job-1"), here.describe("job-1")
    for member in ("TrainingJobStatus", "SecondaryStatus", "CreationTime", "HyperParameters"):
        assert reported[member] == own[member]
    assert reported["LastModifiedTime"] == own["LastModifiedTime"]
    assert reported["Trackside"]["folder"] is None
    (folder(here, "job-1") / "release").touch()
    run_to_end(here)
    assert there.describe("job-1")["TrainingJobStatus"] == "Completed"
    here.refresh()
    assert listed(there) == {"job-1": "Completed"}
    assert b"line 0" in b"".join(line.data for line in there.logs("job-1"))
    assert [each.uri for each in there.artifacts("job-1")]


def test_the_owner_of_a_job_is_reported_by_the_other_home_whatever_storage_says(
    here, there, shared
):
    """Whoever can write to the bucket can put another journal there."""
    here.enqueue(spec(shared), key="TSA", who="alice")
    here.refresh("job-1")
    with here.scheduler(no_limit):
        run_to_end(here)
    here.refresh()
    (stored,) = Path(shared).rglob("journal.jsonl")
    stored.write_text(stored.read_text().replace("alice", "mallory"))
    assert {row.name: row.owner for row in there.page(Page(owner="alice"))} == {"job-1": "alice"}
    assert there.submitter("job-1").owner == "alice"
    assert there.describe("job-1")["Trackside"]["owner"] == "alice"


def test_a_running_job_of_the_other_home_has_its_owner_from_the_row(here, there, shared):
    submit(here, spec(shared, hyper={"hold": "yes"}))
    assert there.submitter("job-1") == Submitter(local_owner())
    (folder(here, "job-1") / "release").touch()
    run_to_end(here)


def test_the_owner_of_a_job_whose_files_the_other_cannot_read_is_known(here, there):
    here.enqueue(make_spec(), key="TSA", who="alice")
    here.refresh("job-1")
    assert there.submitter("job-1").owner == "alice"
    with pytest.raises(JobNotFound):
        there.submitter("nobody")


def test_rows_of_before_get_their_owners_when_the_home_is_back(join, here, there, shared, database):
    submit(here, spec(shared))
    run_to_end(here)
    here.refresh()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE trackside.jobs SET owner = NULL")
    assert [row.owner for row in there.page(Page())] == [None]
    join("here", database).refresh()
    assert [row.owner for row in there.page(Page())] == [local_owner()]


def test_the_second_of_two_homes_to_take_a_name_is_refused(here, there, shared, tmp_path):
    submit(here, spec(shared))
    with pytest.raises(JobExists):
        there.submit(spec(str(tmp_path / "another place")))
    assert not folder(there, "job-1").exists()
    assert os.listdir(there.settings.layout.jobs) == []


def test_of_many_that_submit_one_name_in_two_homes_one_wins(here, there, tmp_path):
    def attempt(number: int) -> bool:
        jobs = (here, there)[number % 2]
        try:
            submit(jobs, spec(str(tmp_path / f"out-{number}")))
        except JobExists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(16))) == 1
    assert sum(folder(jobs, "job-1").exists() for jobs in (here, there)) == 1


def test_eight_threads_create_and_list_without_losing_a_job(here, there, shared, database):
    def work(number: int) -> None:
        jobs = (here, there)[number % 2]
        for count in range(3):
            submit(jobs, spec(shared, f"job-{number}-{count}"))
            assert f"job-{number}-{count}" in listed(jobs)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(listed(here)) == len(listed(there)) == 24
    assert claims(database) == []


def test_a_job_that_is_refused_leaves_its_name_free(here, there, shared, database):
    channel = {
        "ChannelName": "training",
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://none/x"}},
    }
    with pytest.raises(InputError):
        here.submit(spec(shared, InputDataConfig=[channel]))
    with pytest.raises(StorageError):
        here.submit(spec("/proc/no-such-place"))
    assert claims(database) == []
    submit(there, spec(shared))


def test_a_name_whose_submitter_died_before_the_folder_was_made_is_free_again(
    here, there, shared, database, tmp_path
):
    """Killed between the claim and the folder, by itself: right after the claim was made."""
    program = f"""
import os, signal
from trackside.jobs import submit
from trackside.jobs.jobs import Jobs
from trackside.jobs.start_supervisor import locked
from trackside.records.layout import JobFolder
from trackside.settings import Settings
from trackside.records.spec import JobSpec
submit.Submission._claim = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Jobs(Settings.load(), {{}}).submit(JobSpec.from_request({spec(shared).to_request()!r}))
"""
    environ = {**ENVIRON, **here.settings.variables}
    died = subprocess.run([sys.executable, "-c", program], env=environ, check=False)
    assert died.returncode == -signal.SIGKILL
    assert claims(database) == ["job-1"]
    assert listed(here) == {}
    with pytest.raises(JobExists):
        there.submit(spec(shared))
    here.refresh()
    assert claims(database) == []
    submit(there, spec(shared))
    assert "job-1" in listed(here)


def test_a_claim_that_is_in_use_is_not_taken_for_abandoned(here, shared, database):
    catalog = here._catalog
    draft = here.settings.layout.jobs / ".job-1.draft"
    draft.mkdir(parents=True)
    with locked(JobFolder(draft)), catalog.claimed("job-1", draft.name):
        here.refresh()
        assert claims(database) == ["job-1"]
        with pytest.raises(JobExists):
            here.submit(spec(shared))
    here.refresh()
    assert claims(database) == []


def test_whoever_tries_again_after_a_lost_answer_gets_the_name(here, shared, database):
    """The claim was made, its answer lost, and the draft removed."""
    here._catalog._index.claim("job-1", here._catalog.identity, ".job-1.gone", 1.0)
    submit(here, spec(shared))
    assert "job-1" in listed(here)


def test_word_to_stop_a_job_reaches_the_home_that_runs_it(here, there, shared):
    submit(here, spec(shared, hyper={"hold": "yes"}))
    assert not there.stop("job-1").state.is_final
    here.reconcile()
    assert run_to_end(here).state.status == "Stopped"
    here.refresh()
    assert listed(there) == {"job-1": "Stopped"}
    assert there.stop("job-1").state.is_final


def test_a_job_of_another_home_is_followed_to_its_end(here, there, shared):
    submit(here, spec(shared, hyper={"hold": "yes", "lines": "4"}))
    followed = there.follow("job-1")
    assert not next(followed).state.is_final
    (folder(here, "job-1") / "release").touch()
    run_to_end(here)
    here.refresh()
    *rest, end = followed
    lines = [item.data for item in rest if isinstance(item, LogLine)]
    assert lines == [b"line %d\n" % number for number in range(4)]
    assert end.state.status == "Completed"
    assert there.wait("job-1", timeout_seconds=60) == end


def test_a_follower_of_a_job_of_another_home_outlives_the_database(
    join, mortal: PostgresServer, shared, caplog
):
    url = mortal.url_of(mortal.make_database())
    here, there = join("here", url), join("there", url)
    submit(here, spec(shared, hyper={"hold": "yes"}))
    items = there.follow("job-1")
    assert not next(items).state.is_final
    with ThreadPoolExecutor(1) as thread:
        followed = thread.submit(list, items)
        mortal.kill()
        until(lambda: "cannot be used" in caplog.text)
        (folder(here, "job-1") / "release").touch()
        run_to_end(here)
        mortal.start()
        until(lambda: refreshed(here))
        *_, end = followed.result(120)
    assert end.state.status == "Completed"


def test_a_wait_for_a_job_of_another_home_ends_in_time(here, there, shared):
    submit(here, spec(shared, hyper={"hold": "yes"}))
    with pytest.raises(JobNotFinished, match="after 0.1 s"):
        there.wait("job-1", timeout_seconds=0.1)


def test_only_the_home_that_has_a_job_changes_its_files(here, there, shared):
    submit(here, spec(shared))
    run_to_end(here)
    here.refresh()
    with pytest.raises(JobElsewhere, match=here._catalog.identity):
        there.delete("job-1")
    with pytest.raises(JobElsewhere, match="'job-1'"):
        there.change_tags("job-1", put={"a": "b"})
    here.delete("job-1")
    assert listed(there) == {}
    with pytest.raises(JobNotFound):
        there.describe("job-1")
    submit(there, spec(shared))


def test_a_job_in_a_store_that_only_the_other_can_read_is_said_to_be_elsewhere(here, there):
    submit(here, make_spec())
    assert "job-1" in listed(there)
    with pytest.raises(JobElsewhere, match=here._catalog.identity):
        there.describe("job-1")


def test_jobs_from_before_the_database_are_reported_to_it(join, tmp_path, shared, database):
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "here")})
    alone = Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    for number in range(3):
        alone.submit(spec(shared, f"job-{number}"))
        run_to_end(alone, f"job-{number}")
    join("here", database).refresh()
    assert set(listed(join("there", database))) == {"job-0", "job-1", "job-2"}


def test_reindex_fills_an_empty_database_from_folders_and_storage(
    join, here, there, shared, shared_postgres
):
    for name, jobs in (("a", here), ("b", here), ("c", there)):
        submit(jobs, spec(shared, name))
        run_to_end(jobs, name)
    shutil.rmtree(folder(here, "a"))
    empty = shared_postgres.url_of(shared_postgres.make_database())
    again = join("here", empty)
    assert again.reindex([shared]) == 3
    assert listed(again) == dict.fromkeys("abc", "Completed")
    join("there", empty).delete("c")
    assert again.reindex([shared]) == 2


def test_reindex_leaves_the_rows_of_others_alone(here, there, shared, tmp_path):
    submit(there, spec(shared, "theirs", hyper={"hold": "yes"}))
    submit(here, spec(shared, "mine"))
    run_to_end(here, "mine")
    assert here.reindex([shared]) == 2
    assert listed(here)["theirs"] == "InProgress"
    with pytest.raises(JobExists):
        here.submit(spec(str(tmp_path / "x"), "theirs"))


def test_without_the_database_jobs_of_this_home_go_on_and_rows_catch_up(
    join, mortal: PostgresServer, shared
):
    url = mortal.url_of(mortal.make_database())
    here, there = join("here", url), join("there", url)
    submit(here, spec(shared, "runs", hyper={"hold": "yes"}))
    submit(here, spec(shared, "ends", hyper={"hold": "yes"}))
    mortal.kill()
    with pytest.raises(DatabaseUnreachable):
        here.submit(spec(shared, "new"))
    with pytest.raises(DatabaseUnreachable):
        here.page(Page())
    with pytest.raises(DatabaseUnreachable):
        there.describe("runs")
    (folder(here, "ends") / "release").touch()
    run_to_end(here, "ends")
    here.reconcile()
    here.refresh()
    assert here.describe("runs")["TrainingJobStatus"] == "InProgress"
    assert here.describe("ends")["TrainingJobStatus"] == "Completed"
    assert list(here.logs("ends"))
    assert here.name_in_any_case("RUNS") == "runs"
    assert sorted(os.listdir(here.settings.layout.jobs)) == ["ends", "runs"]
    mortal.start()
    until(lambda: refreshed(here) and published_without_error(there).get("ends") == "Completed")
    assert listed(there) == {"runs": "InProgress", "ends": "Completed"}
    submit(here, spec(shared, "new"))


def published_without_error(jobs: Jobs) -> dict[str, str]:
    try:
        return listed(jobs)
    except DatabaseError:
        return {}


def test_a_job_accepted_as_the_database_dies_is_reported_when_it_is_back(
    join, mortal: PostgresServer, shared
):
    url = mortal.url_of(mortal.make_database())
    here, there = join("here", url), join("there", url)
    here.submit(spec(shared, hyper={"hold": "yes"}))
    mortal.kill()
    here.refresh("job-1")
    mortal.start()
    until(lambda: refreshed(here))
    assert listed(there) == {"job-1": "InProgress"}
    assert claims(url) == []


def test_a_delete_that_the_database_did_not_hear_of_can_be_repeated(
    join, mortal: PostgresServer, shared
):
    here = join("here", mortal.url_of(mortal.make_database()))
    submit(here, spec(shared))
    run_to_end(here)
    here.refresh()
    mortal.kill()
    with pytest.raises(DatabaseUnreachable):
        here.delete("job-1")
    mortal.start()
    until(lambda: published_without_error(here))
    here.delete("job-1")
    assert listed(here) == {}


def test_a_job_that_another_process_ran_and_indexed_is_reported_too(here, there, shared):
    """By the program of somebody who knows nothing of the database."""
    listed(here)
    settings = Settings.load({"TRACKSIDE_HOME": str(here.settings.home)})
    alone = Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    alone.submit(spec(shared))
    run_to_end(alone)
    alone.list()
    here.refresh()
    assert listed(there) == {"job-1": "Completed"}


def test_a_home_keeps_its_name_and_no_two_have_the_same(join, here, there, database):
    assert join("here", database)._catalog.identity == here._catalog.identity
    assert here._catalog.identity != there._catalog.identity
    record = json.loads(here.settings.layout.server.identity.read_text())
    assert record == {"id": here._catalog.identity}


def test_supervisors_do_not_learn_where_the_database_is(here, shared):
    assert "TRACKSIDE_DATABASE" not in here._launcher.environment


def test_alone_in_a_home_no_driver_is_loaded(tmp_path):
    program = (
        "import sys\nfrom trackside.jobs.jobs import Jobs\n"
        "from trackside.settings import Settings\n"
        "jobs = Jobs(Settings.load(), {}); jobs.list()\n"
        "assert not [name for name in sys.modules if name.startswith('psycopg')]"
    )
    environ = {**ENVIRON, "TRACKSIDE_HOME": str(tmp_path / "alone")}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True)


def test_a_line_that_is_stored_in_part_is_reported_when_it_is_whole(here, there, shared):
    """Of a job that runs: its supervisor stores what there is, every few seconds."""
    submit(here, spec(shared, hyper={"hold": "yes"}))
    first, rest = b"one\ntw", b"o\nthree\n"
    store = FolderStore(Path(shared, "job-1/trackside/logs/algo-1"))

    def reported() -> bytes:
        return b"".join(line.data for line in there.settled_lines(there.record("job-1"), "algo-1"))

    store.put(chunk_name(1, 0), encode(first, 0, [], 5.0))
    assert reported() == b"one\n"
    store.put(chunk_name(1, len(first)), encode(rest, len(first), [], 6.0))
    assert reported() == first + rest


def test_names_and_rows_are_right_after_a_database_that_died_again_and_again(
    join, mortal: PostgresServer, shared
):
    """Whoever was told to try again gets the name; nobody else does, and no claim is left."""
    url = mortal.url_of(mortal.make_database())
    homes = [join("here", url), join("there", url)]
    created: list[str] = []
    refused: list[str] = []
    done = threading.Event()

    def create(number: int) -> None:
        for count in itertools.count():
            name = f"job-{number}-{count}"
            while name not in created and not done.is_set():
                try:
                    submit(homes[number % 2], spec(shared, name))
                    created.append(name)
                except DatabaseUnreachable:
                    refused.append(name)
            if done.is_set():
                return

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(create, number) for number in range(4)]
        for _ in range(4):
            wait_for_more(created)
            mortal.kill()
            wait_for_more(refused)
            mortal.start()
        wait_for_more(created)
        done.set()
        for each in running:
            each.result(120)
    for jobs in homes:
        until(partial(refreshed, jobs))
    rows = homes[0].page(Page(order=Order.NAME, descending=False, limit=None))
    assert [row.name for row in rows] == sorted(created)
    assert claims(url) == []
    for name in created:
        assert [folder(jobs, name).exists() for jobs in homes].count(True) == 1


def wait_for_more(names: list[str]) -> None:
    before = len(names)
    until(lambda: len(names) > before)


def refreshed(jobs: Jobs) -> bool:
    jobs.refresh()
    return bool(published_without_error(jobs))


def test_a_database_that_comes_back_empty_is_filled_again(here, there, shared, database):
    submit(here, spec(shared))
    run_to_end(here)
    here.refresh()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA trackside CASCADE")
    until(lambda: refreshed(here))
    assert listed(there) == {"job-1": "Completed"}


def test_without_the_database_a_job_that_is_only_in_storage_can_still_be_read(
    join, mortal: PostgresServer, shared
):
    here = join("here", mortal.url_of(mortal.make_database()))
    submit(here, spec(shared))
    run_to_end(here)
    here.refresh()
    shutil.rmtree(folder(here, "job-1"))
    mortal.kill()
    assert here.describe("job-1")["TrainingJobStatus"] == "Completed"
    with pytest.raises(DatabaseUnreachable):
        here.describe("job-2")


def test_what_is_said_about_an_issue_in_one_home_is_known_in_the_other(
    here: Jobs, there: Jobs, shared: str
):
    submit(here, spec(shared, hyper={"failure": "AlgorithmError: KeyError: 'x', exit code: 1"}))
    run_to_end(here, "job-1")
    until(lambda: here.list() and listed(there) == {"job-1": "Failed"})
    [issue] = Issues(there).list()
    assert (issue.cause, issue.state) == ("KeyError", "open")
    assert Issues(there).set_state(issue.id, "fixed", by="ada").state == "fixed"
    [found] = Issues(here).list()
    assert found.said is not None
    assert (found.state, found.said.by) == ("fixed", "ada")
