"""An S3 server on loopback behind a proxy that loses, refuses, cuts and slows down on request.

The server is moto's, so that its idea of S3 is not ours; the proxy is the tests' own.
"""

import subprocess
import sys
from typing import Any

import boto3
from tests.fault_proxy import FaultProxy

from benchmarks.drill.case import Broke
from benchmarks.drill.ground import Ground

BUCKET = "drill-bucket"
_MOTO = """
import logging, sys
logging.disable(logging.CRITICAL)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
_KEYS = {"aws_access_key_id": "drill-key", "aws_secret_access_key": "drill-secret"}


class FaultStore:
    """`s3://` of everything that the ground starts from now on leads here."""

    def __init__(self, ground: Ground) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", _MOTO],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ground.environment,
            text=True,
        )
        ground.closing.callback(process.communicate)
        ground.closing.callback(process.kill)
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if not port:
            raise Broke("the S3 server ended before it listened")
        self.upstream = f"http://127.0.0.1:{port}"
        self.proxy = ground.closing.enter_context(FaultProxy(self.upstream))
        self.client: Any = boto3.client(
            "s3", endpoint_url=self.upstream, region_name="us-east-1", **_KEYS
        )
        """Past the proxy: what is really there."""
        ground.until(self._make_bucket, "the S3 server answers")
        ground.environment.update(self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL_S3": self.proxy.url,
            "AWS_ACCESS_KEY_ID": _KEYS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": _KEYS["aws_secret_access_key"],
            "AWS_REGION": "us-east-1",
        }

    def _make_bucket(self) -> bool:
        self.client.create_bucket(Bucket=BUCKET)
        return True

    def uri(self, key: str) -> str:
        return f"s3://{BUCKET}/{key}"

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def dangling_uploads(self) -> list[str]:
        """Multipart uploads that were begun and neither finished nor given up."""
        answer = self.client.list_multipart_uploads(Bucket=BUCKET)
        return [upload["Key"] for upload in answer.get("Uploads", ())]
