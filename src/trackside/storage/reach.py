"""Whether other machines find the same data at a location, or only this one does."""

import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from trackside.storage.credentials import s3_access
from trackside.storage.locate import local_path
from trackside.texts.storage_schemes import S3, split_scheme


def only_here(uri: str, home: Path, *, buckets_url: str = "", has_loopback: bool = False) -> str:
    """Why another machine does not find what is at this location; empty when it does.

    `buckets_url` is where a server of ours serves the embedded buckets, if one does. With
    `has_loopback` it is another home on this machine.
    """
    if local_path(uri) is not None:
        return "is a folder of this machine"
    if split_scheme(uri)[0] != S3.name:
        return ""
    access = s3_access(home=home)
    if access is None and not buckets_url:
        return "is in the buckets of TRACKSIDE_HOME on this machine"
    endpoint = buckets_url if access is None else access.endpoint
    if endpoint is not None and not has_loopback and is_loopback_url(endpoint):
        return f"is at {endpoint}, an address that only this machine reaches"
    return ""


def is_loopback_url(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
