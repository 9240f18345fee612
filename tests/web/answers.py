"""What any answer of the webhook port must look like."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

BAD_CALLS = {400: "", 404: "", 405: "", 411: "", 413: "", 415: ""}
"""The statuses that a call may be turned away with."""
MAX_WARNING = 255


def judged(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any] | None:
    """The `response` of a review, None where the call was turned away; fails where the answer is not a defined one."""
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    if status != 200:
        assert status in BAD_CALLS, (status, body[:500])
        assert kind.startswith("text/plain"), (status, kind, body[:500])
        text = body.decode()
        assert text.endswith("\n"), text
        assert len(text.splitlines()) == 1, text
        assert len(text.strip()) > 10, f"says too little: {text!r}"
        return None
    assert kind == "application/json", kind
    document = json.loads(body)
    assert document.keys() == {"apiVersion", "kind", "response"}
    assert document["apiVersion"] == "admission.k8s.io/v1"
    assert document["kind"] == "AdmissionReview"
    return _response(document["response"])


def _response(response: dict[str, Any]) -> dict[str, Any]:
    assert response.keys() <= {"uid", "allowed", "status", "patch", "patchType", "warnings"}
    assert isinstance(response["uid"], str)
    assert response["uid"]
    assert response["allowed"] in (True, False)
    if response["allowed"]:
        assert "status" not in response
    else:
        status = response["status"]
        assert (status["code"], status["reason"], status["status"]) == (403, "Forbidden", "Failure")
        assert isinstance(status["message"], str)
        assert status["message"]
        assert "patch" not in response
    assert ("patch" in response) == ("patchType" in response)
    if "patch" in response:
        assert response["patchType"] == "JSONPatch"
        assert patch_of(response), "an empty patch is left out"
    if "warnings" in response:
        assert response["warnings"]
        for warning in response["warnings"]:
            assert isinstance(warning, str)
            assert 0 < len(warning) <= MAX_WARNING
    return response


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations of the patch; none where there is none."""
    if "patch" not in response:
        return []
    operations = json.loads(base64.b64decode(response["patch"], validate=True))
    assert all(operation["op"] == "add" for operation in operations)
    return operations  # type: ignore[no-any-return]
