"""What the API tells of the configuration, checks and reloads."""

from pathlib import Path

import pytest

from penstock.config import Config
from tests.web.api.calling import Caller


def test_settings_have_origins_and_no_secrets(tmp_path: Path) -> None:
    config = Config.model_validate(
        {
            "apps": {"live": {"grace_s": 1}},
            "defaults": {"flush": "100ms"},
            "auth": {"signing": ["env:NAME"], "jwt": "env:NAME", "callback": "http://user:c2VjcmV0@127.0.0.1/auth"},
            "access": {
                "live": {
                    "publish": ["key", ["ip:10.0.0.0/8", "jwt"]],
                    "keys": [f"studio:sha256:{'ab' * 32}:adobe:saltsalt:c2VjcmV0c2VjcmV0c2VjcA=="],
                    "aliases": {"studio": "main"},
                }
            },
            "hooks": [
                {"url": "http://127.0.0.1/hook/c2VjcmV0", "secret": "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},
                {"exec": ["ffmpeg", "-i", "rtmp://127.0.0.1/{app}/{stream}?key=c2VjcmV0"], "while": "publishing"},
            ],
            "pipeline": {
                "lake": "s3://key:secret@bucket/lake",
                "spark": ["spark.hadoop.fs.s3a.secret.key=abc", "spark.a=1"],
            },
        }
    )
    caller = Caller(tmp_path, config=config)
    caller.config.origins = {"rtmp.listen": "flag --rtmp"}
    settings = caller.json("/config")["settings"]
    assert settings["rtmp.listen"] == {"value": "127.0.0.1:1935", "origin": "flag --rtmp"}
    assert settings["tls.listen"] == {"value": None, "origin": "default"}
    assert settings["apps.live.grace_s"]["value"] == 1.0
    assert settings["defaults.flush"]["value"] == "100ms"
    assert settings["auth.signing"]["value"] == ["env:NAME"]
    assert settings["auth.callback"]["value"] == "http://…@127.0.0.1/auth"
    assert settings["access.live.publish"]["value"] == ["key", ["ip:10.0.0.0/8", "jwt"]]
    assert settings["access.live.aliases"]["value"] == {"studio": "main"}
    assert settings["access.live.keys"]["value"] == [f"studio:sha256:{'ab' * 32}:adobe:saltsalt:…"]
    webhook, program = settings["hooks"]["value"]
    assert (webhook["url"], webhook["secret"]) == ("http://127.0.0.1/…", "whsec_…")
    assert (program["exec"], program["while"]) == (["ffmpeg", "…", "…"], "publishing")
    assert "c2VjcmV0" not in str(settings)
    assert settings["pipeline.spark"]["value"] == ["spark.hadoop.fs.s3a.secret.key=…", "spark.a=1"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", None),
        ("[rtmp]\nlisten = ':1935'\n", None),
        ("[rtmp]\n\nlisten = 5\n", "text line 3: rtmp.listen = 5: should be"),
        ("[rtmp\n", "text: no TOML: "),
        ("\xff", "text: no TOML: "),
        ("rtmp = 1", "text line 1: rtmp = 1: should be a table"),
    ],
)
def test_a_configuration_is_checked(tmp_path: Path, text: str, complaint: str | None) -> None:
    caller = Caller(tmp_path)
    verdict = caller.json("/config/check", method="POST", content=text.encode("latin-1"))
    assert verdict["is_valid"] is (complaint is None)
    assert complaint is None or verdict["complaint"].startswith(complaint)


def test_a_text_of_too_many_lines_is_not_looked_at(tmp_path: Path) -> None:
    assert Caller(tmp_path).ask("/api/v1/config/check", "POST", content=b"\n" * 1001).status_code == 422


def test_a_reload_tells_what_is_wrong(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    assert caller.json("/config/reload", method="POST") == {"is_reloaded": True}
    caller.orders.complaint = "penstock.toml line 3: rtmp.listen = 5: should be an address"
    answer = caller.ask("/api/v1/config/reload", "POST")
    assert (answer.status_code, answer.json()["detail"]) == (409, caller.orders.complaint)
