"""Queries: what is refused, how answers are spelled, the prompt, and the socket of a running pipeline."""

import io
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.errors import PipelineError
from penstock.pipeline.queries.answers import Answer, write_answer
from penstock.pipeline.queries.spark_runner import SparkQueryRunner
from penstock.pipeline.queries.sql import describe_table, line_history, list_tables, run_prompt
from penstock.pipeline.queries.sql_service import ServiceQueryRunner, SqlService
from penstock.pipeline_figures import SOCKET_NAME
from tests.pipeline.queries.ready_backend import ReadyBackend

READING = [
    "select 1",
    "with a as (select 1 x) select * from a",
    "select * from reports_test.a where x in (select 1)",
    "values (1), (2)",
    "table reports_test.a",
    "from reports_test.a |> where x = 1 |> select x",
    "select x, count(*) from reports_test.a group by x having count(*) > 0 order by 1 limit 3",
    "select * from reports_test.a lateral view explode(array(1)) q as z",
    "select * from range(3) r join reports_test.a on r.id = a.x union all select 1, 2 intersect select 3, 4",
    "select distinct sum(x) over w from reports_test.a window w as (order by x) except select 5",
    "select /*+ broadcast(a) */ * from reports_test.a a, lateral (select a.x + 1 z) l(y)",
    "with recursive r as (select 1 n union all select n + 1 from r where n < 3) select * from r",
    "select * from reports_test.a pivot (sum(x) for x in (1))",
    "select * from reports_test.a tablesample (50 percent)",
    "show tables in reports_test",
    "describe reports_test.a",
    "explain select 1",
    "-- why\nselect 1",
]
WRITING = [
    "create table t (x int)",
    "create or replace temp view v as select 1",
    "create or replace view reports_test.a as select 2",
    "drop view reports_test.a",
    "insert into t select 1",
    "with q as (select 1) insert into t select * from q",
    "from reports_test.a insert into t select x",
    "insert overwrite directory '{never}' using parquet select 1",
    "select transform(x) using 'touch {never}' from reports_test.a",
    "execute immediate 'drop view reports_test.a'",
    "begin drop view reports_test.a; end",
    "set spark.sql.ansi.enabled=false",
    "reset",
    "use default",
    "cache table reports_test.a",
    "refresh table reports_test.a",
    "add jar '/tmp/x.jar'",
    "delete from t",
    "merge into t using s on t.x = s.x when matched then delete",
    "declare x int",
    "analyze table reports_test.a compute statistics",
    "call p()",
]


@pytest.fixture(scope="module")
def runner(spark: SparkSession) -> Iterator[SparkQueryRunner]:
    spark.sql("create schema if not exists reports_test")
    spark.sql("create or replace view reports_test.a as select 1 as x")
    yield SparkQueryRunner(spark)
    spark.sql("drop schema reports_test cascade")


def test_what_only_reads_is_answered_and_all_else_is_refused(runner: SparkQueryRunner, tmp_path: Path) -> None:
    from penstock.pipeline.queries.statements import check_only_reads

    for query in READING:
        check_only_reads(runner._spark, query)
    for statement in WRITING:
        with pytest.raises(PipelineError, match="sql: only queries"):
            runner.run(statement.format(never=tmp_path / "never"), 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["reflect", "java_method", "system.builtin.reflect"])
def test_a_reader_cannot_call_java(runner: SparkQueryRunner, spark: SparkSession, name: str) -> None:
    query = f"select {name}('java.lang.Integer', 'valueOf', '7') as x"
    with pytest.raises(PipelineError, match=r"sql: .*(reflect|java_method)"):
        runner.run(query, 1)
    # The session that the reader was made from still can: nothing was taken from others.
    assert SparkQueryRunner(spark, is_writing=True).run(query, 1).rows == (("7",),)


