"""The repository as a stranger meets it: commands, addresses, pages and links.

Owns what no linter sees: that set-up names no registry, that every target explains itself, that numbered pages have no
holes and that links lead somewhere. Each finder is shown to fail on a small case of its own.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__, cli
from tests.conftest import KINDS, LONGEST, TESTS

REPOSITORY = Path(__file__).parent.parent
DOCS = REPOSITORY / "docs"
DECISIONS = DOCS / "decisions"

# Where packages come from is the machine's setting, never ours.
ADDRESS = re.compile(r"\w+://|\bgit@|--(extra-)?index-url|--find-links|--trusted-host|^-[if]\s|\w\s*@\s*file:|--hash")
TARGET = re.compile(r"^([a-z][a-z0-9_-]*):(?!=)(.*)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def set_up_files() -> list[Path]:
    named = [REPOSITORY / name for name in ("constraints.txt", "pyproject.toml", "Makefile", ".ci/run")]
    return named + sorted((REPOSITORY / "scripts").iterdir()) + sorted(REPOSITORY.glob("*.lock"))


def targets_without_help(makefile: str) -> list[str]:
    return [name for name, rest in TARGET.findall(makefile) if "## " not in rest]


def holes(numbers: list[int]) -> list[int]:
    return sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))


def page_numbers(folder: Path) -> list[int]:
    return [int(match[1]) for path in folder.glob("*.md") if (match := re.match(r"(\d+)-", path.name))]


def anchors(page: str) -> set[str]:
    """As GitHub makes them: lower case, punctuation dropped, blanks to hyphens."""
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in HEADING.findall(page)}


def broken_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            yield f"{page.name}: {link}"


def pages() -> list[Path]:
    return [*sorted(REPOSITORY.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("path", set_up_files(), ids=lambda path: path.name)
def test_set_up_names_no_registry(path: Path) -> None:
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if ADDRESS.search(line)] == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://packages.example/simple",
        "--find-links /wheels",
        "-i mirror",
        "penstock @ git+ssh://git@host/penstock",
        "numpy @ file:///wheels/numpy.whl",
        "numpy==2.0 --hash=sha256:00",
        "  $(PIP) install --trusted-host mirror numpy",
    ],
)
def test_a_registry_address_is_found(line: str) -> None:
    assert ADDRESS.search(line)


def test_every_constraint_is_one_exact_version() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"#.*|[\w.-]+==[\w.+!]+", line)] == []


def test_every_target_has_a_help_text() -> None:
    assert targets_without_help((REPOSITORY / "Makefile").read_text(encoding="utf-8")) == []


def test_a_target_without_help_is_found() -> None:
    assert targets_without_help("a: b ## does a\nlong-name: a\n\techo x: y\nNAME := 1\nname := 2\n") == ["long-name"]


def test_make_alone_prints_every_target() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    # A make that runs these tests must not lend its own flags to the one under test.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    printed = subprocess.run(
        ["make", "-C", REPOSITORY, "--no-print-directory"], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert [line.split()[:2] for line in printed.splitlines()] == [
        ["make", name] for name, _ in TARGET.findall(makefile)
    ]


def test_ci_calls_make_test_and_nothing_else() -> None:
    lines = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines == ["#!/usr/bin/env bash", 'cd "$(dirname "$0")/.." && exec make test']
    assert os.access(REPOSITORY / ".ci" / "run", os.X_OK)


def test_every_place_in_the_table_of_kinds_has_tests() -> None:
    """A folder that was moved would run alone, which takes longer and is no error."""
    places = [TESTS / name for name in (*KINDS, *LONGEST)]
    assert [path for path in places if not path.is_file() and not list(path.glob("test_*.py"))] == []


def test_only_the_table_says_what_computes_and_what_waits() -> None:
    """A test that is marked so in a module of another kind would not be collected."""
    marked = re.compile(r"mark\.(computes|waits)\b")
    assert [path for path in TESTS.rglob("test_*.py") if marked.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("folder", [DOCS, DECISIONS], ids=lambda folder: folder.name)
def test_numbered_pages_have_no_holes_and_no_twins(folder: Path) -> None:
    numbers = page_numbers(folder)
    assert holes(numbers) == []
    assert len(numbers) == len(set(numbers))


def test_a_hole_in_the_numbering_is_found() -> None:
    assert holes([1, 2, 5]) == [3, 4]


def test_every_decision_is_listed_in_the_index() -> None:
    listed = LINK.findall((DECISIONS / "README.md").read_text(encoding="utf-8"))
    assert sorted(path.name for path in DECISIONS.glob("[0-9]*.md")) == sorted(listed)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = (
        "# The page\n[a](#the-page) [b](gone.md) [c](#gone) [d](page.md#the-page) [e](https://x.example/) `[f](code)`\n"
    )
    page.write_text(text, encoding="utf-8")
    assert list(broken_links(page)) == ["page.md: gone.md", "page.md: #gone"]


def test_the_command_prints_the_version_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"penstock {__version__}\n")


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "penstock", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"penstock {__version__}\n"
