"""Services that are not offered, called by botocore: it must be able to read the response."""

import pytest
from botocore.exceptions import ClientError

from tests.api.conftest import Server

CALLS = {
    "dynamodb": "list_tables",  # JSON with a target
    "lambda": "list_functions",  # JSON by paths
    "cloudformation": "list_stacks",  # forms
    "ec2": "describe_instances",  # forms, with errors of its own
    "route53": "list_hosted_zones",  # XML by paths
    "cloudfront": "list_distributions",
}


@pytest.mark.parametrize("service", CALLS)
def test_an_unknown_service_is_rejected_in_its_own_protocol(server: Server, service: str):
    with pytest.raises(
        ClientError, match=f"{service}' is not offered here. Offered: iam, sts"
    ) as e:
        getattr(server.client(service), CALLS[service])()
    assert e.value.response["Error"]["Code"] == "UnknownOperationException"
    assert e.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
