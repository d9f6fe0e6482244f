"""Signatures of webhooks, judged by the library that receivers use."""

import base64
import time

from standardwebhooks import Webhook

from penstock.web.hooks.signatures import Secret

KEY = bytes(range(24))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def test_a_message_verifies_with_the_library_of_standard_webhooks() -> None:
    body = '{"type":"publish_started","data":{"stream":"ä"}}'.encode()
    headers = Secret(KEY).headers("msg_1", time.time(), body)
    assert Webhook(SECRET).verify(body, headers) == {"type": "publish_started", "data": {"stream": "ä"}}


def test_the_headers_are_those_of_the_standard() -> None:
    # The figure is that of: printf 'msg_1.1700000000.{}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0001..17
    assert Secret(KEY).headers("msg_1", 1_700_000_000.9, b"{}") == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": "v1,ehZEL34p4RtokJ76Mky/c6YT0NkxG/H/gdzahhXIyv0=",
    }


def test_a_secret_is_not_shown() -> None:
    assert "0001" not in repr(Secret(KEY))
