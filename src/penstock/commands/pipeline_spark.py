"""A Spark of this process: its settings, and `penstock pipeline sql` asked of it where no pipeline runs.

Owns what is done to answer soon: a session for seconds, only the tables that a query names, and modules that are loaded
while Java starts.
"""

import argparse
import dataclasses
import importlib
import threading
from collections.abc import Callable, Mapping
from typing import Final

from penstock.commands.pipeline_sql import ask
from penstock.config import Config
from penstock.pipeline import register
from penstock.pipeline.session import SparkSettings, open_session, usable_cores

# PySpark loads pandas as soon as it talks to Java.
_LOADED_MEANWHILE: Final = ("pandas", "penstock.pipeline.reports.spark_asker")


def spark_settings_of(config: Config) -> SparkSettings:
    """What Spark is told."""
    pipeline = config.pipeline
    is_shared = pipeline.master == "local"
    return SparkSettings(
        master=None if is_shared else pipeline.master,
        # The other half is the server's.
        cores=max(1, usable_cores() // 2) if is_shared else usable_cores(),
        heap=f"{pipeline.heap_bytes // (1024 * 1024)}m",
        conf=dict(setting.split("=", 1) for setting in pipeline.spark),
    )


def _sql(config: Config, arguments: argparse.Namespace) -> int:
    loading = threading.Thread(target=_load, name="loading", daemon=True)
    loading.start()
    # Whoever asks waits, so all cores are for the answer.
    settings = dataclasses.replace(spark_settings_of(config), cores=usable_cores(), is_short_lived=True)
    spark = open_session(settings)
    loading.join()
    from penstock.pipeline.lake import Lake  # noqa: PLC0415 - loaded by now
    from penstock.pipeline.packaging import ship_package  # noqa: PLC0415
    from penstock.pipeline.reports.spark_asker import SparkAsker  # noqa: PLC0415
    from penstock.pipeline.storage import Storage  # noqa: PLC0415

    recordings = str(config.recordings_dir)
    try:
        if arguments.write:
            register(spark, config.server.data_dir, lake=config.lake_location, recordings=recordings)
            return ask(SparkAsker(spark, is_writing=True), arguments)
        ship_package(spark)
        return ask(SparkAsker(spark, Lake(Storage(config.lake_location)), recordings), arguments)
    finally:
        spark.stop()


def _load() -> None:
    for module in _LOADED_MEANWHILE:
        importlib.import_module(module)


ACTIONS: Final[Mapping[str, Callable[[Config, argparse.Namespace], int]]] = {"sql": _sql}
