"""docs/api.md names every operation that is answered, with the right that it needs."""

import re
from pathlib import Path

from trackside.api import cloudwatch
from trackside.api.identity import IAM_OPERATIONS, STS_OPERATIONS
from trackside.api.logs import logs
from trackside.api.sagemaker import sagemaker
from trackside.jobs.jobs import Jobs

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def shown(service: str) -> dict[str, str]:
    """By operation, the right."""
    [chapter] = re.findall(rf"^## {service}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    return dict(re.findall(r"^\| ([A-Z]\w+) \| (\w+) \|", chapter, re.M))


def test_the_page_has_every_operation_and_its_right(jobs: Jobs):
    offered = {
        "SageMaker": sagemaker(jobs).operations,
        "CloudWatch Logs": logs(jobs).operations,
        "CloudWatch": cloudwatch.operations(jobs),
    }
    for service, operations in offered.items():
        assert shown(service) == {name: str(each.needs) for name, each in operations.items()}
    assert set(shown("STS")) == set(STS_OPERATIONS)
    assert set(shown("IAM")) == set(IAM_OPERATIONS)
