"""Ceph's public s3-tests against our S3: `python -m benchmarks.s3_conformance CHECKOUT`.

Runs every functional case of a checkout (github.com/ceph/s3-tests) in an environment of its own,
leaves out those whose subject is not offered (each reason is printed with its count), and prints
how many of the rest pass. `--show-failures` names the others.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

PEERS = Path(__file__).parent / ".peers"

SERVER = """
import sys, threading
from pathlib import Path
from trackside.api.app import App
from trackside.api.keys import AccessKeys, Rights
from trackside.api.s3.service import S3
from trackside.api.server import listen, make_server
home = Path(sys.argv[1])
keys = AccessKeys(home / "server")
listener = listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
for _ in range(2):
    key, secret = keys.create("s3-tests", Rights.ADMIN)
    print(key.id, secret, flush=True)
server = make_server(App({"s3": S3(home / "buckets")}, keys))
threading.Thread(target=lambda: (sys.stdin.read(), setattr(server, "should_exit", True))).start()
server.run(sockets=[listener])
"""

NOT_OFFERED = {
    "versions of objects": r"version(?!s?_unversioned)|delete_marker|null_instance",
    "access control lists and anonymous access": (
        r"acl|anon|public|access_bucket|grant|ownership|expected_bucket_owner"
        r"|object_raw(?!_auth|_get_x_amz|_response|_put_auth)"
    ),
    "several owners": r"nonowner|not_owned",
    "bucket policies": r"policy|expected_owner",
    "POST forms of browsers": r"post_object",
    "CORS": r"cors|x_amz_expires_not_expired",
    "life cycle, transitions, restore": r"lifecycle|expiration|transition|restore|storage_class",
    "object lock, retention, legal hold": r"object_lock|retention|legal_hold|bypass_governance",
    "encryption with the customer's or a managed key": r"encrypt|sse_",
    "web sites": r"website",
    "logging of a bucket": r"logging",
    "Signature Version 2 and torrents": r"aws2|torrent",
    "bucket tags and notifications": r"bucket_tagging|set_bucket_tagging|notification",
    "Ceph's own": r"append|usage|read_through|object_read_unreadable|account_|bucket_gone",
}
"""Reason to a pattern of the names of cases; marks of the suite name the same subjects."""
MARKS_NOT_OFFERED = {
    "versioning": "versions of objects",
    "delete_marker": "versions of objects",
    "bucket_policy": "bucket policies",
    "lifecycle": "life cycle, transitions, restore",
    "encryption": "encryption with the customer's or a managed key",
    "bucket_encryption": "encryption with the customer's or a managed key",
    "sse_s3": "encryption with the customer's or a managed key",
    "object_lock": "object lock, retention, legal hold",
    "object_ownership": "access control lists and anonymous access",
    "s3website": "web sites",
    "bucket_logging": "logging of a bucket",
    "auth_aws2": "Signature Version 2 and torrents",
    "appendobject": "Ceph's own",
    "cloud_transition": "life cycle, transitions, restore",
    "cloud_restore": "life cycle, transitions, restore",
    "fails_on_aws": "what Amazon's S3 itself does otherwise",
}

CALLS_NOT_OFFERED = {
    "PutBucketVersioning": "versions of objects",
    "PutBucketAcl": "access control lists and anonymous access",
    "PutObjectAcl": "access control lists and anonymous access",
}
"""Cases that start with such a call fail at it, whatever their subject."""

PLUGIN = """
import json, os, re
import pytest
with open(os.environ["NOT_OFFERED"]) as stream:
    names, marks = json.load(stream)
def pytest_collection_modifyitems(items):
    for item in items:
        named = {mark.name for mark in item.iter_markers()}
        found = [reason for reason, pattern in names.items() if re.search(pattern, item.name)]
        found += [reason for mark, reason in marks.items() if mark in named]
        if found:
            item.add_marker(pytest.mark.skip(reason="not offered: " + found[0]))
