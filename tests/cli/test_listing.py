"""Looking at jobs: the list, one of them, its log and what it stored."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import is_training, make_spec
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.records import hosts
from trackside.records.hosts import HostRecord, Phase, Progress, SyncState
from trackside.records.journal import Journal
from trackside.records.owners import local_owner


def run_to_end(jobs: Jobs, name: str, **hyper: str) -> None:
    jobs.submit(make_spec(name, hyper=hyper))
    jobs.wait(name)


def hold(jobs: Jobs, name: str, *, num_hosts: int = 1) -> None:
    jobs.submit(make_spec(name, num_hosts=num_hosts, hyper={"hold": "1"}))
    until(lambda: is_training(jobs, name))


def test_no_jobs_are_no_error(command: Command):
    done = command("jobs")
    assert (done.returncode, done.stdout) == (
        0,
        "No jobs. `trackside run SCRIPT` starts one.\n",
    )
    assert json.loads(command("jobs", "--json").stdout) == []


def test_jobs_lists_the_newest_first(command: Command, jobs: Jobs):
    run_to_end(jobs, "first")
    run_to_end(jobs, "second", failure="AlgorithmError: x")
    lines = command("jobs").stdout.splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "AGE", "TRAINED", "OUTPUT"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["second", "Failed"],
        ["first", "Completed"],
    ]
    assert [job["name"] for job in json.loads(command("jobs", "--json").stdout)] == [
        "second",
        "first",
    ]


def test_jobs_can_be_narrowed(command: Command, jobs: Jobs):
    run_to_end(jobs, "good")
    run_to_end(jobs, "bad", failure="AlgorithmError: x")

    def names(*options: str) -> list[str]:
        return [job["name"] for job in json.loads(command("jobs", "--json", *options).stdout)]

    assert names("--status", "Failed") == ["bad"]
    assert names("--name", "oo") == ["good"]
    assert names("--limit", "1") == ["bad"]
    cut = command("jobs", "--limit", "1").stderr
    assert cut == "This is the newest; --limit 5 shows more.\n"
    assert command("jobs", "--limit", "2").stderr == ""


def test_the_owner_of_a_job_is_shown_where_there_is_more_than_one(command: Command, jobs: Jobs):
    run_to_end(jobs, "first")
    assert "OWNER" not in command("jobs").stdout
    jobs.enqueue(make_spec("second"), key="TSA", who="alice")
    lines = command("jobs").stdout.splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "OWNER", "AGE", "TRAINED", "OUTPUT"]
    assert [line.split()[::2][:2] for line in lines[1:]] == [
        ["second", "alice"],
        ["first", local_owner()],
    ]
    found = json.loads(command("jobs", "--json").stdout)
    assert [job["owner"] for job in found] == ["alice", local_owner()]


def test_the_jobs_of_one_owner_are_listed(command: Command, jobs: Jobs):
    run_to_end(jobs, "first")
    jobs.enqueue(make_spec("second"), key="TSA", who="alice")

    def names(*options: str) -> list[str]:
        return [job["name"] for job in json.loads(command("jobs", "--json", *options).stdout)]

    assert names("--owner", "alice") == ["second"]
    assert names("--mine") == names("--owner", local_owner()) == ["first"]
    assert command("jobs", "--owner", "bob").stdout == "There is no job of 'bob'.\n"
    both = command("jobs", "--owner", "alice", "--mine")
    assert (both.returncode, "cannot be given together" in both.stderr) == (2, True)


def test_show_tells_the_owner(command: Command, jobs: Jobs):
    run_to_end(jobs, "job-1")
    assert f"\nowner            {local_owner()}\n" in command("show", "job-1").stdout
    described = json.loads(command("show", "job-1", "--json").stdout)
    assert described["Trackside"]["owner"] == local_owner()


def test_show_tells_the_whole_story(command: Command, jobs: Jobs):
    run_to_end(jobs, "job-1")
    shown = command("show", "job-1").stdout
    assert "job-1  Completed" in shown
    for status in ("Starting", "Downloading", "Training", "Uploading", "Completed"):
        assert f"\n{status} " in shown
    assert "s3://out/runs/job-1/output/model.tar.gz" in shown
    assert json.loads(command("show", "job-1", "--json").stdout)["TrainingJobName"] == "job-1"


def test_show_says_what_was_skipped_of_a_damaged_journal(command: Command, jobs: Jobs):
    run_to_end(jobs, "job-1")
    folder = jobs.settings.layout.job("job-1")
    lines = folder.journal.read_bytes().split(b"\n")
    folder.journal.write_bytes(b"\n".join([lines[0], b"[1]", b"\xff", *lines[2:]]))
    folder.host("algo-1", 1).record.write_text("[1]")
    done = command("show", "job-1")
    assert done.returncode == 0, done.stderr
    assert "job-1  Completed" in done.stdout
    assert "2 damaged records were skipped in its journal." in done.stdout.splitlines()
    assert "1 damaged record was skipped in the record of algo-1." in done.stdout.splitlines()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("file", ["journal", "spec"])
def test_a_job_that_cannot_be_read_is_an_error_in_words_and_the_others_are_listed(
    command: Command, jobs: Jobs, file: str
):
    for name in ("job-1", "job-2"):
        run_to_end(jobs, name)
    damaged = getattr(jobs.settings.layout.job("job-1"), file)
    damaged.write_bytes(b"[1]\n")
    done = command("show", "job-1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: Job 'job-1' cannot be read: ")
    assert damaged.name in done.stderr
    assert "Traceback" not in done.stderr
    assert "job-2" in command("jobs").stdout


def test_show_gives_the_reason_of_a_failure_without_its_escapes(command: Command, jobs: Jobs):
    run_to_end(jobs, "job-1", failure="AlgorithmError: \x1b[31mred\x07")
    shown = command("show", "job-1").stdout
    assert r"AlgorithmError: \x1b[31mred\x07" in shown
    assert "\x1b" not in shown


def test_show_is_loud_about_a_folder_that_lags(command: Command, jobs: Jobs):
    hold(jobs, "job-1")
    place = jobs.settings.layout.job("job-1").host("algo-1", 1)
    record = HostRecord(
        phase=Phase.RUNNING,
        progress=Progress(what="training", done_files=1, num_files=4, size_bytes=4_200_000),
        syncs={
            "/opt/ml/checkpoints": SyncState(
                to="s3://c", last=1.0, pending_files=3, pending_bytes=5000
            ),
            "/opt/ml/output/tensorboard": SyncState(to="s3://t", error="refused \x1b[2J"),
        },
    )
    hosts.write(place.record, record)
    lines = command("show", "job-1").stdout.splitlines()
    (checkpoints,) = [line for line in lines if "/opt/ml/checkpoints" in line]
    assert "LAGGING" in checkpoints
    assert "3 files, 5.0 kB" in checkpoints
    tensorboard, trouble = (line for line in lines if "/opt/ml/output/tensorboard" in line)
    assert "never, LAGGING" in tensorboard
    assert trouble == r"/opt/ml/output/tensorboard: refused \x1b[2J"
    assert any("training: 1 of 4 files, 0 B of 4.2 MB" in line for line in lines)


def test_an_ended_job_shows_only_folders_of_which_something_is_missing(
    command: Command, jobs: Jobs
):
    run_to_end(jobs, "job-1")
    place = jobs.settings.layout.job("job-1").host("algo-1", 1)
    syncs = {
        "/opt/ml/checkpoints": SyncState(to="s3://c", last=1.0, pending_files=3, pending_bytes=50),
        "log": SyncState(to="s3://log", last=1.0),
    }
    hosts.write(place.record, HostRecord(phase=Phase.ENDED, syncs=syncs))
    shown = command("show", "job-1").stdout
    assert "/opt/ml/checkpoints" in shown
    assert "s3://log" not in shown


def test_logs_are_the_bytes_the_script_wrote(command: Command, jobs: Jobs):
    run_to_end(jobs, "job-1")
    assert command("logs", "job-1").stdout == "line 0\nline 1\nline 2\n"
    assert command("logs", "job-1", "--tail", "1").stdout == "line 2\n"
    stamped = command("logs", "job-1", "-t").stdout.splitlines()
    assert [line.split("Z ")[1] for line in stamped] == ["line 0", "line 1", "line 2"]
    assert stamped[0].startswith("20")


def test_with_several_hosts_each_line_says_whose_it_is(command: Command, jobs: Jobs):
    hold(jobs, "job-1", num_hosts=2)  # or the lead's stand-in may end it before the other began
    lines = command("logs", "job-1").stdout.splitlines()
    assert sorted(line for line in lines if line.startswith("algo-2 | ")) == [
        "algo-2 | line 0",
        "algo-2 | line 1",
    ]
    assert len([line for line in lines if line.startswith("algo-1 | ")]) == 3
    assert command("logs", "job-1", "--host", "algo-2").stdout == "line 0\nline 1\n"


def test_following_ends_with_the_job(command: Command, jobs: Jobs):
    hold(jobs, "job-1")
    (jobs.settings.layout.job("job-1").root / "release").touch()
    assert command("logs", "-f", "job-1").stdout == "line 0\nline 1\nline 2\n"
    assert Journal(jobs.settings.layout.job("job-1").journal).read().state.is_final


def test_stop_ends_a_job_and_is_silent_about_one_that_has_ended(command: Command, jobs: Jobs):
    hold(jobs, "job-1")
    assert command("stop", "job-1", "--wait").stdout == "job-1 is Stopped\n"
    done = command("stop", "job-1")
    assert (done.returncode, done.stdout) == (0, "job-1 is Stopped\n")


def test_artifacts_are_listed_and_downloaded(command: Command, jobs: Jobs, tmp_path: Path):
    jobs.submit(make_spec("job-1", CheckpointConfig={"S3Uri": "s3://ckpt/run"}))
    jobs.wait("job-1")
    bucket = jobs.settings.layout.buckets / "ckpt" / "run"
    (bucket / "deep").mkdir(parents=True)
    (bucket / "deep" / "last.pt").write_bytes(b"weights")
    listed = json.loads(command("artifacts", "job-1", "--json").stdout)
    assert [(item["kind"], item["size_bytes"]) for item in listed] == [
        ("output", 7),
        ("checkpoints", 7),
    ]
    assert "s3://ckpt/run" in command("artifacts", "job-1").stdout
    done = command("artifacts", "job-1", "--download", "results")
    # The stand-in writes a wrong checksum: what does not match is not kept.
    assert done.returncode == 2
    assert "SHA-256" in done.stderr
    assert [*(tmp_path / "results").iterdir()] == []


def test_reindex_counts_what_it_finds(command: Command, jobs: Jobs):
    run_to_end(jobs, "job-1")
    assert command("reindex").stdout == "1 job is known\n"


@pytest.mark.parametrize("name", ["show", "logs", "stop", "artifacts", "upload"])
def test_an_unknown_job_is_wrong_input(command: Command, name: str):
    done = command(name, "no-such-job")
    assert done.returncode == 2
    assert "No job is called 'no-such-job'" in done.stderr


def test_who_leaves_out_the_job_is_reported_the_newest(command: Command, jobs: Jobs):
    assert "There is none yet: `trackside run SCRIPT` starts one." in command("show").stderr
    run_to_end(jobs, "job-1")
    done = command("show")
    assert done.returncode == 2
    assert "Missing argument 'JOB'. The newest is 'job-1'" in done.stderr


def test_a_list_that_is_empty_says_what_was_looked_for(command: Command, jobs: Jobs):
    assert command("jobs").stdout == "No jobs. `trackside run SCRIPT` starts one.\n"
    run_to_end(jobs, "job-1")
    assert command("jobs", "--name", "zz").stdout == "There is no job with 'zz' in its name.\n"
    reported = command("jobs", "--status", "failed", "--name", "job").stdout
    assert reported == "No job with 'job' in its name is Failed.\n"


def test_a_place_without_jobs_is_no_place_to_look(command: Command):
    done = command("reindex", "nowhere")
    assert done.returncode == 2
    assert "There is no 'nowhere' on this machine" in done.stderr


def test_a_group_of_commands_alone_shows_its_help(command: Command):
    reported = command("keys").stderr
    assert reported.startswith("Usage: trackside keys")
    assert "Error" not in reported