def test_values_are_plain_and_names_different(runner: SparkQueryRunner) -> None:
    answer = runner.run(
        """select timestamp'2026-11-15 20:00:00.5' t, timestamp_ntz'2026-11-15 20:00:00' n, date'2026-11-15' d,
        cast(1.50 as decimal(4, 2)) p, cast(2 as decimal(4, 2)) p, map('a', 1) m, named_struct('k', array(1, null)) s,
        x'00ff' b, double('nan') f, null u, interval '90' second i, true z from range(3);""",
        2,
    )
    assert answer.columns == ("t", "n", "d", "p", "p_2", "m", "s", "b", "f", "u", "i", "z")
    row = ("2026-11-15T20:00:00.500000Z", "2026-11-15T20:00:00", "2026-11-15", 1.5, 2, {"a": 1}, {"k": [1, None]})
    assert answer.rows == ((*row, "00ff", None, None, 90.0, True),) * 2
    assert answer.is_cut


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("select nope from reports_test.a", r"nope.*line 1,? pos 7"),
        ("select * from nowhere", r"nowhere.* cannot be found"),
        ("selec 1", r"^sql: Syntax error at or near 'selec'. \(line 1, pos 0\)$"),
        ("select 1; select 2", r"';'|'select'"),
        ("select 1 / id from range(2)", r"^sql: Division by zero\."),
        (" ; ", "empty"),
    ],
)
def test_an_error_is_one_readable_line(runner: SparkQueryRunner, query: str, line: str) -> None:
    with pytest.raises(PipelineError, match=line) as caught:
        runner.run(query, 1)
    text = str(caught.value)
    assert text.startswith("sql: ")
    assert "\n" not in text
    assert "SQLSTATE" not in text
    assert len(text) < 520


@pytest.mark.parametrize("timeout_s", [0.01, 0.5], ids=["while it is planned", "while it runs"])
def test_a_slow_query_is_stopped(spark: SparkSession, timeout_s: float) -> None:
    slow = SparkQueryRunner(spark, timeout_s=timeout_s)
    with pytest.raises(PipelineError, match=f"stopped after {timeout_s:g} s"):
        slow.run("select count(*) from range(1000000000) a join range(1000) b on a.id + b.id < 0", 1)


ANSWER = Answer(
    ("stream", "bytes", "ratio", "more"),
    (("\x1b[31mred,\n[b]", 12, 0.5, None), ("b", 1_234_567, 2.0, {"a": [1]})),
    is_cut=True,
)


def written(answer: Answer, format_: str) -> str:
    out = io.StringIO()
    write_answer(answer, format_, out)  # type: ignore[arg-type]
    return out.getvalue()


def test_json_is_an_array_of_rows() -> None:
    assert json.loads(written(ANSWER, "json")) == [
        {"stream": "\x1b[31mred,\n[b]", "bytes": 12, "ratio": 0.5, "more": None},
        {"stream": "b", "bytes": 1_234_567, "ratio": 2.0, "more": {"a": [1]}},
    ]
    assert written(Answer(("x",), (), is_cut=False), "json") == "[]\n"


def test_csv_quotes_what_needs_it() -> None:
    assert written(ANSWER, "csv") == (
        'stream,bytes,ratio,more\n"\x1b[31mred,\n[b]",12,0.5,\nb,1234567,2.0,"{""a"": [1]}"\n'
    )


def test_a_table_shows_text_as_text_and_says_what_was_left_out() -> None:
    text = written(ANSWER, "table")
    assert r"\x1b[31mred,\x0a[b]" in text
    assert "null" in text
    assert text.endswith("2 rows; there are more: see --limit\n")
    assert written(Answer(("x",), ((1,),), is_cut=False), "table").endswith("1 row\n")


def test_the_prompt_answers_until_the_end_of_input(runner: SparkQueryRunner) -> None:
    lines = iter(
        ["select x", "from reports_test.a;", "", "selec;", ".schema gold.usage", ".no", ".help", ".quit", "end"]
    )
    shown: list[str] = []

    def read_line(prompt: str) -> str:
        shown.append(prompt)
        return next(lines)

    out = io.StringIO()
    run_prompt(runner, out, "json", 10, read_line)
    assert shown[:3] == ["penstock> ", "   ... ", "penstock> "]
    text = out.getvalue()
    assert text.startswith('[{"x": 1}]\nsql: ')
    for words in ("media bytes sent", "sql: .no is not known", "ends with a semicolon"):
        assert words in text, words
    assert next(lines) == "end"


