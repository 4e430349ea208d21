"""STS and IAM, as far as training clients ask: who am I, and may this role do that.

There are no roles here. Every name is one, and it may do what the caller's key may.
"""

import json
from typing import Any
from urllib.parse import quote

from trackside.api.call import Call, Reply, ServiceError
from trackside.api.protocols import QueryProtocol, numbered

ACCOUNT = "000000000000"
ROLE = "trackside"
_ROLE_ID = "AROATRACKSIDE0000000"
_IAM = ("GetRole", "SimulatePrincipalPolicy")
_CREATED = "2026-01-01T00:00:00Z"
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


class Sts(QueryProtocol):
    def __init__(self) -> None:
        super().__init__("https://sts.amazonaws.com/doc/2011-06-15/")

    async def answer(self, call: Call) -> Reply:
        operation, _ = self.read(call)
        if operation != "GetCallerIdentity":
            raise unknown_operation("sts", operation, ["GetCallerIdentity"])
        call.exchange.operation = operation
        # An assumed role, not a user: `get_execution_role()` of the SDKs insists on one.
        identity = {
            "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE}/{call.caller.id}",
            "UserId": f"{_ROLE_ID}:{call.caller.id}",
            "Account": ACCOUNT,
        }
        return self.reply(operation, identity, call.id)


class Iam(QueryProtocol):
    def __init__(self) -> None:
        super().__init__("https://iam.amazonaws.com/doc/2010-05-08/")

    async def answer(self, call: Call) -> Reply:
        operation, given = self.read(call)
        if operation in _IAM:
            call.exchange.operation = operation
        if operation == "GetRole":
            return self.reply(operation, {"Role": _role(given.get("RoleName", ""))}, call.id)
        if operation == "SimulatePrincipalPolicy":
            results = [
                {"EvalActionName": action, "EvalDecision": "allowed", "EvalResourceName": resource}
                for action in numbered(given, "ActionNames")
                for resource in numbered(given, "ResourceArns") or ["*"]
            ]
            answer = {"IsTruncated": False, "EvaluationResults": results}
            return self.reply(operation, answer, call.id)
        raise unknown_operation("iam", operation, [*_IAM])


def unknown_operation(service: str, operation: str, offered: list[str]) -> ServiceError:
    text = f"{service} has no operation {operation!r} here. Offered: {', '.join(sorted(offered))}."
    return ServiceError("UnknownOperationException", text, 404)


def _role(name: str) -> dict[str, Any]:
    if not name:
        raise ServiceError("ValidationError", "RoleName is required.")
    return {
        "Path": "/",
        "RoleName": name,
        "RoleId": _ROLE_ID,
        "Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}",
        "CreateDate": _CREATED,
        "AssumeRolePolicyDocument": quote(json.dumps(_TRUST)),
        "MaxSessionDuration": 3600,
    }
