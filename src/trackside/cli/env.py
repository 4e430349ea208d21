"""`trackside env`: what a shell must export so that AWS clients find this machine's server."""

import shlex

import click

from trackside import durable
from trackside.cli.access import access_keys, own_key
from trackside.cli.server import DEFAULT_LISTEN
from trackside.jobs.describe import ROLE_ARN
from trackside.settings import Settings

DEFAULT_REGION = "us-east-1"
VARIABLES = (
    "AWS_ENDPOINT_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_EC2_METADATA_DISABLED",
    "SAGEMAKER_USER_CONFIG_OVERRIDE",
)


@click.command
@click.option(
    "--region",
    default=DEFAULT_REGION,
    show_default=True,
    metavar="REGION",
    help="Any that AWS has; SageMaker's SDK looks up images by it.",
)
@click.option("--bucket", default="trackside", show_default=True, help="The SDKs' default bucket.")
@click.option("--reset", is_flag=True, help="Undo: print `unset` lines, remove the SDKs' file.")
def env(region: str, bucket: str, reset: bool) -> None:
    """Print what sets up boto3, the AWS CLI and SageMaker's SDKs in a shell.

    Also writes the file that keeps SageMaker's SDKs from asking hosts of Amazon's: a default
    bucket, a role, and no telemetry.

    \b
    Examples:
      trackside env --region eu-central-1
      eval "$(trackside env)"
      eval "$(trackside env --reset)"
    """
    settings = Settings.load()
    if reset:
        settings.layout.server.sdk_config.unlink(missing_ok=True)
        print(f"unset {' '.join(VARIABLES)}")
        return
    keys = access_keys(settings)
    key = own_key(keys)
    path = settings.layout.server.sdk_config
    durable.write_bytes(path, sdk_config(bucket).encode())
    address = durable.read_json(settings.layout.server.address) or {}
    values = (
        address.get("url") or f"http://{DEFAULT_LISTEN}",
        key.id,
        keys.secret_of(key.id) or "",
        region,
        region,
        "true",
        str(path),
    )
    for name, value in zip(VARIABLES, values, strict=True):
        print(f"export {name}={shlex.quote(value)}")


def sdk_config(bucket: str) -> str:
    """In the form that versions 2 and 3 of SageMaker's SDK read."""
    return f"""\
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      Session:
        DefaultS3Bucket: {bucket}
  TrainingJob:
    RoleArn: {ROLE_ARN}
"""