def test_the_prompt_survives_an_interrupt_and_ends_with_its_input(runner: SparkQueryRunner) -> None:
    replies: list[str | type[BaseException]] = ["select", KeyboardInterrupt, EOFError]

    def read_line(_: str) -> str:
        reply = replies.pop(0)
        if isinstance(reply, str):
            return reply
        raise reply

    run_prompt(runner, io.StringIO(), "table", 10, read_line)
    assert replies == []


def test_tables_and_columns_are_listed_with_their_meaning() -> None:
    assert "gold.audience " in list_tables()
    assert "bronze.play_started " in list_tables()
    assert "viewers_peak" in describe_table("gold.audience")
    assert "waited_us" in describe_table("bronze.play_started")
    with pytest.raises(PipelineError, match=r"no table 'gold\.nope'"):
        describe_table("gold.nope")


def test_queries_are_remembered_for_the_next_day(tmp_path: Path) -> None:
    readline = pytest.importorskip("readline")
    path = tmp_path / "state" / "history"
    with line_history(path):
        readline.add_history("select 42;")
    assert "select 42;" in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Deeper than the 108 bytes that the name of a socket may have."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    return deep


def test_a_running_pipeline_answers_as_its_spark_does(runner: SparkQueryRunner, folder: Path) -> None:
    client = ServiceQueryRunner(folder)
    assert not client.is_there()
    with SqlService(ReadyBackend(runner), folder):
        assert client.is_there()
        assert stat.S_IMODE((folder / SOCKET_NAME).stat().st_mode) == 0o600
        assert client.run("select id, timestamp'2026-11-15 20:00:00' t from range(9)", 2) == Answer(
            ("id", "t"), ((0, "2026-11-15T20:00:00Z"), (1, "2026-11-15T20:00:00Z")), is_cut=True
        )
        with pytest.raises(PipelineError, match="sql: only queries"):
            client.run("drop view reports_test.a", 1)
        answers: list[Answer] = []
        asking = [threading.Thread(target=lambda: answers.append(client.run("select 5 x", 1))) for _ in range(4)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        assert [answer.rows for answer in answers] == [((5,),)] * 4
    assert list(folder.iterdir()) == []
    with pytest.raises(PipelineError, match="did not answer"):
        client.run("select 1", 1)


def test_who_asks_hears_of_delays_and_may_do_without_fresh_tables(folder: Path) -> None:
    class Fixed:
        def run(self, query: str, limit: int) -> Answer:
            return Answer((query,), (), is_cut=False)

    backend, heard = ReadyBackend(Fixed()), list[str]()
    with SqlService(backend, folder):
        client = ServiceQueryRunner(folder, notify=heard.append)
        assert client.run("q", 1).columns == ("q",)
        client.refresh()
        assert (backend.refreshed, heard) == (2, ["the tables are a little old"] * 2)
        ServiceQueryRunner(folder, is_refreshing=False, notify=heard.append).run("q", 1)
        assert (backend.refreshed, len(heard)) == (2, 2)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\n",
        b"[]\n",
        b'{"refresh": 1}\n',
        b'{"query": 1, "limit": 1}\n',
        b"\xff\n",
        b"{" * 2000 + b"\n",
        b"[" * 100_000 + b"\n",
        b"",
    ],
)
def test_a_request_that_is_none_gets_an_answer_and_harms_nobody(
    runner: SparkQueryRunner, folder: Path, request_bytes: bytes
) -> None:
    with SqlService(ReadyBackend(runner), folder):
        descriptor = os.open(folder, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(f"/proc/self/fd/{descriptor}/{SOCKET_NAME}")
            peer.sendall(request_bytes)
            peer.shutdown(socket.SHUT_WR)
            with peer.makefile("rb") as stream:
                assert "sql: a request is" in json.loads(stream.readline())["error"]
        os.close(descriptor)
        assert ServiceQueryRunner(folder).is_there()


def test_a_service_takes_over_what_a_killed_one_left(runner: SparkQueryRunner, folder: Path) -> None:
    (folder / SOCKET_NAME).touch()
    first = SqlService(ReadyBackend(runner), folder)
    second = SqlService(ReadyBackend(runner), folder)
    # The name is the second's now, and stays when the first goes.
    first.close()
    assert ServiceQueryRunner(folder).run("select 1 x", 1).rows == ((1,),)
    second.close()
    assert list(folder.iterdir()) == []
