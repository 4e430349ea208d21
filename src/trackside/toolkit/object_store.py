"""The object store that the toolkit downloads from and uploads to, when it runs alone in an image.

Its package is not in every image; the caller names its purpose.
"""

from typing import Any

from trackside.errors import ToolkitError
from trackside.toolkit.environment import Settings


def open_bucket(bucket: str, settings: Settings, wanted: str) -> Any:
    """An obstore bucket, with the credentials of the environment or of the machine."""
    try:
        from obstore.store import S3Store
    except ImportError as missing:
        raise ToolkitError(f"{wanted} needs the package obstore in the image.") from missing
    region = settings.region or "us-east-1"
    endpoint = settings.s3_endpoint
    if endpoint is None:
        return S3Store(bucket, region=region)
    is_plain = endpoint.startswith("http://")
    return S3Store(
        bucket, region=region, endpoint=endpoint, client_options={"allow_http": is_plain}
    )