"""

CONFIG = """
[DEFAULT]
host = 127.0.0.1
port = {port}
is_secure = False
ssl_verify = False
[fixtures]
bucket prefix = ts-{{random}}-
iam name prefix = s3-tests-
iam path prefix = /s3-tests/
[s3 main]
display_name = trackside
user_id = {owner}
email = main@example.com
api_name = default
access_key = {keys[0]}
secret_key = {keys[1]}
[s3 alt]
display_name = trackside
user_id = {owner}
email = alt@example.com
access_key = {keys[2]}
secret_key = {keys[3]}
[s3 tenant]
display_name = trackside
user_id = {owner}
email = tenant@example.com
access_key = {keys[2]}
secret_key = {keys[3]}
tenant = t
[iam]
display_name = trackside
user_id = {owner}
email = iam@example.com
access_key = {keys[0]}
secret_key = {keys[1]}
[iam root]
user_id = {owner}
email = root@example.com
access_key = {keys[0]}
secret_key = {keys[1]}
[iam alt root]
user_id = {owner}
email = altroot@example.com
access_key = {keys[2]}
secret_key = {keys[3]}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--show-failures", action="store_true")
    parser.add_argument("-k", dest="only", default="", help="as pytest's")
    arguments = parser.parse_args()
    python = _environment(arguments.checkout)
    with tempfile.TemporaryDirectory() as name, _server(Path(name)) as config:
        cases = _run(python, arguments.checkout, Path(name), config, arguments.only)
    _report(cases, arguments.show_failures)


def _environment(checkout: Path) -> Path:
    folder = PEERS / "s3-tests"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        needed = ["-r", str(checkout / "requirements.txt")]
        subprocess.run([str(python), "-m", "pip", "install", "-qq", *needed], check=True)
    return python


@contextmanager
def _server(folder: Path) -> Iterator[Path]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder / "home")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        keys = process.stdout.readline().split() + process.stdout.readline().split()
        config = folder / "s3tests.conf"
        config.write_text(CONFIG.format(port=port, keys=keys, owner="0" * 63 + "1"))
        yield config
        process.terminate()


def _run(
    python: Path, checkout: Path, folder: Path, config: Path, only: str
) -> list[ElementTree.Element]:
    (folder / "not_offered_plugin.py").write_text(PLUGIN)
    tables = folder / "not_offered.json"
    tables.write_text(json.dumps([NOT_OFFERED, MARKS_NOT_OFFERED]))
    results = folder / "results.xml"
    command = [
        str(python), "-m", "pytest", "-q", "-p", "not_offered_plugin", f"--junitxml={results}",
        "-o", "junit_family=xunit1", "s3tests/functional/test_s3.py",
        "s3tests/functional/test_headers.py",
    ]  # fmt: skip
    if only:
        command += ["-k", only]
    environment = os.environ | {
        "S3TEST_CONF": str(config),
        "NOT_OFFERED": str(tables),
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    subprocess.run(
        command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return list(ElementTree.parse(results).iter("testcase"))


def _report(cases: list[ElementTree.Element], show_failures: bool) -> None:
    left_out: Counter[str] = Counter()
    passed, failed = 0, []
    for case in cases:
        problem = next((each for each in case if each.tag in ("failure", "error")), None)
        reason = _reason(case)
        if reason is not None:
            left_out[reason] += 1
        elif problem is not None:
            failed.append((case.attrib["name"], problem.attrib.get("message", "")[:160]))
        else:
            passed += 1
    print(f"{len(cases)} cases, {sum(left_out.values())} of them about what is not offered:\n")
    for reason, count in left_out.most_common():
        print(f"  {count:4} {reason}")
    print(f"\nof the other {passed + len(failed)}: {passed} passed, {len(failed)} failed")
    if show_failures:
        for name, message in failed:
            print(f"  {name}: {' '.join(message.split())}")


def _reason(case: ElementTree.Element) -> str | None:
    """Why a case is left out."""
    reported = "".join(each.attrib.get("message", "") for each in case)
    if case.find("skipped") is not None:
        return (
            reported.removeprefix("not offered: ")
            if "not offered" in reported
            else "nothing to run"
        )
    for operation, reason in CALLS_NOT_OFFERED.items():
        if f"(NotImplemented) when calling the {operation} " in reported:
            return reason
    return None


if __name__ == "__main__":
    main()
