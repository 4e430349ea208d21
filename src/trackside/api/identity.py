"""STS and IAM, as far as training clients use them: GetCallerIdentity, AssumeRole, and roles.

There are no roles here. Every name is accepted as one, with the rights of the caller's key.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from trackside.api.call import Call, Reply, ServiceError
from trackside.api.keys import AccessKey
from trackside.api.protocols import QueryProtocol, numbered
from trackside.api.sessions import Sessions

ACCOUNT = "000000000000"
ROLE = "trackside"
_ROLE_ID = "AROATRACKSIDE0000000"
_SESSION_SECONDS = 3600
STS_OPERATIONS = ("AssumeRole", "GetCallerIdentity")
IAM_OPERATIONS = ("GetRole", "SimulatePrincipalPolicy")
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
    def __init__(self, sessions: Sessions) -> None:
        super().__init__("https://sts.amazonaws.com/doc/2011-06-15/")
        self._sessions = sessions

    async def handle(self, call: Call) -> Reply:
        operation, given = self.read(call)
        if operation not in STS_OPERATIONS:
            raise unknown_operation("sts", operation, [*STS_OPERATIONS])
        call.exchange.operation = operation
        if operation == "AssumeRole":
            return self.reply(operation, self._assumed(call.caller, given), call.id)
        # An assumed role, not a user: `get_execution_role()` of the SDKs insists on one.
        identity = {
            "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE}/{call.caller.id}",
            "UserId": f"{_ROLE_ID}:{call.caller.id}",
            "Account": ACCOUNT,
        }
        return self.reply(operation, identity, call.id)

    def _assumed(self, caller: AccessKey, given: Mapping[str, str]) -> dict[str, Any]:
        """Any role is the caller: its temporary keys may do what the caller may."""
        role, name = given.get("RoleArn", ""), given.get("RoleSessionName", "")
        seconds = given.get("DurationSeconds", str(_SESSION_SECONDS))
        if ":role/" not in role or not re.fullmatch(r"[\w+=,.@-]{2,64}", name, re.ASCII):
            raise ServiceError("ValidationError", "RoleArn and RoleSessionName are required.")
        if not re.fullmatch(r"[0-9]{3,5}", seconds) or not 900 <= int(seconds) <= 43200:
            raise ServiceError("ValidationError", "DurationSeconds is from 900 to 43200.")
        session, token = self._sessions.issue(caller, int(seconds))
        moment = datetime.fromtimestamp(session.expires, UTC)
        return {
            "Credentials": {
                "AccessKeyId": session.id,
                "SecretAccessKey": session.secret,
                "SessionToken": token,
                "Expiration": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            "AssumedRoleUser": {
                "AssumedRoleId": f"{_ROLE_ID}:{name}",
                "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role.rpartition('/')[2]}/{name}",
            },
        }


class Iam(QueryProtocol):
    def __init__(self) -> None:
        super().__init__("https://iam.amazonaws.com/doc/2010-05-08/")

    async def handle(self, call: Call) -> Reply:
        operation, given = self.read(call)
        if operation in IAM_OPERATIONS:
            call.exchange.operation = operation
        if operation == "GetRole":
            return self.reply(operation, {"Role": _role(given.get("RoleName", ""))}, call.id)
        if operation == "SimulatePrincipalPolicy":
            results = [
                {"EvalActionName": action, "EvalDecision": "allowed", "EvalResourceName": resource}
                for action in numbered(given, "ActionNames")
                for resource in numbered(given, "ResourceArns") or ["*"]
            ]
            response = {"IsTruncated": False, "EvaluationResults": results}
            return self.reply(operation, response, call.id)
        raise unknown_operation("iam", operation, [*IAM_OPERATIONS])


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
