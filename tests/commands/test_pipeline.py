"""`penstock pipeline` as a command: what it says when a package is missing, and when one is broken."""

import errno
import sys
from pathlib import Path

import pytest

from penstock import cli
from penstock.pipeline.queries.answers import Answer
from penstock.pipeline.queries.sql_service import ServiceQueryRunner

LINEAGE = ["pipeline", "lineage"]


def test_lineage_is_printed_as_text_or_mermaid(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(LINEAGE) == 0
    assert "gold.usage\n  gold.audience\n" in capsys.readouterr().out
    assert cli.main([*LINEAGE, "--format", "mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR\n")


def test_a_package_that_is_missing_is_told_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "penstock.pipeline.simulator.landing", raising=False)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert cli.main(["pipeline", "simulate", "--data", str(tmp_path)]) == 69
    assert capsys.readouterr().err == (
        "penstock: numpy is not installed; it comes with: pip install 'penstock[pipeline]'\n"
    )


def test_a_package_that_is_there_and_lacks_a_part_is_not_told_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "orjson"
    package.mkdir()
    (package / "__init__.py").write_text("import orjson.gone\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("penstock.pipeline.simulator.landing", "orjson"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"orjson\.gone"):
        cli.main(["pipeline", "simulate", "--data", str(tmp_path)])


def test_a_full_disk_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path))

    monkeypatch.setattr("penstock.pipeline.simulator.landing.write_landing", fail)
    assert cli.main(["pipeline", "simulate", "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"penstock: pipeline simulate: [Errno 28] No space left on device: '{tmp_path}'\n"


def test_a_file_where_the_data_folder_should_be_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.touch()
    assert cli.main(["pipeline", "erase", "--viewer", "anna", "--data", str(data)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("penstock: pipeline erase: [Errno 20] Not a directory: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("action", [["status"], ["check"], ["report"], ["view", "v"], ["sql", "select 1"]])
def test_a_data_folder_that_is_not_there_is_said_to_whoever_asks(
    action: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "dta"
    assert cli.main(["pipeline", *action, "--data", str(data)]) == 1
    assert capsys.readouterr().err == f"penstock: pipeline {action[0]}: there is no data folder {data}\n"
    assert not data.exists()


@pytest.mark.parametrize("word", ["0", "-5", "1.5", "x", "10000001"])
def test_a_day_is_not_simulated_for_a_number_of_viewers_that_it_cannot_have(
    word: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["pipeline", "simulate", f"--viewers={word}", "--data", str(tmp_path)])
    assert ended.value.code == 2
    assert f"'{word}' is no number from 1 to 10,000,000" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "complaint"), [(2, "penstock: there are more rows than these 2; see --limit\n"), (3, "")]
)
def test_rows_that_were_left_out_are_told_beside_json(
    limit: int, complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(_: object, __: str, limit: int) -> Answer:
        return Answer(("n",), tuple((n,) for n in range(min(limit, 3))), is_cut=limit < 3)

    monkeypatch.setattr(ServiceQueryRunner, "is_there", lambda _: True)
    monkeypatch.setattr(ServiceQueryRunner, "run", run)
    words = ["pipeline", "sql", "select 1", "--format", "json", "--limit", str(limit), "--data", str(tmp_path)]
    assert cli.main(words) == 0
    said = capsys.readouterr()
    assert (said.out.count("{"), said.err) == (limit, complaint)
