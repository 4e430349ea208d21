"""An S3 server on loopback that takes writes: moto's, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BUCKET = "bench-bucket"
_SERVER = """
import logging, sys
import boto3
from moto.server import ThreadedMotoServer
logging.disable(logging.CRITICAL)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
url = "http://127.0.0.1:%d" % server.get_host_and_port()[1]
keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
client.create_bucket(Bucket=sys.argv[1])
print(url, flush=True)
sys.stdin.read()
"""


@contextmanager
def loopback_s3() -> Iterator[str]:
    """`s3://` leads there while the block is open. Yields a bucket's location."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, BUCKET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        variables = {
            "AWS_ENDPOINT_URL_S3": process.stdout.readline().strip(),
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield f"s3://{BUCKET}"
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
            process.kill()
