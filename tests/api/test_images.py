"""Which image a client's job gets, and who may name which."""

import sys
import time
from typing import Any

import pytest

from trackside.api.access_key import AccessKey
from trackside.api.images import image_violations, placed
from trackside.errors import InvalidSetting
from trackside.records.rights import Rights
from trackside.records.spec import JobSpec
from trackside.settings import Settings

TEAM, ADMIN = (
    AccessKey(id="K", rights=rights, label="team", created=time.time())
    for rights in (Rights.SUBMIT, Rights.ADMIN)
)
TABLE = "torch:*=docker:my-torch:2"


def spec(image: str | None, **options: Any) -> JobSpec:
    return JobSpec.from_request(
        {
            "TrainingJobName": "job",
            "HyperParameters": {"sagemaker_program": "train.py"},
            "AlgorithmSpecification": {"TrainingImage": image} if image else {},
            "OutputDataConfig": {"S3OutputPath": "s3://b/out"},
            "Trackside": options,
        }
    )


def in_containers(**changed: str) -> Settings:
    return Settings(sandbox="docker", images=TABLE, **changed)  # type: ignore[arg-type]


def test_the_table_is_for_every_key_and_keeps_the_name_that_was_sent() -> None:
    sent = spec("registry.example/torch:2.1")
    assert image_violations(sent, TEAM, in_containers()) == []
    made = placed(sent, in_containers())
    assert (made.options.sandbox, made.image) == ("docker", "my-torch:2")
    assert made.algorithm.image == "registry.example/torch:2.1"


def test_other_images_are_for_admins_and_for_those_that_are_allowed() -> None:
    sent = spec("registry.example/x:1")
    [violation] = image_violations(sent, TEAM, in_containers())
    assert "TRACKSIDE_IMAGES and TRACKSIDE_ALLOW_IMAGES" in violation.advice
    assert "it may run torch:*." in violation.advice
    assert image_violations(sent, ADMIN, in_containers()) == []
    assert image_violations(sent, TEAM, in_containers(allow_images="registry.example/*")) == []
    assert placed(sent, in_containers()).image == "registry.example/x:1"


def test_where_the_engine_runs_images_they_are_allowed_as_in_containers() -> None:
    sent, cluster = spec("registry.example/x:1"), Settings(placement="kubernetes:context")
    assert len(image_violations(sent, TEAM, cluster)) == 1
    assert image_violations(sent, ADMIN, cluster) == []
    assert len(image_violations(spec(None), ADMIN, cluster)) == 1


def test_what_the_server_decides_cannot_be_sent() -> None:
    sent = spec("torch:1", Image="evil", ImageId="sha256:00", ImageDigest="evil@sha256:00")
    options = placed(sent, in_containers()).options
    assert (options.image, options.image_id, options.image_digest) == ("my-torch:2", None, None)
    options = placed(spec("x", Image="evil", ImageId="sha256:00"), Settings()).options
    assert (options.sandbox, options.image, options.image_id) == ("process", None, None)


def test_a_client_cannot_leave_the_container_nor_enter_one_without_the_right() -> None:
    assert placed(spec("torch:1", Sandbox="process"), in_containers()).is_container
    sent = spec("evil", Sandbox="docker")
    assert image_violations(sent, TEAM, Settings()) != []
    assert image_violations(sent, ADMIN, Settings()) == []
    assert placed(sent, Settings()).is_container


def test_a_job_without_an_image_needs_a_row_for_it() -> None:
    [violation] = image_violations(spec(None), ADMIN, in_containers())
    assert "*=docker:IMAGE" in violation.advice
    settings = Settings(sandbox="docker", images="*=docker:base")
    assert image_violations(spec(None), TEAM, settings) == []
    assert placed(spec(None), settings).image == "base"


def test_interpreters_are_chosen_as_before() -> None:
    settings = Settings(images=f"torch:*={sys.executable},lost:*=/not/here")
    assert placed(spec("torch:1"), settings).options.python == sys.executable
    assert placed(spec("other"), settings).options.python is None
    with pytest.raises(InvalidSetting, match="no program of this machine"):
        placed(spec("lost:1"), settings)
