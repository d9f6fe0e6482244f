"""The documentation against the code: what a page draws, lists or shows is what the code has and does.

Owns the comparisons that links and spelling cannot give. A page marks what is compared by comments around it
(`<!-- states -->` and so on). Python blocks are run, all of a page in one namespace and in order, and what they print
must be the text block that follows them; where they speak to the server's own port, a real server is put in its place.
Each finder is shown to fail on a small case of its own.
"""

import ast
import contextlib
import dataclasses
import importlib
import io
import os
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
import pytest
from fuzz.targets import TARGETS

from penstock import errors
from penstock.amf import AmfLimits
from penstock.config import Config
from penstock.config_sources import VARIABLES, dotted
from penstock.control.figures import Figures
from penstock.facts import FACTS
from penstock.pipeline.build.lineage import lineage_mermaid
from penstock.pipeline_figures import PipelineFigures
from penstock.protocol import events
from penstock.protocol.chunk_reader import ChunkLimits
from penstock.protocol.command import Command
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.states import draw_transitions
from penstock.protocol.status import StatusCode
from penstock.web.incidents.words import ADVICE
from penstock.web.live.figures import LiveFigures, StreamFigures
from penstock.web.metrics import Exposition, ServerFigures
from tests.support.penstock_server import penstock_server
from tests.test_architecture import MAY_IMPORT, PURE, REPOSITORY, SOURCE, read_modules
from tests.test_repository import LINK, TARGET

