"""Signatures of webhooks, judged by the library that receivers use."""

import base64
import time

import pytest
from standardwebhooks import Webhook

from penstock.web.hooks.signatures import Secret

SECRET = "whsec_" + base64.b64encode(bytes(range(24))).decode()


def test_a_message_verifies_with_the_library_of_standard_webhooks() -> None:
    body = '{"type":"publish_started","data":{"stream":"ä"}}'.encode()
    headers = Secret(SECRET).headers("msg_1", time.time(), body)
    assert Webhook(SECRET).verify(body, headers) == {"type": "publish_started", "data": {"stream": "ä"}}


def test_the_headers_are_those_of_the_standard() -> None:
    # The figure is that of: printf 'msg_1.1700000000.{}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0001..17
    assert Secret(SECRET).headers("msg_1", 1_700_000_000.9, b"{}") == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": "v1,ehZEL34p4RtokJ76Mky/c6YT0NkxG/H/gdzahhXIyv0=",
    }


@pytest.mark.parametrize(
    "text",
    [
        "whsec_",
        "whsec_c2hvcnQ=",
        "whsec_not base64 at all!!!!!!!!!",
        base64.b64encode(bytes(24)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
    ],
)
def test_what_is_no_secret_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="should be whsec_ and base64") as error:
        Secret(text)
    assert text.removeprefix("whsec_") == "" or text.removeprefix("whsec_") not in str(error.value)
    assert error.value.__cause__ is None
