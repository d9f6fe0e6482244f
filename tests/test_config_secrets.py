"""References to secrets: what they lead to, and the one line that says what is wrong."""

from pathlib import Path
from typing import Any

import pytest

from penstock.config import Config
from penstock.config_access import HookConfig
from penstock.config_secrets import check_secrets, hook_secret, jwt_secret, policy_of, read_secret, signing_secrets
from penstock.errors import ConfigError

WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def config(**values: Any) -> Config:
    return Config.model_validate(values)


def test_a_secret_comes_from_a_file_without_the_line_break_behind_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b" top secret \r\n")
    assert read_secret(f"file:{tmp_path}/a", "auth.jwt", {}) == b" top secret "


def test_a_secret_comes_from_a_variable() -> None:
    assert read_secret("env:A", "auth.jwt", {"A": "top\udcff"}) == b"top\xff"


def test_what_is_not_there_is_told_with_its_key_and_place(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "large").write_bytes(b"x" * 65_537)
    for reference, line in [
        (f"file:{tmp_path}/gone", f"auth.jwt: {tmp_path}/gone cannot be read: No such file or directory"),
        (f"file:{tmp_path}", f"auth.jwt: {tmp_path} cannot be read: Is a directory"),
        (f"file:{tmp_path}/empty", f"auth.jwt: {tmp_path}/empty is empty or not there"),
        (f"file:{tmp_path}/large", f"auth.jwt: {tmp_path}/large has more than 65536 bytes"),
        ("env:GONE", "auth.jwt: the variable GONE is empty or not there"),
    ]:
        with pytest.raises(ConfigError) as caught:
            read_secret(reference, "auth.jwt", {})
        assert str(caught.value) == line


def test_all_signing_secrets_are_read_in_their_order() -> None:
    assert signing_secrets(config(auth={"signing": ["env:A", "env:B"]}), {"A": "a", "B": "b"}) == (b"a", b"b")


def test_a_secret_for_tokens_has_32_bytes_or_is_a_pem() -> None:
    settings = config(auth={"jwt": "env:A"})
    assert jwt_secret(settings, {"A": "x" * 32}) == b"x" * 32
    assert jwt_secret(settings, {"A": pem("PUBLIC KEY")}) is not None
    assert jwt_secret(settings, {"A": pem("CERTIFICATE") + pem("CERTIFICATE")}) is not None
    with pytest.raises(ConfigError, match=r"^auth\.jwt: a secret should have at least 32 bytes, not 31$"):
        jwt_secret(settings, {"A": "x" * 31})


def pem(label: str, body: str = "MFkwEwYHKoZIzj0C\nAQYI") -> str:
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"


@pytest.mark.parametrize(
    "text", [pem("PRIVATE KEY"), pem("PUBLIC KEY", "hunter2"), pem("PUBLIC KEY")[:60], "-----BEGIN "]
)
def test_a_private_key_or_half_a_pem_is_told_before_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^auth\.jwt: a PEM should be a public key or a certificate$"):
        jwt_secret(config(auth={"jwt": "env:A"}), {"A": text})


def test_a_set_of_keys_is_no_secret() -> None:
    assert jwt_secret(config(auth={"jwt": "jwks:keys.json"}), {}) is None
    assert jwt_secret(config(), {}) is None


def test_the_secret_of_a_webhook_is_written_or_referred_to() -> None:
    url = "https://a.example/hook"
    written = hook_secret(HookConfig(url=url, secret=WHSEC), {})
    assert written is not None
    assert len(written) == 24
    assert hook_secret(HookConfig(url=url, secret="env:A"), {"A": f"{WHSEC}\n"}) == written
    assert hook_secret(HookConfig(url=url), {}) is None
    with pytest.raises(ConfigError) as caught:
        hook_secret(HookConfig(url=url, secret="env:A"), {"A": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_configuration_leads_to_its_policy() -> None:
    line = f"studio:sha256:{'0a' * 32}"
    access = {"live": {"publish": ["key"], "keys": [line], "aliases": {"studio": "main"}}}
    policy = policy_of(config(access=access, auth={"signing": ["env:A"]}), {"A": "a"})
    assert policy.signing == (b"a",)
    assert policy.apps["live"].keys[0].name == "studio"
    assert policy.apps["live"].aliases == {"studio": "main"}
    assert policy.apps["live"].play == ()
    assert policy_of(config(), {}).is_open


def test_equal_configurations_are_of_one_edition_and_others_are_not() -> None:
    def edition(**values: Any) -> str:
        return policy_of(config(**values), {}).edition

    rules: dict[str, Any] = {"live": {"publish": ["jwt"]}, "*": {"play": ["open"]}}
    keys = {"jwt": "env:A"}
    assert edition(access=rules, auth=keys) == edition(access=dict(reversed(rules.items())), auth=keys)
    assert edition(access=rules, auth=keys) != edition(access=rules, auth={"jwt": "env:B"})
    assert edition(access=rules, auth=keys) != edition(access=rules | {"*": {}}, auth=keys)


def test_every_reference_is_followed_before_a_start() -> None:
    for values in (
        {"auth": {"signing": ["env:A"]}},
        {"auth": {"jwt": "env:A"}},
        {"hooks": [{"url": "https://a.example", "secret": "env:A"}]},
    ):
        with pytest.raises(ConfigError, match="the variable A is empty or not there"):
            check_secrets(config(**values), {})
    check_secrets(config(), {})
