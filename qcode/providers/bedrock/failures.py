"""What the exceptions of Amazon's SDK stand for. Pure: they are told by their names, so the SDK is not needed.

Answers of the host are told in `providers.errors`; here is what the SDK itself says before and instead of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.json import JsonObject
from qcode.providers.connection import Origin
from qcode.providers.errors import attributed, from_answer

INSTALL = "Amazon Bedrock needs boto3, which is not installed: pip install 'qcode[bedrock]'"
SIGN_IN = "check AWS_PROFILE or AWS_ACCESS_KEY_ID, and that the account may use the model"
_SET_CREDENTIALS = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK"

_KINDS: Mapping[str, tuple[ErrorKind, str]] = {
    "NoCredentialsError": (ErrorKind.NO_CREDENTIAL, _SET_CREDENTIALS),
    "NoAuthTokenError": (ErrorKind.NO_CREDENTIAL, _SET_CREDENTIALS),
    "PartialCredentialsError": (ErrorKind.NO_CREDENTIAL, _SET_CREDENTIALS),
    "ProfileNotFound": (ErrorKind.NO_CREDENTIAL, "AWS_PROFILE names the profile"),
    "CredentialRetrievalError": (ErrorKind.AUTH, ""),
    "MetadataRetrievalError": (ErrorKind.AUTH, ""),
    "TokenRetrievalError": (ErrorKind.AUTH, ""),
    "SSOError": (ErrorKind.AUTH, ""),
    "LoginError": (ErrorKind.AUTH, ""),
    "RefreshWithMFAUnsupportedError": (ErrorKind.AUTH, ""),
    "NoRegionError": (ErrorKind.BAD_REQUEST, "set AWS_REGION, or a region in the AWS profile"),
    "InvalidRegionError": (ErrorKind.BAD_REQUEST, "AWS_REGION or the AWS profile names the region"),
    "ValidationError": (ErrorKind.BAD_REQUEST, ""),
    "ParamValidationError": (ErrorKind.BAD_REQUEST, ""),
    "ConfigParseError": (ErrorKind.BAD_REQUEST, ""),
    "ReadTimeoutError": (ErrorKind.TIMEOUT, ""),
    "ConnectionError": (ErrorKind.UNREACHABLE, ""),
    "BaseEndpointResolverError": (ErrorKind.UNREACHABLE, ""),
    "EndpointProviderError": (ErrorKind.UNREACHABLE, ""),
    "HTTPClientError": (ErrorKind.CONNECTION, ""),
}
"""By the name of an exception or of what it derives from: its kind, and what to do about it."""


def of_sdk(origin: Origin, error: Exception, *, now: datetime) -> ProviderError | None:
    """Return what an exception of botocore stands for; None for one that is none of its own."""
    answer = getattr(error, "response", None)
    if isinstance(answer, dict):
        return _of_answer(origin, answer, now=now)
    names = [kind.__name__ for kind in type(error).__mro__]
    if "BotoCoreError" not in names:
        return None
    kind, advice = next((_KINDS[name] for name in names if name in _KINDS), (ErrorKind.INTERNAL, ""))
    text = str(error).rstrip(".")
    return attributed(ProviderError(kind, f"{text}; {advice}" if advice else text), origin)


def _of_answer(origin: Origin, answer: JsonObject, *, now: datetime) -> ProviderError:
    """Return what a `ClientError` stands for: an answer with an error status, which the SDK has read already."""
    error, meta = answer.get("Error"), answer.get("ResponseMetadata")
    error, meta = error if isinstance(error, dict) else {}, meta if isinstance(meta, dict) else {}
    status, headers = meta.get("HTTPStatusCode"), meta.get("HTTPHeaders")
    named = {name: str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}
    if isinstance(request_id := meta.get("RequestId"), str):
        named.setdefault("x-amzn-requestid", request_id)
    content = json.dumps({"__type": error.get("Code"), "message": error.get("Message")}).encode()
    return from_answer(origin, status if isinstance(status, int) else 500, named, content, now=now)
