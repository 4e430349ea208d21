"""What a job needs of its submitter's environment where its hosts are other machines.

There a host has its own PATH, HOME and TRACKSIDE_HOME. It gets the way to the object store, the
settings that are about jobs, and the variables that the job itself names; nothing else.
"""

from collections.abc import Mapping

from trackside.settings import EMBEDDED
from trackside.texts.storage_schemes import CREDENTIAL_VARIABLES

_OF_THIS_MACHINE = (
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_PROFILE",
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CONFIG_DIR",
    "AZURE_FEDERATED_TOKEN_FILE",
    "BOTO_CONFIG",
    "CLOUDSDK_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
)
"""Paths, profiles and addresses that mean nothing on another machine."""
_ABOUT_JOBS = (
    "TRACKSIDE_ALLOW_CALLBACKS",
    "TRACKSIDE_HEARTBEAT",
    "TRACKSIDE_ISOLATION",
    "TRACKSIDE_JOB_VARIABLES",
    "TRACKSIDE_KEEP_FILES_GB",
    "TRACKSIDE_LEASE",
    "TRACKSIDE_RULE_MEMORY_GB",
    "TRACKSIDE_RULE_PROCESSES",
    "TRACKSIDE_RULE_STEP_SECONDS",
    "TRACKSIDE_S3",
    "TRACKSIDE_SMTP_FROM",
    "TRACKSIDE_SMTP_HOST",
    "TRACKSIDE_SMTP_PASSWORD",
    "TRACKSIDE_SMTP_SECURITY",
    "TRACKSIDE_SMTP_USER",
    "TRACKSIDE_UPLOAD_DEADLINE",
    "TRACKSIDE_WEBHOOK_SECRET",
    "TRACKSIDE_WEBHOOK_URL",
)


def needed_elsewhere(environ: Mapping[str, str]) -> dict[str, str]:
    named = {name.strip() for name in environ.get("TRACKSIDE_JOB_VARIABLES", "").split(",")}
    needed = {
        name: value
        for name, value in environ.items()
        if name in named or name in _ABOUT_JOBS or _leads_to_the_store(name)
    }
    return {**needed, "TRACKSIDE_URL": EMBEDDED}


def _leads_to_the_store(name: str) -> bool:
    return name.startswith(CREDENTIAL_VARIABLES) and name not in _OF_THIS_MACHINE
