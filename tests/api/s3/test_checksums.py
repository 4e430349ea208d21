"""Checksums of current SDKs: computed, compared, stored, returned; a wrong one stores nothing."""

import base64
import hashlib
import http.client
import os
import zlib
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.api.s3.conftest import BUCKET, REGION
from tests.api.s3.test_object_calls import content, refused
from trackside.api.s3.checksums import ALGORITHMS, PartSum, new_digest, of_parts

DATA = os.urandom(300_000)
KNOWN = {
    "crc32": "cbf43926",
    "crc32c": "e3069283",
    "crc64nvme": "ae8b14860a799888",
    "sha1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
}


def summed(algorithm: str, data: bytes) -> str:
    digest = new_digest(algorithm)
    for start in range(0, len(data), 7):
        digest.update(data[start : start + 7])
    return base64.b64encode(digest.digest()).decode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_checksums_have_their_published_check_values(algorithm):
    expected = base64.b64encode(bytes.fromhex(KNOWN[algorithm])).decode()
    assert summed(algorithm, b"123456789") == expected


@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "crc64nvme"])
def test_the_checksum_of_an_object_follows_from_those_of_its_parts(algorithm):
    parts = [DATA[:100], DATA[100:101], b"", DATA[101:5000]]
    sums = [PartSum(len(part), summed(algorithm, part)) for part in parts]
    assert of_parts(algorithm, "FULL_OBJECT", sums) == summed(algorithm, DATA[:5000])


@pytest.mark.parametrize("algorithm", [name.upper() for name in ("crc32", "sha1", "sha256")])
def test_boto3s_checksum_is_verified_stored_and_returned(s3, algorithm):
    put = s3.put_object(Bucket=BUCKET, Key="k", Body=DATA, ChecksumAlgorithm=algorithm)
    shown = s3.head_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    name = f"Checksum{algorithm}"
    assert put[name] == shown[name] == summed(algorithm.lower(), DATA)
    assert shown["ChecksumType"] == "FULL_OBJECT"
    assert name not in s3.head_object(Bucket=BUCKET, Key="k")
    found = s3.get_object_attributes(Bucket=BUCKET, Key="k", ObjectAttributes=["Checksum"])
    assert found["Checksum"][name] == shown[name]


def test_without_a_wish_the_checksum_is_crc64nvme(endpoint, s3):
    s3 = endpoint.client(request_checksum_calculation="when_required")
    s3.put_object(Bucket=BUCKET, Key="k", Body=DATA)
    shown = s3.head_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    assert shown["ChecksumCRC64NVME"] == summed("crc64nvme", DATA)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"ContentMD5": base64.b64encode(bytes(16)).decode()}, "BadDigest"),
        ({"ContentMD5": "no"}, "InvalidDigest"),
        ({"ChecksumCRC32": "AAAAAA=="}, "BadDigest"),
        ({"ChecksumSHA256": base64.b64encode(bytes(32)).decode()}, "BadDigest"),
        ({"ChecksumCRC64NVME": "AAAAAAAAAAA="}, "BadDigest"),
        ({"ChecksumCRC32C": "!"}, "InvalidRequest"),
    ],
)
@pytest.mark.parametrize("data", [b"small", DATA], ids=["small", "large"])
def test_a_wrong_checksum_is_refused_and_nothing_stored(s3, endpoint, data, wrong, code):
    s3.put_object(Bucket=BUCKET, Key="a/k", Body=b"old")
    given = {"Bucket": BUCKET, "Key": "a/k", "Body": data, **wrong}
    assert refused(s3.put_object, **given) == (code, 400)
    assert content(s3, "a/k") == b"old"
    refused(s3.put_object, **{**given, "Key": "new/k"})
    assert [
        entry.name for entry in (endpoint.buckets / BUCKET).iterdir() if entry.name[0] != "."
    ] == ["a"]
    assert [entry.name for entry in (endpoint.buckets / BUCKET / "a").iterdir()] == ["k"]


def test_a_composite_checksum_is_that_of_the_parts_checksums(s3):
    parts = [os.urandom(5 << 20), b"end"]
    made = s3.create_multipart_upload(Bucket=BUCKET, Key="k", ChecksumAlgorithm="SHA256")
    upload = {"Bucket": BUCKET, "Key": "k", "UploadId": made["UploadId"]}
    listed = []
    for number, part in enumerate(parts, 1):
        response = s3.upload_part(
            **upload, PartNumber=number, Body=part, ChecksumAlgorithm="SHA256"
        )
        assert response["ChecksumSHA256"] == summed("sha256", part)
        listed.append(
            {
                "PartNumber": number,
                "ETag": response["ETag"],
                "ChecksumSHA256": response["ChecksumSHA256"],
            }
        )
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": listed})
    digests = b"".join(hashlib.sha256(part).digest() for part in parts)
    whole = base64.b64encode(hashlib.sha256(digests).digest()).decode()
    assert done["ChecksumSHA256"] == f"{whole}-2"
    assert content(s3, "k", ChecksumMode="ENABLED") == b"".join(parts)


def chunked(endpoint, key: str, data: bytes, *, crc32: int, form: str) -> int:
    """A PUT as SDKs send it over TLS: in chunks, with the checksum behind them."""
    encoded = b"".join(
        b"%x\r\n%b\r\n" % (len(data[i : i + 65536]), data[i : i + 65536])
        for i in range(0, len(data), 65536)
    )
    checksum = base64.b64encode(crc32.to_bytes(4, "big"))
    encoded += b"0\r\nx-amz-checksum-crc32:%b\r\n\r\n" % checksum
    url = f"{endpoint.url}/{BUCKET}/{key}"
    given = {
        "Host": urlsplit(url).netloc,
        "Content-Encoding": "gzip,aws-chunked",
        "X-Amz-Decoded-Content-Length": str(len(data)),
        "X-Amz-Trailer": "x-amz-checksum-crc32",
    }
    request = AWSRequest("PUT", url, data=b"", headers=given)
    signer = S3SigV4Auth(Credentials(endpoint.key_id, endpoint.secret), "s3", REGION)
    signer.payload = lambda _: form
    signer.add_auth(request)
    headers = {name: str(value) for name, value in request.headers.items()}
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)) as connection:
        connection.request("PUT", f"/{BUCKET}/{key}", encoded, headers)
        return connection.getresponse().status


UNSIGNED = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


def test_a_checksum_that_trails_the_body_is_verified(s3, endpoint):
    assert chunked(endpoint, "k", DATA, crc32=zlib.crc32(DATA), form=UNSIGNED) == 200
    got = s3.get_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    assert got["ContentEncoding"] == "gzip"
    assert got["Body"].read() == DATA
    assert chunked(endpoint, "k", b"other", crc32=1, form=UNSIGNED) == 400
    assert content(s3, "k") == DATA
    assert chunked(endpoint, "k", DATA, crc32=zlib.crc32(DATA), form="STREAMING-OTHER") == 400


def test_chunks_without_the_announced_signatures_are_refused(s3, endpoint):
    form = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    assert chunked(endpoint, "k", DATA, crc32=zlib.crc32(DATA), form=form) == 400
    assert refused(s3.get_object, Bucket=BUCKET, Key="k") == ("NoSuchKey", 404)
