"""The table of storage URI schemes: how each is written, opened and authenticated.

A new scheme is one row here. `storage/connect` opens it; validation, the server's checks and the
list of variables withheld from scripts all read this table.
"""

import re

from trackside.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Scheme:
    name: str
    service: str = ""
    """In error messages."""
    client: str = ""
    """The class in `obstore.store` that opens a bucket; empty for files, which only this machine
    can read.
    """
    missing_credentials: str = ""
    """What to do without credentials."""
    variables: tuple[str, ...] = ()
    """Prefixes of the environment variables with its credentials and how to get them."""
    allows_http: bool = False
    """Its endpoint may be without TLS: another server, or an emulator."""

    @property
    def prefix(self) -> str:
        return f"{self.name}://"

    @property
    def is_local(self) -> bool:
        return not self.client


S3 = Scheme(
    "s3",
    service="AWS",
    client="S3Store",
    missing_credentials="No credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_PROFILE to a profile of ~/.aws/credentials that has them.",
    variables=("AWS_", "BOTO_", "S3_"),
    allows_http=True,
)
"""The scheme of the embedded buckets and of our server."""

SCHEMES = (
    S3,
    Scheme(
        "gs",
        service="Google Cloud Storage",
        client="GCSStore",
        missing_credentials="Set GOOGLE_APPLICATION_CREDENTIALS to a key file, or log in with "
        "gcloud.",
        variables=("CLOUDSDK_", "GOOGLE_"),
    ),
    Scheme(
        "az",
        service="Azure",
        client="AzureStore",
        missing_credentials="Set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or a "
        "SAS token.",
        variables=("AZURE_", "IDENTITY_", "MSI_"),
        allows_http=True,
    ),
    Scheme("file"),
)

BY_NAME = {scheme.name: scheme for scheme in SCHEMES}
PREFIXES = tuple(scheme.prefix for scheme in SCHEMES)
OBJECT_STORES = tuple(scheme.prefix for scheme in SCHEMES if not scheme.is_local)
"""For `str.startswith`: locations that other machines can read too."""
CREDENTIAL_VARIABLES = tuple(prefix for scheme in SCHEMES for prefix in scheme.variables)

LOCATION_PATTERN = rf"({'|'.join(BY_NAME)})://.*|[^:]+|[A-Za-z]:[\\/].*"
LOCATION_FORM = (
    f"an {', '.join(PREFIXES[:-1])} or {PREFIXES[-1]} location, or a path on this machine"
)

# Also the typo `s3:/bucket`, which would otherwise be a folder named `s3:`.
_WRITTEN = re.compile(
    rf"((?:{'|'.join(BY_NAME)})(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=://)):(.*)", re.DOTALL
)


def split_scheme(uri: str) -> tuple[str, str]:
    """The scheme, known or not, in lower case, and what follows its colon; ("", uri) for a path."""
    matched = _WRITTEN.fullmatch(uri)
    return ("", uri) if matched is None else (matched[1].lower(), matched[2])
