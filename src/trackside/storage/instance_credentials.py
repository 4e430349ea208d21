"""Credentials of a machine or container on EKS, ECS and EC2.

For code that signs requests itself; the object-store library finds them in the same order.
"""

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from math import inf
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree

from trackside.errors import InvalidSetting, StoreUnreachable
from trackside.quick_dataclass import dataclass
from trackside.storage.credentials import S3Access

_ECS = "http://169.254.170.2"
_EC2 = "http://169.254.169.254"
_ROLES = "/latest/meta-data/iam/security-credentials/"
_SECONDS = 5.0
_SESSION = "trackside"


@dataclass(frozen=True, slots=True)
class Keys:
    id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    expires: float = inf
    """Seconds since the epoch."""


def keys_for(access: S3Access, environ: Mapping[str, str]) -> Keys:
    """Configured keys, else those that the platform provides; may take seconds.

    `InvalidSetting` when there are none, `StoreUnreachable` if the provider does not respond.
    """
    if access.access_key_id is not None and access.secret_access_key is not None:
        return Keys(access.access_key_id, access.secret_access_key, access.session_token)
    if access.source not in ("surroundings", "instance"):
        raise InvalidSetting(
            f"Requests to S3 cannot be signed for the store. {access.advice} "
            "A role that EKS, ECS or EC2 gives to this machine is found, too."
        )
    try:
        return _given(access, environ)
    except (OSError, ValueError, LookupError, TypeError) as error:
        # Without a configuration it may be EC2, or any other machine.
        kind = InvalidSetting if access.source == "instance" else StoreUnreachable
        raise kind(f"This machine provides no keys for S3 ({error!r}). {access.advice}") from error


def _given(access: S3Access, environ: Mapping[str, str]) -> Keys:
    if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return _of_web_identity(access.region, environ)
    if path := environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return _keys(_fetch(_ECS + path))
    if url := environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        token = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        if file := environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = Path(file).read_text().strip()
        return _keys(_fetch(url, {"Authorization": token} if token else {}))
    base = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", _EC2).rstrip("/")
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    session = _fetch(f"{base}/latest/api/token", lifetime, method="PUT").decode()
    headers = {"X-aws-ec2-metadata-token": session}
    role = _fetch(base + _ROLES, headers).decode().splitlines()[0]
    return _keys(_fetch(base + _ROLES + role, headers))


def _of_web_identity(region: str, environ: Mapping[str, str]) -> Keys:
    suffix = ".cn" if region.startswith("cn-") else ""
    amazon = f"https://sts.{region}.amazonaws.com{suffix}"
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": environ["AWS_ROLE_ARN"],
        "RoleSessionName": environ.get("AWS_ROLE_SESSION_NAME") or _SESSION,
        "WebIdentityToken": Path(environ["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text().strip(),
    }
    url = environ.get("AWS_ENDPOINT_URL_STS") or amazon
    with urllib.request.urlopen(f"{url}/", urlencode(form).encode(), _SECONDS) as response:
        found = ElementTree.fromstring(response.read()).find(".//{*}Credentials")
    if found is None:
        raise ValueError("STS gave no credentials")
    fields = {each.tag.rpartition("}")[2]: each.text or "" for each in found}
    moment = datetime.fromisoformat(fields["Expiration"]).timestamp()
    return Keys(fields["AccessKeyId"], fields["SecretAccessKey"], fields["SessionToken"], moment)


def _keys(response: bytes) -> Keys:
    fields = json.loads(response)
    moment = datetime.fromisoformat(fields["Expiration"]).timestamp()
    return Keys(fields["AccessKeyId"], fields["SecretAccessKey"], fields["Token"], moment)


def _fetch(url: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> bytes:
    """Never through a proxy: the address is local to this machine."""
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_SECONDS) as response:
        return bytes(response.read())
