"""Who may do what, what is answered where nothing is configured, and what is not offered."""

import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET, REGION, listening
from tests.api.s3.test_object_calls import content, refused
from trackside.api.app import App
from trackside.api.keys import AccessKeys, Rights
from trackside.api.s3.service import S3
from trackside.errors import AccessRefused
from trackside.storage.connect import Retry, open_s3
from trackside.storage.credentials import S3Access


def test_a_reader_reads_and_nothing_else(endpoint, s3):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"1")
    reader = endpoint.client(Rights.READ)
    assert content(reader, "k") == b"1"
    assert reader.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 1
    assert reader.list_buckets()["Buckets"][0]["Name"] == BUCKET
    denied = ("AccessDenied", 403)
    assert refused(reader.put_object, Bucket=BUCKET, Key="k", Body=b"2") == denied
    assert refused(reader.delete_object, Bucket=BUCKET, Key="k") == denied
    assert refused(reader.create_multipart_upload, Bucket=BUCKET, Key="k") == denied
    many = {"Objects": [{"Key": "k"}]}
    assert refused(reader.delete_objects, Bucket=BUCKET, Delete=many) == denied
    source = {"Bucket": BUCKET, "Key": "k"}
    assert refused(reader.copy_object, Bucket=BUCKET, Key="c", CopySource=source) == denied
    assert refused(reader.put_object_tagging, **source, Tagging={"TagSet": []}) == denied
    assert refused(reader.create_bucket, Bucket="another") == denied
    assert content(s3, "k") == b"1"


def test_a_submitter_writes_objects_and_removes_no_bucket(endpoint, s3):
    submitter = endpoint.client(Rights.SUBMIT)
    submitter.put_object(Bucket=BUCKET, Key="k", Body=b"1")
    submitter.delete_object(Bucket=BUCKET, Key="k")
    assert refused(submitter.delete_bucket, Bucket=BUCKET) == ("AccessDenied", 403)


@pytest.mark.parametrize("endpoint", ["embedded"], indirect=True)
def test_a_submitter_makes_embedded_buckets_as_its_jobs_do(endpoint):
    endpoint.client(Rights.SUBMIT).create_bucket(Bucket="another")
    assert [each["Name"] for each in endpoint.client().list_buckets()["Buckets"]] == ["another"]


def test_an_unsigned_request_and_an_empty_signature_are_refused(endpoint, s3):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"1")
    for headers in ({}, {"Authorization": ""}, {"Authorization": "AWS TS:abc"}):
        for method in ("GET", "PUT", "DELETE"):
            request = urllib.request.Request(
                f"{endpoint.url}/{BUCKET}/k", method=method, headers=headers
            )
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request)
            caught.value.close()
            assert caught.value.code in (400, 403)
    assert content(s3, "k") == b"1"


def test_a_wrong_secret_and_an_unknown_key_are_different_errors(endpoint, s3):
    endpoint.secret = "x" * 40
    assert refused(endpoint.client().list_buckets) == ("SignatureDoesNotMatch", 403)
    assert f"The key '{endpoint.key_id}' has another secret here" in words(endpoint)
    endpoint.key_id = "TSNOBODY"
    assert refused(endpoint.client().list_buckets) == ("InvalidAccessKeyId", 403)
    assert "does not exist in our records. No access key here is 'TSNOBODY'." in words(endpoint)


def words(endpoint: Any) -> str:
    """Messages of a refusal; all of them name the way out."""
    with pytest.raises(ClientError) as caught:
        endpoint.client().list_buckets()
    text = str(caught.value.response["Error"]["Message"])
    assert "`trackside keys list`" in text
    assert '`eval "$(trackside env)"`' in text
    return text


def test_buckets_are_made_listed_and_removed(endpoint, s3):
    s3.create_bucket(Bucket="second.one", CreateBucketConfiguration={"LocationConstraint": REGION})
    endpoint.store("by-a-job").put("k", b"1")
    names = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    assert names == ["by-a-job", BUCKET, "second.one"]
    assert s3.head_bucket(Bucket=BUCKET)["BucketRegion"] == REGION
    assert s3.get_bucket_location(Bucket=BUCKET)["LocationConstraint"] == REGION
    again = {"Bucket": BUCKET, "CreateBucketConfiguration": {"LocationConstraint": REGION}}
    assert refused(s3.create_bucket, **again) == ("BucketAlreadyOwnedByYou", 409)
    assert refused(s3.head_bucket, Bucket="missing")[1] == 404
    oldest = boto3.client(
        "s3",
        endpoint_url=endpoint.url,
        region_name="us-east-1",
        aws_access_key_id=endpoint.key_id,
        aws_secret_access_key=endpoint.secret,
    )
    oldest.create_bucket(Bucket=BUCKET)
    assert refused(s3.delete_bucket, Bucket="by-a-job") == ("BucketNotEmpty", 409)
    s3.delete_bucket(Bucket="second.one")
    assert refused(s3.delete_bucket, Bucket="second.one") == ("NoSuchBucket", 404)
    assert refused(s3.create_bucket, Bucket="UPPER") == ("InvalidBucketName", 400)


def test_a_bucket_with_nothing_but_leftovers_is_removed(endpoint, s3):
    (endpoint.buckets / BUCKET / "empty").mkdir()
    (endpoint.buckets / BUCKET / "empty" / ".trackside-0-1-2.part").touch()
    s3.create_multipart_upload(Bucket=BUCKET, Key="never finished")
    s3.delete_bucket(Bucket=BUCKET)
    assert list(endpoint.buckets.iterdir()) == []


