"""The shape of the building, held by reading the source of every module under src/penstock.

Owns the import tables, the list of what pure packages may not touch, and the bounds on files and folders. Imports
inside functions and under TYPE_CHECKING count like any other. Each rule is shown to fail on a small tree of its own.
"""

# Long because: each rule stands beside the trees that break it.

import ast
import graphlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
SOURCE = REPOSITORY / "src" / "penstock"

# Each row of the building and the rows that it may import. The root package itself may be imported by all.
MAY_IMPORT: dict[str, set[str]] = {
    "penstock": set(),
    "errors": set(),
    "media_paths": set(),
    "facts": set(),
    "facts_schema": {"facts"},
    "pipeline_figures": set(),
    "config_units": set(),
    "config_access": {"config_units", "access"},
    "pulls": {"errors", "config_units", "config_access", "rtmp_address", "amf"},
    "config": {"errors", "config_units", "config_access", "pulls", "pushes", "access", "media_paths"},
    "config_sources": {"errors", "config_units", "config_access", "pulls", "pushes", "config", "access"},
    "config_secrets": {"errors", "config_access", "pulls", "pushes", "config", "access"},
    "rtmp_address": {"errors"},
    "pushes": {"errors", "config_units", "config_access", "access", "rtmp_address"},
    "amf": {"errors", "facts", "config"},
    "logs": {"amf"},
    "certificates": {"errors", "logs"},
    "control": {"errors"},
    "access": {"errors"},
    "web": {
        "errors",
        "amf",
        "media",
        "facts",
        "pipeline_figures",
        "config_units",
        "config",
        "config_access",
        "pushes",
        "config_secrets",
        "config_sources",
        "logs",
        "certificates",
        "control",
        "access",
        "media_paths",
    },
    "protocol": {"errors", "facts", "config", "amf"},
    "media": {"errors", "facts", "config", "amf"},
    "relay": {"errors", "facts", "config", "amf", "protocol", "media"},
    "serve": {
        "errors",
        "facts",
        "pipeline_figures",
        "config_units",
        "config",
        "config_access",
        "config_secrets",
        "config_sources",
        "logs",
        "certificates",
        "control",
        "access",
        "media_paths",
        "pulls",
        "rtmp_address",
        "pushes",
        "amf",
        "protocol",
        "media",
        "relay",
    },
    "pipeline": {"errors", "facts", "pipeline_figures", "amf", "media", "client"},
    "client": {"errors", "rtmp_address", "amf", "protocol", "media"},
    "tools": {"errors", "amf", "protocol", "media", "client"},
    "commands": {
        "errors",
        "facts",
        "facts_schema",
        "config_units",
        "config",
        "config_access",
        "pushes",
        "config_secrets",
        "config_sources",
        "logs",
        "access",
        "serve",
        "pipeline",
    },
    "cli": {"errors", "facts", "config", "amf", "protocol", "media", "relay", "serve", "pipeline", "client", "tools"},
    "__main__": {"cli"},
}
# The rooms of serve and pipeline: what each may import of the others. Modules beside the rooms count like rooms.
ROOMS_MAY_IMPORT: dict[str, dict[str, set[str]]] = {
    "serve": {
        "connections": {"coalesced_reads", "reactor", "settings"},
        "outgoing": {"reactor", "settings", "connections"},
        "sending": {"settings"},
        "streams": {"coalesced_reads", "reactor", "settings", "connections", "links", "sending"},
        "pushing": {"outgoing", "reactor", "connections", "streams"},
        "pulls": {"reactor", "connections", "outgoing", "streams"},
        "recording": {"boot", "reactor", "settings", "connections", "streams", "sending"},
        "telemetry": {
            "boot",
            "links",
            "reactor",
            "settings",
            "connections",
            "streams",
            "sending",
            "recording",
            "pushing",
        },
        "thumbnails": {"reactor", "http", "links", "streams"},
        "http": {"coalesced_reads", "reactor", "settings", "connections", "sending", "streams"},
        "links": {"reactor"},
        "supervisor": {"links", "reactor", "welcome"},
        "boot": set(),
        "coalesced_reads": set(),
        "reactor": {"coalesced_reads"},
        "settings": set(),
        "welcome": set(),
        "configured": {"settings", "pulls", "recording", "telemetry"},
        "server": {"reactor", "settings", "connections", "streams", "sending"},
        "orders": {"links", "recording", "streams"},
        "app": {
            "boot",
            "configured",
            "links",
            "orders",
            "outgoing",
            "pushing",
            "connections",
            "http",
            "pulls",
            "reactor",
            "recording",
            "server",
            "settings",
            "sending",
            "streams",
            "telemetry",
            "thumbnails",
        },
        "worker": {"app", "connections", "links", "reactor"},
    },
    "pipeline": {
        "progress": set(),
        "engine": set(),
        "lake": set(),
        "sources": {"lake"},
        "ingest": {"lake"},
        "transforms": {"lake", "sources"},
        "build": {"lake", "ingest", "sources", "transforms", "progress"},
        "queries": {"lake", "sources"},
        "reports": {"lake", "transforms", "queries"},
        "jobs": {"lake", "sources"},
        "simulator": {"lake", "ingest"},
        "settings": {"engine", "lake", "ops"},
        "ops": {"build", "engine", "ingest", "lake", "progress", "queries", "reports", "settings", "sources"},
    },
}
MAX_MODULES = 16
"""Of a folder: past about a dozen it has rooms."""
FOLDERS_WITHOUT_ROOMS = {"protocol", "media"}
"""Larger ones, which are flat: the layers of the protocol, and one codec to a module."""
PURE = {
    "errors",
    "media_paths",
    "facts",
    "pipeline_figures",
    "access",
    "control",
    "amf",
    "protocol",
    "media",
    "relay",
    "rtmp_address",
}
IMPURE_MODULES = {
    "asyncio",
    "socket",
    "time",
    "random",
    "secrets",
    "logging",
    "threading",
    "os",
    "select",
    "ctypes",
    "datetime",
}
SPARK_ROW = "pipeline"

