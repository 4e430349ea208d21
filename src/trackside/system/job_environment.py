"""Which part of a server's environment reaches the scripts of its jobs, and how their own keys do.

Supervisors get all of it: they need the store's credentials, and call no server. A script is
untrusted. It gets what is not a secret of the server, and the keys of its own job, which are passed
to the supervisor in one variable, `GIVEN`, and never on disk.
"""

import json
from collections.abc import Iterable, Mapping

from trackside.texts.secret_names import looks_secret, names_a_user
from trackside.texts.storage_schemes import CREDENTIAL_VARIABLES

GIVEN = "TRACKSIDE_SCRIPT_VARIABLES"

_OURS = ("SM_", "SAGEMAKER_", "TRACKSIDE_")
"""Set for each job; or settings, some of them secret."""
_NO_SECRET = ("AWS_CA_BUNDLE", "AWS_DEFAULT_REGION", "AWS_REGION")
_LEADING_TO_SECRETS = (
    *("DOCKER_CONFIG", "KRB5CCNAME", "KUBECONFIG", "NETRC", "PGPASSFILE", "PGSERVICEFILE"),
    "SSH_AUTH_SOCK",
)


def packed(variables: Mapping[str, str]) -> str:
    """Variables for the script alone, as the value of `GIVEN`."""
    return json.dumps(dict(variables))


def of_submitter(environ: Mapping[str, str]) -> dict[str, str]:
    """For the script of a job submitted on this machine, with the submitter's environment."""
    return {name: value for name, value in environ.items() if not name.startswith(_OURS)}


def of_server(environ: Mapping[str, str], passed_on: Iterable[str] = ()) -> dict[str, str]:
    """For the script of a server's job. `passed_on` names variables that it always gets."""
    passed = set(passed_on)
    inherited = {
        name: value
        for name, value in of_submitter(environ).items()
        if name in passed or not _is_withheld(name, value)
    }
    return {**inherited, **json.loads(environ.get(GIVEN) or "{}")}


def of_job(environ: Mapping[str, str], passed_on: Iterable[str]) -> dict[str, str]:
    """For a container: only what was given to the job, and the variables named by `passed_on`."""
    passed = {name: environ[name] for name in passed_on if name in environ}
    return {**passed, **json.loads(environ.get(GIVEN) or "{}")}


def _is_withheld(name: str, value: str) -> bool:
    if name in _NO_SECRET:
        return False
    is_named = name.startswith(CREDENTIAL_VARIABLES) or name in _LEADING_TO_SECRETS
    return is_named or looks_secret(name) or names_a_user(value)
