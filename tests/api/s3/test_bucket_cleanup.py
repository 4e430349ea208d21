"""Unfinished files and abandoned uploads are removed; others are not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.api.s3.conftest import BUCKET
from tests.api.s3.test_object_calls import refused
from tests.wait import until
from trackside.api.upkeep import BucketCleanup, drop_abandoned_uploads

WEEK = 7 * 86400.0

WRITER = """
import sys, time
from trackside.storage.partial_file import PartialFile
with PartialFile(sys.argv[1]) as file:
    file.write_at(b"half", 0)
    print("begun", flush=True)
    time.sleep(600)
"""


def started(path: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".part"))


def test_unfinished_files_of_a_killed_server_are_removed_at_the_next_start(tmp_path):
    folder = tmp_path / BUCKET / "deep" / "folder"
    dead, alive = started(folder / "dead"), started(folder / "alive")
    kill(dead)
    assert len(hidden(folder)) == 2
    cleanup = BucketCleanup(tmp_path, WEEK)
    cleanup.start()
    try:
        until(lambda: len(hidden(folder)) == 1)
    finally:
        cleanup.close(timeout=60)
        kill(alive)
    assert len(hidden(folder)) == 1  # that of the writer who was alive


DIES_CREATING = """
import os, sys
from trackside.api.s3.buckets import Buckets
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
Buckets(sys.argv[1]).create(sys.argv[2], "us-east-1")
"""


def test_the_unfinished_record_of_a_new_bucket_is_removed_too(tmp_path):
    command = [sys.executable, "-c", DIES_CREATING, str(tmp_path), BUCKET]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    folder = tmp_path / BUCKET / ".trackside"
    assert len(hidden(folder)) == 1
    cleanup = BucketCleanup(tmp_path, WEEK)
    cleanup.start()
    try:
        until(lambda: not hidden(folder))
    finally:
        cleanup.close(timeout=60)


def aged(endpoint, upload_id: str, seconds: float) -> None:
    folder = endpoint.buckets / BUCKET / ".trackside" / "uploads" / upload_id
    past = time.time() - seconds
    for path in (*folder.iterdir(), folder):
        os.utime(path, (past, past), follow_symlinks=False)


def test_abandoned_uploads_are_listed_and_then_removed(endpoint, s3):
    old, new = (
        s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"] for key in ("old", "new")
    )
    for key, upload_id in (("old", old), ("new", new)):
        s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload_id, PartNumber=1, Body=b"1")
    aged(endpoint, old, WEEK + 60)
    aged(endpoint, new, WEEK - 60)
    listed = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    assert {upload["UploadId"] for upload in listed} == {old, new}
    drop_abandoned_uploads(endpoint.buckets, WEEK)
    listed = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    assert [upload["UploadId"] for upload in listed] == [new]
    given = {"Bucket": BUCKET, "Key": "old", "UploadId": old}
    assert refused(s3.list_parts, **given) == ("NoSuchUpload", 404)


def test_an_upload_that_still_grows_is_kept(endpoint, s3):
    made = s3.create_multipart_upload(Bucket=BUCKET, Key="k")["UploadId"]
    aged(endpoint, made, WEEK + 60)
    s3.upload_part(Bucket=BUCKET, Key="k", UploadId=made, PartNumber=1, Body=b"1")
    drop_abandoned_uploads(endpoint.buckets, WEEK)
    assert len(s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]) == 1