DOCS = REPOSITORY / "docs"
README = REPOSITORY / "README.md"
PAGES = [README, *sorted(DOCS.glob("*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
WORD = re.compile(r"(?<!\w)[A-Za-z_]\w{2,}")
STATUS = re.compile(r"\bNet(?:Connection|Stream)\.\w+(?:\.\w+)?")
MAKE = re.compile(r"(?<!key )\bmake ([a-z]+(?:-[a-z]+)*)\b")
METRIC = re.compile(r"^# TYPE (penstock_\w+) (\w+)$", re.MULTILINE)
SERVER = "127.0.0.1:1935"
LOG_CALLS = frozenset(
    ("debug", "info", "warning", "error", "_warn", "_warn_of_viewer", "_info", "_info_of_stream", "_tell")
)

Kind = TypeVar("Kind")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def marked(text: str, name: str) -> str:
    """What stands between `<!-- name -->` and `<!-- /name -->`."""
    start, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"not one section {name}")
    return text.split(start)[1].split(end, maxsplit=1)[0]


def fenced(text: str) -> str:
    """The one code block in the text."""
    ((_, block),) = FENCE.findall(text)
    return str(block)


def table_rows(text: str) -> list[list[str]]:
    """The cells of all tables in the text, without their heads."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        if re.fullmatch(r"[|\s:-]+", line):
            rows.pop()
            continue
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def in_code(cell: str) -> list[str]:
    return INLINE_CODE.findall(cell)


def names_in_tree(tree: str) -> list[str]:
    """Dotted names of the modules that an indented tree of files draws."""
    names: list[str] = []
    folders: list[str] = []
    for line in tree.splitlines():
        entry = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        del folders[depth:]
        if entry.endswith("/"):
            folders.append(entry[:-1])
            names.append(".".join(folders))
        else:
            names.append(".".join([*folders, entry.removesuffix(".py")]))
    return names


def failures_of_examples(page: str, name: str) -> Iterator[str]:
    namespace: dict[str, object] = {"__name__": "documentation"}
    for number, example in enumerate(EXAMPLE.finditer(page), start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example["code"], f"{name}, example {number}", "exec"), namespace)
        if printed.getvalue() != (example["printed"] or ""):
            yield f"{name}, example {number} prints:\n{printed.getvalue()}"


def log_lines_of(source: str) -> Iterator[str]:
    """What the calls that log in a source say, with three dots for each value."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[ast.Constant(value=str(text)), *_]) if name in LOG_CALLS:
                yield text
            case ast.Call(func=ast.Attribute(attr=name), args=[ast.JoinedStr(values=parts), *_]) if name in LOG_CALLS:
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)


def exposed_metrics() -> list[tuple[str, str]]:
    """Name and type of every metric of a server of which every part runs."""
    parts: dict[str, Any] = {field.name: 0 for field in msgspec.structs.fields(Figures) if field.default is None}
    figures = Figures(limits_hit={"connections": 1}, **parts)
    server = ServerFigures(figures, {1: figures}, [os.getpid()])
    pipeline = PipelineFigures(0, 0, 0, 0, 0.0, 0.0, 0.0)
    live = LiveFigures([StreamFigures("live", "a", 0, 0, 0, 0)], {"av_drift": 1}, {"av_drift": 1})
    return METRIC.findall(Exposition().render(server, pipeline, live).decode())


def subclasses_of(kind: type[Kind]) -> Iterator[type[Kind]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from subclasses_of(subclass)


def unknown_statuses(text: str) -> set[str]:
    return set(STATUS.findall(text)) - set(StatusCode)


def unknown_targets(text: str, makefile: str) -> set[str]:
    """Targets after `make` in code, inline or in blocks."""
    code = [*in_code(FENCE.sub("", text)), *(block for language, block in FENCE.findall(text) if not language)]
    return {target for each in code for target in MAKE.findall(each)} - {name for name, _ in TARGET.findall(makefile)}


def words_without_source(text: str, source: str) -> set[str]:
    """Words in inline code that occur nowhere in the source."""
    known = set(WORD.findall(source))
    return {word for code in in_code(FENCE.sub("", text)) for word in WORD.findall(code)} - known


def source_text() -> str:
    folders = ("src", "tests", "bench", "fuzz", "scripts")
    paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.suffix in (".py", ".sh")]
    named = [REPOSITORY / name for name in ("Makefile", "pyproject.toml", "constraints.txt")]
    golden = sorted((REPOSITORY / "tests" / "golden").rglob("*"))
    # File names count as words too; this file does not, since it would know whatever it asks about.
    texts = [text_of(path) for path in (*paths, *named) if path != Path(__file__)]
    metrics = (name for name, _ in exposed_metrics())
    return "\n".join([*texts, *(path.name for path in (*paths, *golden)), *metrics])


def fields_of(*kinds: type) -> Iterable[tuple[str, object]]:
    """Every bound of these settings with its default; settings inside settings are listed by themselves."""
    for kind in kinds:
        value = kind()
        for field in dataclasses.fields(value):
            if isinstance(default := getattr(value, field.name), int):
                yield f"{kind.__name__}.{field.name}", default


def as_limit(row: list[str]) -> tuple[str, int]:
    (name,) = in_code(row[0])
    return name, int(row[1].replace(",", ""))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run_and_print_what_the_page_says(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(REPOSITORY)
    text = text_of(page)
    with contextlib.ExitStack() as stack:
        if any(SERVER in example["code"] for example in EXAMPLE.finditer(text)):
            server = stack.enter_context(penstock_server(tmp_path))
            text = text.replace(SERVER, f"127.0.0.1:{server.port}")
        assert list(failures_of_examples(text, page.name)) == []


@pytest.mark.parametrize("page", ["docs/2-protocol.md", "docs/3-media.md", "docs/8-clients-and-tools.md"])
def test_a_page_that_shows_how_has_examples(page: str) -> None:
    assert EXAMPLE.search(text_of(REPOSITORY / page))


def test_an_example_that_prints_something_else_is_found() -> None:
    page = "```python\nx = 1\n```\n\ntext\n\n```python\nprint(x)\n```\n\n```text\n{}\n```\n"
    assert list(failures_of_examples(page.format(1), "page")) == []
    assert list(failures_of_examples(page.format(2), "page")) == ["page, example 2 prints:\n1\n"]


def test_the_walk_of_a_fact_leads_through_modules_that_are_there() -> None:
    named = re.findall(r"`((?:[\w-]+/)*[\w-]+\.py|(?:[\w-]+/)+)`", text_of(DOCS / "7-walk-of-a-fact.md"))
    stations = [name for name in named if not name.startswith(("src/", "tests/"))]
    assert len(stations) > 20
    assert [name for name in stations if not (SOURCE / name).exists()] == []


def test_the_tree_draws_every_module_and_no_other() -> None:
    tree = fenced(marked(text_of(DOCS / "1-architecture.md"), "modules"))
    drawn = names_in_tree(tree)
    assert set(drawn) ^ set(read_modules(SOURCE)) == set()
    assert len(drawn) == len(set(drawn))


def test_every_line_of_the_tree_says_what_the_module_is_for() -> None:
    tree = fenced(marked(text_of(DOCS / "1-architecture.md"), "modules"))
    assert [line for line in tree.splitlines() if len(line.split(maxsplit=1)) < 2] == []


def test_a_tree_is_read_by_its_indentation() -> None:
    tree = "a/  root\n  b.py  one\n  c/  folder\n    d.py  two\n  __main__.py  three\n"
    assert names_in_tree(tree) == ["a", "a.b", "a.c", "a.c.d", "a.__main__"]


def test_the_import_table_is_the_one_that_is_held() -> None:
    rows = table_rows(marked(text_of(DOCS / "1-architecture.md"), "imports"))
    assert {in_code(row)[0]: set(in_code(allowed)) for row, allowed, _ in rows} == MAY_IMPORT
    assert {in_code(row)[0] for row, _, pure in rows if pure == "yes"} == PURE


def test_every_event_is_listed_once() -> None:
    rows = table_rows(marked(text_of(DOCS / "2-protocol.md"), "events"))
    listed = [name for row in rows for name in in_code(row[0])]
    assert sorted(listed) == sorted(kind.__name__ for kind in get_args(events.Event))


def test_every_listed_event_says_when_it_comes_and_what_to_do() -> None:
    rows = table_rows(marked(text_of(DOCS / "2-protocol.md"), "events"))
    assert [row for row in rows if len(row) != 3 or not all(row)] == []


def test_the_states_are_drawn_as_the_tables_have_them() -> None:
    assert marked(text_of(DOCS / "2-protocol.md"), "states") == draw_transitions()


def test_the_lineage_is_drawn_as_the_command_prints_it() -> None:
    assert fenced(marked(text_of(DOCS / "7-walk-of-a-fact.md"), "lineage")) == lineage_mermaid()


def test_the_limits_are_the_defaults() -> None:
    rows = table_rows(marked(text_of(DOCS / "2-protocol.md"), "limits"))
    limits = dict(fields_of(ConnectionSettings, ChunkLimits, AmfLimits))
    for name, value in map(as_limit, rows):
        module, _, constant = name.partition(".")
        is_constant = constant.isupper()
        expected = (
            getattr(importlib.import_module(f"penstock.protocol.{module}"), constant)
            if is_constant
            else limits.pop(name)
        )
        assert value == expected, name
    assert limits == {}


def test_the_limits_of_media_are_those_of_its_modules() -> None:
    rows = table_rows(marked(text_of(DOCS / "3-media.md"), "media limits"))
    for name, value in map(as_limit, rows):
        module, _, constant = name.partition(".")
        assert getattr(importlib.import_module(f"penstock.media.{module}"), constant) == value, name


def test_the_error_tree_is_the_one_in_the_source() -> None:
    drawn = fenced(marked(text_of(DOCS / "2-protocol.md"), "errors"))
    in_docstring = (errors.__doc__ or "").split("::\n\n")[1].split("\n\n")[0]
    assert drawn == textwrap.dedent(in_docstring) + "\n"
    names = re.findall(r"^\W*(\w+)", drawn, re.MULTILINE)
    ours = [kind.__name__ for kind in subclasses_of(errors.PenstockError) if kind.__module__ == errors.__name__]
    assert sorted(names) == sorted(["PenstockError", *ours])


def test_every_command_has_an_answer_in_the_table() -> None:
    rows = table_rows(marked(text_of(DOCS / "2-protocol.md"), "commands"))
    listed = [name for row in rows for name in in_code(row[0])]
    known = {kind.command_name for kind in subclasses_of(Command) if "command_name" in vars(kind)}
    assert sorted(listed) == sorted(known)
    assert {len(row) for row in rows} == {3}


def test_every_key_of_the_configuration_is_listed_with_its_default_and_meaning() -> None:
    rows = table_rows(marked(text_of(DOCS / "4-server.md"), "configuration"))
    assert [in_code(key)[0] for key, _, _ in rows] == list(map(dotted, VARIABLES.values()))
    assert [key for key, default, meaning in rows if not default or not meaning] == []
    # A key without code in its default has one that depends on the machine.
    defaults = "\n".join(f"{in_code(key)[0]} = {in_code(default)[0]}" for key, default, _ in rows if in_code(default))
    assert Config.model_validate(tomllib.loads(defaults)) == Config()


def test_every_metric_is_listed_with_its_type() -> None:
    rows = table_rows(marked(text_of(DOCS / "4-server.md"), "metrics"))
    assert sorted((in_code(name)[0], kind) for name, kind, _ in rows) == sorted(exposed_metrics())


def test_every_kind_of_fact_is_listed() -> None:
    rows = table_rows(marked(text_of(DOCS / "4-server.md"), "facts"))
    assert [in_code(kind)[0] for kind, _ in rows] == list(FACTS)


def test_every_kind_of_incident_that_is_found_live_is_listed() -> None:
    rows = table_rows(marked(text_of(DOCS / "4-server.md"), "incidents"))
    assert [in_code(kind)[0] for kind, *_ in rows] == list(ADVICE)


def test_every_line_that_the_server_logs_is_listed() -> None:
    rows = table_rows(marked(text_of(DOCS / "4-server.md"), "log lines"))
    listed = [line for row in rows for line in in_code(row[0])]
    paths = [SOURCE / "logs.py", *(SOURCE / "serve").rglob("*.py"), *(SOURCE / "web").rglob("*.py")]
    logged = {line for path in paths for line in log_lines_of(text_of(path))}
    assert sorted(listed) == sorted(logged)


def test_lines_are_found_with_and_without_values_and_other_calls_are_not() -> None:
    source = 'log.info(f"from {address}: {x}", a=1)\nself._warn("Slow")\nobserver.error(peer, fault)\nprint("no")\n'
    assert sorted(log_lines_of(source)) == ["Slow", "from …: …"]


def test_every_fuzz_target_is_listed() -> None:
    rows = table_rows(marked(text_of(DOCS / "9-proof.md"), "fuzz targets"))
    assert sorted(name for row in rows for name in in_code(row[0])) == sorted(TARGETS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_status_codes_are_those_that_exist(page: Path) -> None:
    assert unknown_statuses(text_of(page)) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_are_those_that_exist(page: Path) -> None:
    assert unknown_targets(text_of(page), text_of(REPOSITORY / "Makefile")) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_words_in_code_are_words_of_the_source(page: Path) -> None:
    assert words_without_source(text_of(page), source_text()) == set()


def test_a_code_a_target_and_a_word_that_do_not_exist_are_found() -> None:
    page = "NetStream.Play.Start, NetStream.Play.Strat, `make test`, `make tset`, `read_tag(x)`, `read_gat`\n"
    assert unknown_statuses(page) == {"NetStream.Play.Strat"}
    assert unknown_targets(page, "test: ## runs\n") == {"tset"}
    assert unknown_targets("```\nmake run\n```\n", "test: ## runs\n") == {"run"}
    assert words_without_source(page, "def read_tag(make, test, tset)") == {"read_gat"}


def test_the_readme_leads_to_every_page() -> None:
    links = LINK.findall(text_of(README))
    assert [page.name for page in sorted(DOCS.glob("*.md")) if f"docs/{page.name}" not in links] == []


@pytest.mark.parametrize(
    "page",
    ["no mark", "<!-- a -->\nx\n", "<!-- a -->\nx\n<!-- /a -->\n<!-- a -->\ny\n<!-- /a -->\n"],
    ids=["none", "open", "twice"],
)
def test_a_missing_or_doubled_mark_is_found(page: str) -> None:
    with pytest.raises(ValueError, match="not one section a"):
        marked(page, "a")


def test_tables_are_read_without_their_heads() -> None:
    text = "| a | b |\n| --- | ---: |\n| `x` | 1 \\| 2 |\n\ntext | text\n\n| c |\n| - |\n| 3 |\n"
    assert table_rows(text) == [["`x`", "1 \\| 2"], ["3"]]
