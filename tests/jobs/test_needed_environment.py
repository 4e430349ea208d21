"""What goes to another machine: the way to the store and settings about jobs, nothing else."""

from trackside.jobs.needed_environment import needed_elsewhere


def test_a_host_elsewhere_gets_what_the_job_needs_and_not_what_the_submitter_has():
    needed = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_ENDPOINT_URL_S3": "http://10.0.0.9",
        "AZURE_STORAGE_ACCOUNT_KEY": "hush",
        "TRACKSIDE_UPLOAD_DEADLINE": "60",
        "TRACKSIDE_JOB_VARIABLES": "HF_TOKEN, OTHER",
        "HF_TOKEN": "named by the operator",
    }
    of_this_machine = {
        "PATH": "/home/alice/bin",
        "HOME": "/home/alice",
        "PYTHONPATH": "/home/alice/src",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS_PROFILE": "team",
        "AWS_SHARED_CREDENTIALS_FILE": "/home/alice/.aws/credentials",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/alice/key.json",
        "TRACKSIDE_HOME": "/home/alice/.trackside",
        "TRACKSIDE_PYTHON": "/home/alice/bin/python",
        "TRACKSIDE_ACCESS_KEY_ID": "of the server",
        "TRACKSIDE_URL": "http://server",
    }
    found = needed_elsewhere({**needed, **of_this_machine})
    assert found == {**needed, "TRACKSIDE_URL": "embedded"}
