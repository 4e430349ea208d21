"""Names of container images: which registry they are in. Pure."""

import re

DOCKER_HUB = "docker.io"
_ECR = re.compile(r"\d{12}\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")


def registry_of(name: str) -> str:
    """The registry's host, with its port: `docker.io` unless the name begins with another one."""
    first, slash, _ = name.partition("/")
    is_host = slash and (first == "localhost" or "." in first or ":" in first)
    return first if is_host else DOCKER_HUB


def with_tag(name: str) -> str:
    """`latest` is added to a name without tag or digest: an engine would pull all tags."""
    has_tag = "@" in name or ":" in name.rpartition("/")[2]
    return name if has_tag else f"{name}:latest"


def login_command(registry: str) -> str:
    """What a user types to be let in."""
    if found := _ECR.fullmatch(registry):
        return (
            f"aws ecr get-login-password --region {found['region']} | "
            f"docker login --username AWS --password-stdin {registry}"
        )
    return "docker login" if registry == DOCKER_HUB else f"docker login {registry}"
