"""What schemathesis loads beside the document: the listed statuses only, fresh idempotency keys, two checks more."""

import hashlib
import os
import re
from base64 import urlsafe_b64encode
from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

_SALT = os.urandom(16)
_VALID = re.compile(r"[A-Za-z0-9._:-]{8,128}")
_inputs: dict[str, str] = {}
_answers: dict[str, bytes] = {}


@schemathesis.hook
def before_load_schema(context: HookContext, raw_schema: dict[str, Any]) -> None:  # noqa: ARG001
    """Takes away the default responses, which any status would fit."""
    for item in raw_schema["paths"].values():
        for operation in item.values():
            del operation["responses"]["default"]


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:  # noqa: ARG001
    """Gives each input a key of its own, as long as the generated one, which is seldom fresh and would conflict."""
    key = case.headers.get("Idempotency-Key")
    given = repr((case.path, case.query, case.body))
    # A link repeats a key of ours with its input.
    if isinstance(key, str) and _VALID.fullmatch(key) and _inputs.get(key) != given:
        digest = hashlib.shake_256(_SALT + repr((key, given)).encode()).digest(96)
        fresh = urlsafe_b64encode(digest).decode()[: len(key)]
        _inputs[fresh] = given
        case.headers["Idempotency-Key"] = fresh


@schemathesis.check
def only_the_key_opens(ctx: CheckContext, response: Response, case: Case[Any]) -> None:  # noqa: ARG001
    """401 is for those who have not the key, and for them alone."""
    sent = response.request.headers.get("Authorization")
    if response.status_code != 405:
        assert (response.status_code == 401) == (sent != f"Bearer {os.environ['SEPU_API_KEY']}")


@schemathesis.check
def replays_are_exact(ctx: CheckContext, response: Response, case: Case[Any]) -> None:  # noqa: ARG001
    """The second answer to a key says so, and is the first one's bytes."""
    key = response.request.headers.get("Idempotency-Key")
    if response.status_code == 200 and isinstance(key, str):
        assert ("idempotency-replayed" in response.headers) == (key in _answers)
        assert response.content == _answers.setdefault(key, response.content)
