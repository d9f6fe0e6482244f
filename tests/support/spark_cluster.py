"""A real Spark cluster on loopback: a master and two workers of one core each, as processes from the wheel.

Owns their start, their readiness and their end, and runs drivers against them. A driver is a process of its own, since
a process holds one Spark and that of the tests is local::

    def test_it_works_on_a_cluster(cluster: SparkCluster) -> None:
        printed = cluster.run_driver('''
            spark = open_session(SETTINGS)
            ship_package(spark)
            print(spark.range(10).count())
        ''')
        assert printed == "10\\n"

`SETTINGS` is there, and so are `open_session` and `ship_package`. Arguments of `run_driver` are in `sys.argv`. A worker
that a test has killed is started anew before the next driver.
"""

import os
import signal
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark

from penstock.pipeline.engine.class_archive import archive_options
from penstock.pipeline.engine.java import Java, cache_folder, find_java, launcher_home
from penstock.pipeline.engine.session import SHORT_LIVED
from tests.support.processes import RunningProgram, free_port, running

WORKERS: Final = 2
READY_DEADLINE_S: Final = 180.0
DRIVER_DEADLINE_S: Final = 300.0
SPARK: Final = Path(pyspark.__file__).parent

DRIVER: Final = """\
import sys
from penstock.pipeline.engine.packaging import ship_package
from penstock.pipeline.engine.session import SparkSettings, open_session
SETTINGS = SparkSettings(master={master!r}, cores={cores}, is_short_lived=True, conf={conf!r})
"""


@dataclass(slots=True)
class SparkCluster:
    """A cluster that accepts drivers at `master_url`."""

    folder: Path
    port: int
    java: Java
    _processes: ExitStack
    _workers: list[RunningProgram] = field(default_factory=list)
    _programs: int = 0

    @property
    def master_url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def run_driver(self, code: str, arguments: Sequence[str] = (), deadline_s: float = DRIVER_DEADLINE_S) -> str:
        """What the driver printed; it must end with status 0."""
        with self.driver(code, arguments) as program:
            status = program.wait_for_exit(deadline_s)
            if status != 0:
                raise program.failure(f"ended with status {status}")
            return program.log_text()

    @contextmanager
    def driver(self, code: str, arguments: Sequence[str] = (), is_submitted: bool = False) -> Iterator[RunningProgram]:
        """A driver beside the block, which may wait for what it does and meddle with the workers.

        Under spark-submit the settings are arguments of that, and `open_session` takes the session as it is.
        """
        self._ensure_workers()
        script = self._new_path("driver", ".py")
        prelude = DRIVER.format(master=self.master_url, cores=WORKERS, conf=self._executor_conf())
        script.write_text(prelude + textwrap.dedent(code), encoding="utf-8")
        command = [sys.executable, str(script), *arguments]
        if is_submitted:
            conf = {**self._executor_conf(), "spark.driver.extraJavaOptions": self._java_options()}
            settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
            submit = [str(SPARK / "bin" / "spark-submit"), "--master", self.master_url, *settings]
            command = ["env", *self._variables(), *submit, str(script), *arguments]
        with running(command, script.with_suffix(".log")) as program:
            yield program

    def kill_worker(self) -> None:
        """SIGKILL one worker; its executor ends when it notices."""
        worker = self._workers.pop()
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait_for_exit(READY_DEADLINE_S)

    def start(self) -> None:
        """Start everything; returns once both workers are registered."""
        command = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(self.port)]
        master = self._run([*command, "--webui-port", "0"], "master")
        master.wait_for_port(self.port, READY_DEADLINE_S)
        self._ensure_workers()

    def _ensure_workers(self) -> None:
        new: list[RunningProgram] = []
        while len(self._workers) + len(new) < WORKERS:
            command = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            work_folder = str(self._new_path("work", ""))
            new.append(
                self._run([*command, "--cores", "1", "--memory", "512m", "-d", work_folder, self.master_url], "worker")
            )
        for worker in new:
            worker.wait_for_log("Successfully registered with master", READY_DEADLINE_S)
        self._workers += new

    def _run(self, command: Sequence[str], name: str) -> RunningProgram:
        """Through `env`, which becomes spark-class, which becomes Java: one process, so its pid is the one to kill."""
        start = ["env", *self._variables(), str(SPARK / "bin" / "spark-class"), *command]
        return self._processes.enter_context(running(start, self._new_path(name, ".log")))

    def _executor_conf(self) -> dict[str, str]:
        return {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": self._java_options()}

    def _java_options(self) -> str:
        """What lets daemons and executors start in seconds: they do not live long either."""
        return " ".join([SHORT_LIVED, "-Xlog:disable", *archive_options(self.java, cache_folder())])

    def _variables(self) -> list[str]:
        variables = {
            "JAVA_HOME": str(launcher_home(self.java, cache_folder())),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": self._java_options(),
        }
        return [f"{variable}={value}" for variable, value in variables.items()]

    def _new_path(self, name: str, suffix: str) -> Path:
        self._programs += 1
        return self.folder / f"{self._programs}-{name}{suffix}"


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A cluster for the length of the block. Logs and work folders are in `folder`."""
    with ExitStack() as processes:
        cluster = SparkCluster(folder, free_port(), find_java(), processes)
        cluster.start()
        yield cluster
