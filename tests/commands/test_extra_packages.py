"""Which failed imports are told as a package that is not installed."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from penstock.commands.extra_packages import EXTRA_PACKAGES, missing_package, web_complaint
from penstock.config import Config

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_a_package_of_the_extra_that_is_not_there_is_named_with_its_remedy() -> None:
    error = ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    assert missing_package(error) == "pyspark is not installed; it comes with: pip install 'penstock[pipeline]'"


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'pyspark.pipelines'", name="pyspark.pipelines"),
        ModuleNotFoundError("No module named 'distutils'", name="distutils"),
        ModuleNotFoundError("No module named 'penstock.pipeline.gone'", name="penstock.pipeline.gone"),
        ImportError("libarrow.so.2600: cannot open shared object file", name="pyarrow"),
        ImportError("cannot import name 'Row' from 'pyspark.sql'", name="pyspark"),
        ModuleNotFoundError("raised by hand"),
    ],
)
def test_an_import_that_fails_for_another_reason_is_not_told_as_a_missing_package(error: ImportError) -> None:
    assert missing_package(error) is None


def test_the_packages_are_those_of_the_extra() -> None:
    extra = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]["pipeline"]

    assert {re.split(r"[<>=\[]", requirement)[0] for requirement in extra} == EXTRA_PACKAGES


@pytest.mark.parametrize(
    ("values", "missing", "what"),
    [
        ({"access": {"live": {"play": [["open", "jwt"]]}}, "auth": {"jwt": "env:A"}}, "cryptography", "the rule jwt"),
        (
            {"access": {"live": {"publish": ["callback"]}}, "auth": {"callback": "http://a/"}},
            "httpx",
            "the rule callback",
        ),
        ({"api": {"keys": [f"boss:admin:sha256:{'0a' * 32}"]}}, "fastapi", "api.keys"),
        ({"hooks": [{"url": "https://a.example"}]}, "httpx", "hooks"),
    ],
)
def test_a_setting_that_needs_the_extra_web_is_told_where_that_is_not_installed(
    values: dict[str, Any], missing: str, what: str
) -> None:
    config = Config.model_validate(values)

    assert web_complaint(config, lambda module: module != missing) == (
        f"{what}: needs packages that come with: pip install 'penstock[web]'"
    )
    assert web_complaint(config, lambda _: True) is None


def test_a_server_without_such_settings_needs_nothing_of_the_extra_web() -> None:
    rules = {"access": {"live": {"publish": ["key", "signed"]}}, "auth": {"signing": ["env:A"], "jwt": "env:A"}}

    assert web_complaint(Config.model_validate(rules), lambda _: False) is None


def test_rules_that_the_web_process_decides_are_refused_where_there_is_none() -> None:
    values = {
        "auth": {"callback": "http://127.0.0.1:9/"},
        "access": {"live": {"publish": [["ip:10.0.0.0/8", "callback"]]}},
    }
    complaint = "access: jwt and callback are decided by the web process, which needs http.listen"
    without_web = Config.model_validate({**values, "http": {"listen": "none"}})
    with_own_port = Config.model_validate({**values, "http": {"listen": "none", "web_listen": "127.0.0.1:8080"}})
    assert web_complaint(without_web) == complaint
    assert web_complaint(Config.model_validate(values)) is None
    assert web_complaint(with_own_port) is None
