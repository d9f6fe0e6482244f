"""Which failed imports are told as a package that is not installed."""

import re
import tomllib
from pathlib import Path

import pytest

from penstock.commands.extra_packages import EXTRA_PACKAGES, missing_package

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
