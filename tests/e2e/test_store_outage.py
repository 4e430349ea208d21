"""An object store that goes away: for a while, and for good."""

import os

import pytest

from tests.e2e.conftest import Machine
from tests.waiting import until
from trackside.layout import JobKeys
from trackside.status import Status
from trackside.supervisor.publish import upload_kept