MAX_LINES = 400
REASON_FOR_LENGTH = re.compile(r"^# Long because: \S", re.MULTILINE)
# Brackets keep the pattern from finding itself.
LEFT_FOR_LATER = re.compile(r"\b(T[O]DO|F[I]XME)\b")


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    is_package: bool
    text: str

    @property
    def row(self) -> str:
        return row_of(self.name)


def row_of(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def read_modules(source: Path) -> dict[str, Module]:
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = Module(name, is_package, path.read_text(encoding="utf-8"))
    return modules


def imported_names(module: Module) -> Iterator[str]:
    """Dotted names as deep as the statement goes: `from a.b import c` is a.b.c, be c a module or not."""
    for node in ast.walk(ast.parse(module.text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                levels_up = node.level - 1 if module.is_package else node.level
                parents = module.name.split(".")[: -levels_up or None]
                base = ".".join([*parents, base] if base else parents)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imported_rows(module: Module, modules: dict[str, Module]) -> set[str]:
    names = {name for name in imported_names(module) if name.split(".")[0] == "penstock"}
    known = set(MAY_IMPORT) | {each.row for each in modules.values()}
    rows = {row_of(name) for name in names}
    return {row if row in known else "penstock" for row in rows}


def forbidden_imports(modules: dict[str, Module]) -> list[str]:
    found = []
    for module in modules.values():
        if module.row not in MAY_IMPORT:
            found.append(f"{module.name} is in no row of the import table")
            continue
        allowed = MAY_IMPORT[module.row] | {module.row, "penstock"}
        found += [f"{module.name} imports {row}" for row in sorted(imported_rows(module, modules) - allowed)]
    return found


def spark_outside_pipeline(modules: dict[str, Module]) -> list[str]:
    return [
        f"{module.name} imports {name}"
        for module in modules.values()
        if module.row != SPARK_ROW
        for name in imported_names(module)
        if name.split(".")[0] == "pyspark"
    ]


def impurities(modules: dict[str, Module]) -> list[str]:
    return [f"{module.name}: {use}" for module in modules.values() if module.row in PURE for use in impure_uses(module)]


def impure_uses(module: Module) -> Iterator[str]:
    for name in imported_names(module):
        if name.split(".")[0] in IMPURE_MODULES:
            yield name
    for node in ast.walk(ast.parse(module.text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield f"open in line {node.lineno}"


def room_of(dotted: str, row: str) -> str | None:
    """The room of a row that a module is in, or the module beside the rooms."""
    parts = dotted.split(".")
    return parts[2] if parts[:2] == ["penstock", row] and len(parts) > 2 else None


def forbidden_between_rooms(modules: dict[str, Module]) -> list[str]:
    found = []
    for row, rooms_may_import in ROOMS_MAY_IMPORT.items():
        for module in modules.values():
            room = room_of(module.name, row)
            if room is None:
                continue
            if room not in rooms_may_import:
                found.append(f"{module.name} is in no room of the table")
                continue
            rooms = {other for name in imported_names(module) if (other := room_of(name, row)) is not None}
            found += [f"{module.name} imports {other}" for other in sorted(rooms - rooms_may_import[room] - {room})]
    return found


def crowded_folders(source: Path) -> list[str]:
    folders = (path for path in (source, *source.rglob("*")) if path.is_dir())
    names = {folder.relative_to(source).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    return [name for name, count in names.items() if count > MAX_MODULES and name not in FOLDERS_WITHOUT_ROOMS]


def import_cycle(modules: dict[str, Module]) -> list[str]:
    """The modules of one cycle, the first also last; empty if there is none. Names for annotations alone count too."""
    graph = {}
    for module in modules.values():
        names = imported_names(module)
        graph[module.name] = {found for name in names if (found := nearest_module(name, modules))}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def nearest_module(dotted: str, modules: dict[str, Module]) -> str | None:
    while dotted not in modules:
        dotted, dot, _ = dotted.rpartition(".")
        if not dot:
            return None
    return dotted


def files_too_long(paths: Iterator[Path]) -> list[str]:
    texts = ((path, path.read_text(encoding="utf-8")) for path in paths)
    return [
        path.name for path, text in texts if len(text.splitlines()) > MAX_LINES and not REASON_FOR_LENGTH.search(text)
    ]


def files_left_for_later(paths: Iterator[Path]) -> list[str]:
    return [path.name for path in paths if LEFT_FOR_LATER.search(path.read_text(encoding="utf-8"))]


def python_files() -> Iterator[Path]:
    for folder in ("src", "tests", "bench", "fuzz"):
        yield from sorted((REPOSITORY / folder).rglob("*.py"))


def plant(folder: Path, files: dict[str, str]) -> dict[str, Module]:
    """A small source tree with these files, read back as the real one is."""
    source = folder / "penstock"
    for name, text in {"__init__.py": "", **files}.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return read_modules(source)


def test_every_module_imports_only_what_its_row_allows() -> None:
    assert forbidden_imports(read_modules(SOURCE)) == []


def test_only_the_pipeline_imports_pyspark() -> None:
    assert spark_outside_pipeline(read_modules(SOURCE)) == []


def test_pure_packages_touch_no_clock_socket_or_chance() -> None:
    assert impurities(read_modules(SOURCE)) == []


def test_rooms_import_only_what_is_below_them() -> None:
    assert forbidden_between_rooms(read_modules(SOURCE)) == []


def test_the_supervisor_touches_no_media() -> None:
    rows = {"config", "config_sources", "config_units", "control", "errors", "logs", "serve", "penstock"}
    modules = read_modules(SOURCE)
    inside = [module for module in modules.values() if room_of(module.name, "serve") == "supervisor"]
    assert len(inside) > 5
    assert {row for module in inside for row in imported_rows(module, modules)} <= rows


def test_a_folder_of_many_modules_has_rooms() -> None:
    assert crowded_folders(SOURCE) == []


def test_modules_do_not_import_in_circles() -> None:
    assert import_cycle(read_modules(SOURCE)) == []


def test_a_long_file_says_why() -> None:
    assert files_too_long(python_files()) == []


def test_nothing_is_left_for_later() -> None:
    assert files_left_for_later(python_files()) == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("errors.py", "import penstock.facts", "penstock.errors imports facts"),
        ("amf/amf0.py", "from penstock.protocol import chunk", "penstock.amf.amf0 imports protocol"),
        ("media/flv.py", "from penstock import protocol", "penstock.media.flv imports protocol"),
        ("protocol/chunk.py", "def f():\n    import penstock.media.tags", "penstock.protocol.chunk imports media"),
        ("protocol/chunk.py", "from ..media import tags", "penstock.protocol.chunk imports media"),
        ("protocol/__init__.py", "from .. import media", "penstock.protocol imports media"),
        ("protocol/__init__.py", "from ..media.tags import key", "penstock.protocol imports media"),
        ("relay/log.py", "from penstock.serve.pump import Pump", "penstock.relay.log imports serve"),
        ("serve/app.py", "from penstock.pipeline import tables", "penstock.serve.app imports pipeline"),
        ("pipeline/lake/x.py", "from penstock.relay.hub import Hub", "penstock.pipeline.lake.x imports relay"),
        ("pipeline/lake/x.py", "from penstock.config import Config", "penstock.pipeline.lake.x imports config"),
        ("serve/app.py", "from penstock.tools import play", "penstock.serve.app imports tools"),
        ("pipeline/lake/x.py", "from penstock.tools import play", "penstock.pipeline.lake.x imports tools"),
        ("client/link.py", "from penstock.tools import play", "penstock.client.link imports tools"),
        ("client/link.py", "from penstock.relay.log import Log", "penstock.client.link imports relay"),
        ("tools/play.py", "from penstock.serve.pump import Pump", "penstock.tools.play imports serve"),
        ("web/site.py", "from penstock.serve.reactor import Reactor", "penstock.web.site imports serve"),
        ("serve/app.py", "from penstock.web import site", "penstock.serve.app imports web"),
        ("__init__.py", "from penstock.errors import PenstockError", "penstock imports errors"),
        ("stray.py", "", "penstock.stray is in no row of the import table"),
        ("helpers/text.py", "", "penstock.helpers.text is in no row of the import table"),
        (
            "amf/amf0.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from penstock.media import flv",
            "penstock.amf.amf0 imports media",
        ),
    ],
)
def test_an_import_against_the_table_is_found(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    assert forbidden_imports(plant(tmp_path, {file: text})) == [complaint]


def test_imports_along_the_table_are_allowed(tmp_path: Path) -> None:
    files = {
        "__init__.py": "__version__ = '1'",
        "errors.py": "",
        "amf/amf0.py": "from penstock.errors import MalformedAmf",
        "protocol/command.py": "from penstock.amf import amf0\nfrom . import chunk\nimport json",
        "protocol/chunk.py": "",
        "pipeline/sources/flv/source.py": "from penstock.media.flv import read_tags\nimport pyspark.sql",
        "cli.py": "from penstock import __version__\nfrom penstock.serve import app",
    }
    modules = plant(tmp_path, files)
    assert forbidden_imports(modules) + spark_outside_pipeline(modules) + impurities(modules) == []
    assert import_cycle(modules) == []


@pytest.mark.parametrize(
    "text", ["import pyspark", "from pyspark.sql import functions", "def f():\n    import pyspark"]
)
@pytest.mark.parametrize("file", ["cli.py", "media/flv.py", "serve/app.py"])
def test_spark_outside_the_pipeline_is_found(tmp_path: Path, file: str, text: str) -> None:
    assert len(spark_outside_pipeline(plant(tmp_path, {file: text}))) == 1


@pytest.mark.parametrize("file", ["errors.py", "facts.py", "amf/a.py", "protocol/a.py", "media/a.py", "relay/a.py"])
@pytest.mark.parametrize(
    "text",
    [
        *(f"import {name}" for name in sorted(IMPURE_MODULES)),
        "import asyncio.events",
        "from time import monotonic",
        "def f():\n    import random as dice",
        "from os import urandom",
        "data = open('/etc/hosts').read()",
    ],
)
def test_an_impurity_is_found(tmp_path: Path, file: str, text: str) -> None:
    assert len(impurities(plant(tmp_path, {file: text}))) == 1


@pytest.mark.parametrize("file", ["serve/pump.py", "client/link.py", "config.py", "pipeline/a.py", "cli.py"])
def test_clocks_and_sockets_are_allowed_outside_the_pure_packages(tmp_path: Path, file: str) -> None:
    assert impurities(plant(tmp_path, {file: "import asyncio, socket, time, os\nos.urandom(8)"})) == []


def test_a_circle_of_imports_is_found(tmp_path: Path) -> None:
    files = {
        "amf/__init__.py": "from penstock.amf.amf0 import read_value",
        "amf/amf0.py": "from penstock.amf import amf3",
        "amf/amf3.py": "def f():\n    from penstock.amf import read_value",
    }
    cycle = import_cycle(plant(tmp_path, files))
    assert set(cycle) == {"penstock.amf", "penstock.amf.amf0", "penstock.amf.amf3"}


def test_a_circle_hidden_behind_annotations_is_found(tmp_path: Path) -> None:
    files = {
        "serve/a.py": "import penstock.serve.b",
        "serve/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import penstock.serve.a",
    }
    assert set(import_cycle(plant(tmp_path, files))) == {"penstock.serve.a", "penstock.serve.b"}


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        (
            "serve/connections/a.py",
            "from penstock.serve.streams.broker import Broker",
            "serve.connections.a imports streams",
        ),
        (
            "serve/streams/a.py",
            "def f():\n    from penstock.serve.telemetry import metrics",
            "serve.streams.a imports telemetry",
        ),
        ("serve/recording/a.py", "import penstock.serve.http.server", "serve.recording.a imports http"),
        ("serve/reactor.py", "from penstock.serve.connections import tls", "serve.reactor imports connections"),
        ("serve/attic/a.py", "", "serve.attic.a is in no room of the table"),
        ("pipeline/lake/a.py", "from penstock.pipeline.ops.cycle import Cycles", "pipeline.lake.a imports ops"),
        ("pipeline/ingest/a.py", "import penstock.pipeline.build.plan", "pipeline.ingest.a imports build"),
    ],
)
def test_an_import_against_the_rooms_is_found(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    assert forbidden_between_rooms(plant(tmp_path, {file: text})) == [f"penstock.{complaint}"]


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    plant(tmp_path, {f"serve/http/m{number}.py": "" for number in range(MAX_MODULES + 1)})
    assert crowded_folders(tmp_path / "penstock") == ["serve/http"]


def test_a_module_that_imports_itself_is_a_circle(tmp_path: Path) -> None:
    assert import_cycle(plant(tmp_path, {"errors.py": "import penstock.errors"})) == ["penstock.errors"] * 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n" * 400, []),
        ("x = 1\n" * 401, ["a.py"]),
        ("# Long because:\n" + "x = 1\n" * 400, ["a.py"]),
        ("# Long because: one table\n" + "x = 1\n" * 400, []),
    ],
)
def test_a_long_file_without_a_reason_is_found(tmp_path: Path, text: str, found: list[str]) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    assert files_too_long(tmp_path.glob("*.py")) == found


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME"])
def test_work_left_for_later_is_found(tmp_path: Path, word: str) -> None:
    (tmp_path / "a.py").write_text(f"x = 1  # {word}: better\n", encoding="utf-8")
    assert files_left_for_later(tmp_path.glob("*.py")) == ["a.py"]
