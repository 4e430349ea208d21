"""Opens cloud stores: time limits, retries and credentials in obstore's terms."""

import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.store import AzureStore, GCSStore, S3Store

from trackside.errors import AccessRefused
from trackside.storage import plain_http
from trackside.storage.cloud import CloudStore, errors_named
from trackside.storage.cloud_errors import Place
from trackside.storage.credentials import S3Access

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config

_INSTANCE_METADATA = ("169.254.169.254", 80)


@dataclass(frozen=True, slots=True)
class Retry:
    """How long a request is tried. Waits double from the first to the longest, with jitter."""

    max_retries: int = 12
    limit_seconds: float = 120.0
    """No further try starts later than this after the first."""
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 15.0
    connect_seconds: float = 5.0
    silence_seconds: float = 60.0
    """A connection without a byte for so long counts as broken."""


PATIENT = Retry()
HURRIED = Retry(
    max_retries=3,
    limit_seconds=3.0,
    longest_wait_seconds=1.0,
    connect_seconds=2.0,
    silence_seconds=5.0,
)
"""For a question somebody sits and waits for."""


def open_s3(bucket: str, access: S3Access, retry: Retry = PATIENT) -> CloudStore:
    """`AccessRefused` at once when there are no credentials to try."""
    place = Place(f"s3://{bucket}", access.endpoint or "AWS", access.advice)
    if access.source == "none" or (access.source == "instance" and not _is_on_ec2()):
        raise AccessRefused(f"'{place.name}' at {place.server}: {access.advice}")
    config: S3Config = {"region": access.region}
    if access.endpoint is not None:
        config["endpoint"] = access.endpoint
    if access.access_key_id is not None and access.secret_access_key is not None:
        config["access_key_id"] = access.access_key_id
        config["secret_access_key"] = access.secret_access_key
    if access.session_token is not None:
        config["session_token"] = access.session_token
    client = _client(retry)
    client["allow_http"] = True
    with errors_named(place, ""):
        inner = S3Store(bucket, config=config, client_options=client, retry_config=_retries(retry))
    return CloudStore(inner, place, is_plain_http=plain_http.is_usable(access.endpoint))


def open_google(bucket: str, retry: Retry = PATIENT) -> CloudStore:
    """Credentials as Google's own libraries find them: GOOGLE_APPLICATION_CREDENTIALS and so on."""
    advice = "Set GOOGLE_APPLICATION_CREDENTIALS to a key file, or log in with gcloud."
    place = Place(f"gs://{bucket}", "Google Cloud Storage", advice)
    with errors_named(place, ""):
        inner = GCSStore(bucket, client_options=_client(retry), retry_config=_retries(retry))
    return CloudStore(inner, place)


def open_azure(container: str, retry: Retry = PATIENT) -> CloudStore:
    """The account and its key from AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, …"""
    advice = "Set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or a SAS token."
    place = Place(f"az://{container}", "Azure", advice)
    client = _client(retry)
    client["allow_http"] = True  # an emulator's AZURE_STORAGE_ENDPOINT
    with errors_named(place, ""):
        inner = AzureStore(container, client_options=client, retry_config=_retries(retry))
    return CloudStore(inner, place)


def _client(retry: Retry) -> "ClientConfig":
    return {
        "connect_timeout": timedelta(seconds=retry.connect_seconds),
        "read_timeout": timedelta(seconds=retry.silence_seconds),
        # The whole request, body included: only a guard, silence is what counts.
        "timeout": timedelta(minutes=30),
    }


def _retries(retry: Retry) -> "RetryConfig":
    return {
        "max_retries": retry.max_retries,
        "retry_timeout": timedelta(seconds=retry.limit_seconds),
        "backoff": {
            "init_backoff": timedelta(seconds=retry.first_wait_seconds),
            "max_backoff": timedelta(seconds=retry.longest_wait_seconds),
            "base": 2,
        },
    }


def _is_on_ec2() -> bool:
    """Asked once before relying on instance credentials: elsewhere every request would wait."""
    try:
        socket.create_connection(_INSTANCE_METADATA, timeout=1).close()
    except OSError:
        return False
    return True
