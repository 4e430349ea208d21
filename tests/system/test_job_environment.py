"""What of an environment reaches a script: all of the submitter's own, no secret of a server's."""

import pytest

from trackside.system.job_environment import GIVEN, of_server, of_submitter, packed

HARMLESS = {
    "AWS_REGION": "eu-central-1",
    "CUDA_VISIBLE_DEVICES": "0",
    "HOME": "/home/me",
    "HTTPS_PROXY": "http://proxy:3128",
    "OMP_NUM_THREADS": "4",
    "PATH": "/bin",
    "TOKENIZERS_PARALLELISM": "false",
}
SECRET = {
    "AWS_ACCESS_KEY_ID": "AKIA",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
    "AWS_ENDPOINT_URL_S3": "http://minio:9000",
    "AWS_PROFILE": "work",
    "AWS_SECRET_ACCESS_KEY": "hush",
    "AWS_SESSION_TOKEN": "hush",
    "AWS_SHARED_CREDENTIALS_FILE": "/etc/keys",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
    "AZURE_STORAGE_ACCOUNT_KEY": "hush",
    "DATABASE_URL": "postgresql://me:hush@host/db",
    "GOOGLE_APPLICATION_CREDENTIALS": "/etc/key.json",
    "HF_TOKEN": "hush",
    "PGPASSWORD": "hush",
    "PIP_INDEX_URL": "https://me:hush@host/simple",
    "SSH_AUTH_SOCK": "/tmp/agent",
}
OURS = {
    "SM_HPS": "{}",
    "TRACKSIDE_DATABASE": "postgresql://me:hush@host/db",
    "TRACKSIDE_SMTP_PASSWORD": "hush",
    "TRACKSIDE_WEBHOOK_SECRET": "hush",
}


def test_a_script_of_a_server_gets_no_secret_of_it():
    assert of_server({**HARMLESS, **SECRET, **OURS}) == HARMLESS


def test_a_script_of_this_machine_gets_the_submitter_s_environment():
    assert of_submitter({**HARMLESS, **SECRET, **OURS}) == {**HARMLESS, **SECRET}


def test_the_job_s_own_keys_are_given_to_the_script_alone():
    own = {"AWS_ENDPOINT_URL": "http://127.0.0.1:7007", "AWS_ACCESS_KEY_ID": "TSJOB-a"}
    environ = {**HARMLESS, **SECRET, GIVEN: packed(own)}
    assert of_server(environ) == {**HARMLESS, **own}
    assert GIVEN not in of_submitter(environ)


@pytest.mark.parametrize("name", sorted(SECRET))
def test_an_operator_may_pass_a_variable_on(name: str):
    given = of_server({**HARMLESS, **SECRET, **OURS}, [name, "TRACKSIDE_SMTP_PASSWORD", ""])
    assert given == {**HARMLESS, name: SECRET[name]}
