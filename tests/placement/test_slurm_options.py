"""Options of sbatch, and what its commands print."""

from pathlib import Path

import pytest

from trackside.placement.machine_sizes import MachineSize
from trackside.placement.placement import (
    EndCause,
    Ended,
    Exited,
    Gone,
    Group,
    HostRequest,
    Lost,
    Pending,
    Running,
)
from trackside.placement.slurm import _node, _state
from trackside.placement.slurm_commands import (
    SlurmAway,
    SlurmCommands,
    SlurmError,
    SlurmJob,
    _jobs_in,
)
from trackside.placement.slurm_options import (
    option_words,
    sbatch_options,
    seconds_of,
    wrong_options,
)
from trackside.placement.slurm_script import MOST_BUNDLE, batch_script, passed_on


def make_group(bundle: str = "{}", **options: str) -> Group:
    hosts = tuple(HostRequest(name=f"algo-{n}", nonce="n", cores=4, gpus=2) for n in (1, 2))
    command = ("python3", "-P", "-m", "trackside.supervisor")
    return Group(
        job="job", attempt=1, epoch=3, hosts=hosts, command=command, options=options, bundle=bundle
    )


EACH = MachineSize(gpus=2, cores=4, memory_gb=0.0)


def test_of_two_of_a_kind_the_jobs_own_comes_last():
    options = [*sbatch_options(make_group(**{"cpus-per-task": "8", "exclusive": ""}), EACH)]
    assert options.index("--cpus-per-task=8") > options.index("--cpus-per-task=4")
    assert options[-1] == "--exclusive"
    assert {"--nodes=2", "--gpus-per-node=2", "--no-requeue"} <= set(options)


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("1:30:15", 5415),
        ("2-00", 172800),
        ("2-00:30", 174600),
        ("1-02:03:04", 93784),
        ("infinite", None),
        ("", None),
    ],
)
def test_time_limits_in_all_forms(time: str, seconds: int | None):
    assert seconds_of(time) == seconds


def test_the_notice_comes_before_half_of_a_short_time():
    assert "--signal=TERM@150" in sbatch_options(make_group(), EACH)
    assert "--signal=TERM@150" in sbatch_options(make_group(time="1:00:00"), EACH)
    assert "--signal=TERM@30" in sbatch_options(make_group(time="1"), EACH)


def test_options_as_words():
    assert option_words("--qos=high --exclusive") == {"qos": "high", "exclusive": ""}
    with pytest.raises(ValueError, match="'-p' is no long option of sbatch"):
        option_words("-p gpu")


def test_options_that_are_refused():
    given = {"qos": "high", "requeue": "", "Bad Name": "", "comment-x": "a\nb", "prolog": "a\nb"}
    assert [name for name, _ in wrong_options(given)] == ["requeue", "Bad Name", "comment-x"]


def test_a_bundle_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match=f"at most {MOST_BUNDLE}"):
        batch_script(make_group("x" * (MOST_BUNDLE + 1)), ["python3"], [], "")


def test_the_script_has_no_secret_in_plain_text():
    assert "hush-4711" not in batch_script(make_group("hush-4711"), ["python3"], [], "")


def test_only_what_leads_to_programs_is_passed_on():
    given = {"PATH": "/bin", "CONDA_PREFIX": "/c", "AWS_SECRET_ACCESS_KEY": "x", "MINE": "y"}
    assert passed_on(given) == {"PATH": "/bin", "CONDA_PREFIX": "/c"}


@pytest.mark.parametrize(
    ("state", "poll"),
    [
        ("PENDING", Pending("Resources")),
        ("CONFIGURING", Pending("CONFIGURING, Resources")),
        ("RUNNING", Running()),
        ("COMPLETING", Running()),
        ("NODE_FAIL", Lost("Slurm lost a node of it (NODE_FAIL)")),
        ("PREEMPTED", Lost("Slurm gave its nodes to another job (PREEMPTED)", Gone.TAKEN)),
        ("TIMEOUT", Ended(EndCause.TIME_LIMIT, "Slurm's time limit was reached (TIMEOUT)")),
        ("CANCELLED", Ended(EndCause.CANCELLED, "it was cancelled in Slurm (CANCELLED)")),
        ("FAILED", Exited(None, "its Slurm job is over: FAILED, Resources")),
    ],
)
def test_states(state: str, poll: object):
    assert _state(SlurmJob(state, "Resources", "n1", {}), "algo-1") == poll


def test_hosts_that_have_ended_while_others_run():
    jobs = _jobs_in("7|RUNNING|None|n[1-2]|algo-2=78 \n8|PENDING|Priority||(null)\nodd line\n")
    assert _state(jobs["7"], "algo-1") == Running()
    ended = _state(jobs["7"], "algo-2")
    assert isinstance(ended, Exited)
    assert ended.code == 78
    assert "no interpreter with Trackside" in ended.why
    assert _state(jobs["8"], "algo-1") == Pending("Priority")
    assert _state(None, "algo-1") == Exited(None, "Slurm does not know it any more", Gone.ENGINE)


def test_nodes_and_their_gpus():
    node = _node("gpu*|64|515000|gpu:a100:4(S:0-1),gpu:h100:4,lustre:1")
    assert node is not None
    assert node.size == MachineSize(gpus=8, cores=64, memory_gb=515000 / 1024)
    assert node.is_in("")
    assert node.is_in("gpu")
    assert not node.is_in("cpu")
    unsaid = _node("main*|4|1|(null)")
    assert unsaid is not None
    assert unsaid.size == MachineSize(gpus=0, cores=4, memory_gb=0.0)
    assert _node("gpu*|n/a||") is None


def test_commands_without_a_cluster_say_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said = "sinfo: fetch_config: failed\\nsinfo: Could not establish a configuration source"
    (tmp_path / "sinfo").write_text(f"#!/bin/sh\nprintf '{said}' >&2\nexit 1\n")
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SlurmAway, match=r"find no slurm.conf .*slurm:user@login \(.*fetch_config"):
        SlurmCommands().run("sinfo")


def test_a_machine_without_slurm_says_the_way_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SlurmError, match=r"'sbatch' is not on this machine.*slurm:user@login"):
        SlurmCommands().run("sbatch")
