"""Opens cloud stores: time limits, retries and credentials in obstore's terms."""

import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import obstore.store

from trackside.errors import AccessRefused
from trackside.quick_dataclass import dataclass
from trackside.storage.cloud import CloudStore, errors_named
from trackside.storage.cloud_errors import BucketLabel
from trackside.storage.credentials import S3Access
from trackside.texts.storage_schemes import S3, Scheme

if TYPE_CHECKING:
    from obstore.store import AzureStore, ClientConfig, GCSStore, RetryConfig, S3Config, S3Store

    from trackside.storage.conditional_upload import ConditionalUpload

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


STANDARD = Retry()
QUICK = Retry(
    max_retries=3,
    limit_seconds=3.0,
    longest_wait_seconds=1.0,
    connect_seconds=2.0,
    silence_seconds=5.0,
)
"""For requests that a user waits for."""


def open_s3(bucket: str, access: S3Access, retry: Retry = STANDARD) -> CloudStore:
    """`AccessRefused` at once when there are no credentials to try."""
    label = BucketLabel(f"{S3.prefix}{bucket}", access.endpoint or S3.service, access.advice)
    if access.source == "none" or (access.source == "instance" and not _is_on_ec2()):
        raise AccessRefused(f"'{label.name}' at {label.server}: {access.advice}")
    config: S3Config = {"region": access.region}
    if access.endpoint is not None:
        config["endpoint"] = access.endpoint
    if access.access_key_id is not None and access.secret_access_key is not None:
        config["access_key_id"] = access.access_key_id
        config["secret_access_key"] = access.secret_access_key
    if access.session_token is not None:
        config["session_token"] = access.session_token
    inner = _opened(S3, label, bucket, retry, access.endpoint or "", config=config)

    def conditional_upload() -> "ConditionalUpload":
        # Imported when first needed, which is for jobs on several machines.
        from trackside.storage.conditional_upload import ConditionalUpload

        return ConditionalUpload(bucket, access, label, retry)

    return CloudStore(inner, label, endpoint=access.endpoint, conditional_upload=conditional_upload)


def open_bucket(scheme: Scheme, bucket: str, retry: Retry = STANDARD) -> CloudStore:
    """With credentials as the service's own libraries find them, in the usual variables."""
    label = BucketLabel(f"{scheme.prefix}{bucket}", scheme.service, scheme.missing_credentials)
    return CloudStore(_opened(scheme, label, bucket, retry), label)


def _opened(
    scheme: Scheme,
    label: BucketLabel,
    bucket: str,
    retry: Retry,
    endpoint: str = "",
    **options: Any,
) -> "AzureStore | GCSStore | S3Store":
    client: ClientConfig = {
        "connect_timeout": timedelta(seconds=retry.connect_seconds),
        "read_timeout": timedelta(seconds=retry.silence_seconds),
        # The whole request, body included: only a guard, `silence_seconds` is what counts.
        "timeout": timedelta(minutes=30),
        "allow_http": scheme.allows_http,
    }
    if endpoint.startswith("http://"):
        # Nobody shows a certificate there; the system's, some hundred files, are not loaded.
        client["allow_invalid_certificates"] = True
    store_class: type[AzureStore | GCSStore | S3Store] = getattr(obstore.store, scheme.client)
    with errors_named(label, ""):
        return store_class(bucket, client_options=client, retry_config=_retries(retry), **options)


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
    """Checked before relying on instance credentials: elsewhere every request would wait."""
    try:
        socket.create_connection(_INSTANCE_METADATA, timeout=1).close()
    except OSError:
        return False
    return True