def test_many_objects_are_deleted_at_once(s3):
    keys = ["a", "a/b", "c d", "é"]
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    named = {"Objects": [{"Key": key} for key in [*keys, "was never there"]]}
    done = s3.delete_objects(Bucket=BUCKET, Delete=named)
    assert [each["Key"] for each in done["Deleted"]] == [*keys, "was never there"]
    assert "Errors" not in done
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_what_is_not_configured_is_answered_as_s3_does(s3):
    params = {"Bucket": BUCKET}
    assert "Status" not in s3.get_bucket_versioning(**params)
    assert s3.get_bucket_acl(**params)["Grants"][0]["Permission"] == "FULL_CONTROL"
    assert refused(s3.get_bucket_policy, **params) == ("NoSuchBucketPolicy", 404)
    assert refused(s3.get_bucket_cors, **params) == ("NoSuchCORSConfiguration", 404)
    lifecycle = refused(s3.get_bucket_lifecycle_configuration, **params)
    assert lifecycle == ("NoSuchLifecycleConfiguration", 404)
    assert refused(s3.get_bucket_tagging, **params) == ("NoSuchTagSet", 404)
    assert refused(s3.get_public_access_block, **params)[1] == 404


def test_operations_that_are_not_offered_are_named(s3):
    on = {"Status": "Enabled"}
    params = {"Bucket": BUCKET, "VersioningConfiguration": on}
    assert refused(s3.put_bucket_versioning, **params) == ("NotImplemented", 501)
    own_key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
    refusal = refused(s3.put_object, Bucket=BUCKET, Key="k", Body=b"1", **own_key)
    assert refusal == ("NotImplemented", 501)


def test_what_sagemaker_clients_send_along_is_accepted(s3):
    s3.put_object(
        Bucket=BUCKET,
        Key="k",
        Body=b"1",
        ServerSideEncryption="aws:kms",
        ExpectedBucketOwner="000000000000",
    )
    s3.head_bucket(Bucket=BUCKET, ExpectedBucketOwner="000000000000")
    assert content(s3, "k") == b"1"


def test_objects_are_copied_with_or_without_their_metadata(s3):
    s3.put_object(Bucket=BUCKET, Key="a b", Body=b"1", Metadata={"x": "1"}, ContentType="text/a")
    source = {"Bucket": BUCKET, "Key": "a b"}
    done = s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=source)
    original = s3.head_object(**source)
    copy = s3.head_object(Bucket=BUCKET, Key="copy")
    assert done["CopyObjectResult"]["ETag"] == copy["ETag"] == original["ETag"]
    assert (copy["Metadata"], copy["ContentType"]) == ({"x": "1"}, "text/a")
    changed = {"Metadata": {"y": "2"}, "MetadataDirective": "REPLACE", "ContentType": "text/b"}
    s3.copy_object(**source, CopySource=source, **changed)
    itself = s3.head_object(**source)
    assert (itself["Metadata"], itself["ContentType"]) == ({"y": "2"}, "text/b")
    assert refused(s3.copy_object, **source, CopySource=source) == ("InvalidRequest", 400)
    other = {"Bucket": BUCKET, "Key": "missing"}
    assert refused(s3.copy_object, **source, CopySource=other) == ("NoSuchKey", 404)


@pytest.mark.parametrize("source", ["../server/keys.json", "%2e%2e/server/keys.json", ".x/k"])
def test_no_name_escapes_the_buckets(endpoint, s3, source):
    wanted = {"Bucket": BUCKET, "Key": "stolen", "CopySource": source}
    assert refused(s3.copy_object, **wanted) == ("InvalidBucketName", 400)
    inside = {**wanted, "CopySource": f"{BUCKET}/../../server/keys.json"}
    assert refused(s3.copy_object, **inside) == ("NoSuchKey", 404)
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="../../server/")
    assert listed["KeyCount"] == 0


@pytest.mark.parametrize("seconds", ["604801", "-1", "soon"])
def test_a_presigned_url_for_longer_than_a_week_or_no_time_is_refused(endpoint, s3, seconds):
    address = s3.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "k"})
    address = address.replace("X-Amz-Expires=3600", f"X-Amz-Expires={seconds}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address, timeout=60)
    with caught.value as answer:
        assert (answer.status, b"AuthorizationQueryParametersError" in answer.read()) == (400, True)


def test_expect_100_continue_is_answered_before_the_body_is_sent(endpoint, s3):
    address = s3.generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": "k"})
    host, _, path = address.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    head = f"PUT /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n"
    with socket.create_connection((name, int(port)), 60) as connection:
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        connection.sendall(b"abc")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert content(s3, "k") == b"abc"


def test_our_own_client_names_a_clock_that_is_off(tmp_path: Path) -> None:
    """Also by HEAD, whose answer has no body to say so: a job is submitted with one."""
    keys = AccessKeys(tmp_path / "server")
    buckets = tmp_path / "buckets"
    (buckets / BUCKET).mkdir(parents=True)
    ahead = App({"s3": S3(buckets)}, keys, clock=lambda: datetime.now(UTC) + timedelta(minutes=20))
    key, secret = keys.create("tests", Rights.READ)
    with listening(ahead) as url:
        access = S3Access(url, REGION, key.id, secret)
        store = open_s3(BUCKET, access, Retry(max_retries=0))
        with pytest.raises(AccessRefused, match="clock differs from the store's"):
            store.stat("out/job/trackside/job.json")
