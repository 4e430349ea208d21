"""The programs people use, each as it is: obstore, TensorBoard, s5cmd, rclone, the AWS CLI.

Programs come from `.venv-clients`.
"""

import os
import subprocess
import sys
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from tests.api.s3.conftest import BUCKET, REGION, S3Endpoint
from tests.aws_clients import program


def run(endpoint: S3Endpoint, *command: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **endpoint.environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, size in {
        "a.txt": 3,
        "sub/b c.bin": 100_000,
        "sub/deep/é": 0,
        "big": 12 << 20,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(os.urandom(size))
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".trackside" not in path.parts
    }


def stored(endpoint: S3Endpoint, prefix: str) -> dict[str, bytes]:
    return contents(endpoint.buckets / BUCKET / prefix)


def test_s5cmd_copies_a_tree_there_and_back(endpoint, s3, tree, tmp_path):
    s5cmd = program("s5cmd")
    run(endpoint, s5cmd, "cp", f"{tree}/", f"s3://{BUCKET}/t/")
    assert stored(endpoint, "t") == contents(tree)
    run(endpoint, s5cmd, "cp", f"s3://{BUCKET}/t/*", f"{tmp_path}/back/")
    assert contents(tmp_path / "back") == contents(tree)
    assert run(endpoint, s5cmd, "ls", f"s3://{BUCKET}/t/*").count("\n") == 4
    run(endpoint, s5cmd, "mv", f"s3://{BUCKET}/t/a.txt", f"s3://{BUCKET}/moved")
    run(endpoint, s5cmd, "rm", f"s3://{BUCKET}/t/*")
    assert s3.list_objects_v2(Bucket=BUCKET)["Contents"][0]["Key"] == "moved"
    run(endpoint, s5cmd, "mb", "s3://another-bucket")
    run(endpoint, s5cmd, "rb", "s3://another-bucket")


def test_rclone_copies_a_tree_and_finds_no_difference_afterwards(endpoint, s3, tree, tmp_path):
    rclone = program("rclone")
    remote = (
        f":s3,provider=Other,env_auth=true,force_path_style=true,region={REGION},"
        f"upload_cutoff=5Mi,chunk_size=5Mi,endpoint='{endpoint.url}':{BUCKET}/t"
    )
    start = [rclone, "--config", "", "--retries", "1"]
    run(endpoint, *start, "sync", str(tree), remote)
    assert stored(endpoint, "t") == contents(tree)
    run(endpoint, *start, "check", str(tree), remote)
    run(endpoint, *start, "copy", remote, str(tmp_path / "back"))
    assert contents(tmp_path / "back") == contents(tree)
    before = {path: path.stat().st_ino for path in (endpoint.buckets / BUCKET / "t").rglob("*")}
    run(endpoint, *start, "sync", str(tree), remote)
    assert {path: path.stat().st_ino for path in before} == before
    run(endpoint, *start, "purge", remote)
    assert stored(endpoint, "t") == {}


@pytest.mark.parametrize(
    "endpoint", ["embedded", pytest.param("relayed", marks=pytest.mark.nightly)], indirect=True
)
def test_the_aws_cli_syncs_and_presigns(endpoint, s3, tree, tmp_path):
    aws = program("aws")
    run(endpoint, aws, "s3", "sync", str(tree), f"s3://{BUCKET}/t")
    assert stored(endpoint, "t") == contents(tree)
    assert run(endpoint, aws, "s3", "sync", str(tree), f"s3://{BUCKET}/t") == ""
    run(endpoint, aws, "s3", "cp", "--recursive", f"s3://{BUCKET}/t", str(tmp_path / "back"))
    assert contents(tmp_path / "back") == contents(tree)
    assert "PRE sub/" in run(endpoint, aws, "s3", "ls", f"s3://{BUCKET}/t/")
    run(endpoint, aws, "s3", "rm", "--recursive", f"s3://{BUCKET}/t")
    run(endpoint, aws, "s3", "rb", f"s3://{BUCKET}")


def test_obstore_reads_ranges_writes_parts_and_lists(endpoint, s3, tree):
    store = S3Store(
        BUCKET,
        endpoint=endpoint.url,
        region=REGION,
        access_key_id=endpoint.key_id,
        secret_access_key=endpoint.secret,
        client_options={"allow_http": True},
    )
    for name, data in contents(tree).items():
        obstore.put(store, f"t/{name}", data, use_multipart=len(data) > 1 << 20)
    assert stored(endpoint, "t") == contents(tree)
    whole = contents(tree)["big"]
    assert bytes(obstore.get_range(store, "t/big", start=5, end=5_000_005)) == whole[5:5_000_005]
    assert bytes(obstore.get(store, "t/big").bytes()) == whole
    listed = [entry["path"] for page in obstore.list(store, "t") for entry in page]
    assert sorted(listed) == sorted(f"t/{name}" for name in contents(tree))
    folders = obstore.list_with_delimiter(store, "t")
    assert list(folders["common_prefixes"]) == ["t/sub"]
    etag = obstore.head(store, "t/a.txt")["e_tag"]
    obstore.put(store, "t/a.txt", b"new", mode={"e_tag": etag})
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(store, "t/a.txt", b"newer", mode="create")
    obstore.rename(store, "t/a.txt", "t/renamed")
    obstore.delete(store, [f"t/{name}" for name in ("renamed", "big")])
    assert sorted(stored(endpoint, "t")) == ["sub/b c.bin", "sub/deep/é"]


TENSORBOARD = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.tensorflow_stub.io import gfile
folder, event_file = sys.argv[1:]
assert gfile.glob(folder + "/*"), "nothing is listed"
reader = EventAccumulator(folder)
reader.Reload()
print([point.value for point in reader.Scalars("loss")], flush=True)
sys.stdin.readline()
reader.Reload()
print([point.value for point in reader.Scalars("loss")], flush=True)
"""


def test_tensorboard_follows_an_event_file_that_grows(endpoint, s3, tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path / "run"))
    writer.add_scalar("loss", 1.0, 1)
    writer.flush()
    path = next((tmp_path / "run").iterdir())
    key = f"run/{path.name}"
    s3.upload_file(str(path), BUCKET, key)
    command = [sys.executable, "-c", TENSORBOARD, f"s3://{BUCKET}/run", key]
    given = os.environ | endpoint.environment | {"S3_ENDPOINT": endpoint.url}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=given, text=True
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None  # noqa: PT018
        assert reader.stdout.readline() == "[1.0]\n"
        writer.add_scalar("loss", 0.5, 2)
        writer.close()
        s3.upload_file(str(path), BUCKET, key)
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "[1.0, 0.5]\n"
