"""Keys of running jobs: whose they are, and how long they are good."""

import pytest

from trackside.api.job_credentials import JobCredentials
from trackside.api.keys import AccessKeys, Rights, UnknownKey
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.placed import Placed, PlacedHost
from trackside.records.status import Secondary
from trackside.settings import Settings

URL = "http://127.0.0.1:7007"


@pytest.fixture
def home() -> Home:
    return Settings.load().layout


@pytest.fixture
def credentials(home: Home) -> JobCredentials:
    return JobCredentials(AccessKeys(home.server.root), home)


def begin(home: Home, name: str, nonce: str) -> Journal:
    home.job(name).root.mkdir(parents=True, exist_ok=True)
    Placed(hosts={"algo-1": PlacedHost(nonce=nonce)}).write(home.job(name))
    journal = Journal(home.job(name).journal)
    if not home.job(name).journal.exists():
        journal.open()
    return journal


def test_a_job_has_a_key_until_it_has_ended(home: Home, credentials: JobCredentials):
    journal = begin(home, "job", "1")
    given = credentials.environment("job", URL)
    key = credentials.get(given["AWS_ACCESS_KEY_ID"])
    assert key.rights is Rights.SUBMIT
    assert credentials.secret_of(key.id) == given["AWS_SECRET_ACCESS_KEY"]
    journal.move(Secondary.FAILED, reason="for the test")
    assert credentials.secret_of(key.id) is None
    assert credentials.environment("job", URL) == {}
    with pytest.raises(UnknownKey, match="no job of this name runs"):
        credentials.get(key.id)


def test_no_two_jobs_share_a_secret(home: Home, credentials: JobCredentials):
    begin(home, "job", "1")
    begin(home, "other", "1")
    first, other = (credentials.secret_of(f"TSJOB-{name}") for name in ("job", "other"))
    begin(home, "job", "2")
    assert len({first, other, credentials.secret_of("TSJOB-job")}) == 3


@pytest.mark.parametrize("name", ["", "nobody", "../jobs/job", "job/", "job\n"])
def test_a_name_that_is_no_job_s_has_no_key(home: Home, credentials: JobCredentials, name: str):
    begin(home, "job", "1")
    assert credentials.secret_of(f"TSJOB-{name}") is None


def test_keys_that_people_made_are_found_as_ever(home: Home, credentials: JobCredentials):
    made, secret = AccessKeys(home.server.root).create("ci", Rights.READ)
    assert credentials.get(made.id).label == "ci"
    assert credentials.secret_of(made.id) == secret
