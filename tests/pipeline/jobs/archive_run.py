"""A run of the archive job in a process of its own, to be killed: `python -m tests.pipeline.jobs.archive_run DATA`."""

import sys

from penstock.pipeline.engine.session import SparkSettings, open_session
from penstock.pipeline.jobs.archive import run_archive

if __name__ == "__main__":
    run_archive(open_session(SparkSettings(cores=1, is_short_lived=True)), sys.argv[1])
