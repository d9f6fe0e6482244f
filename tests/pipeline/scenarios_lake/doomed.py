"""A pipeline run in a process of its own, which ends at a point of a commit as if the power had gone.

`python -m tests.pipeline.scenarios_lake.doomed DATA NOW_US POINT [watched]`: if it is watched, what the lake was like
at each point before is noted in the data folder. It says `begun` when Spark is there.
"""

import os
import signal
import sys
from pathlib import Path

from penstock.pipeline.engine.session import SparkSettings, open_session
from tests.pipeline.conftest import FOR_SMALL_DATA
from tests.pipeline.scenarios_lake.runs import DataFolder
from tests.pipeline.scenarios_lake.witness import write_down


def main(folder: str, now_us: str, point: str, watched: str = "") -> None:
    def die_at(name: str) -> None:
        if watched:
            write_down(data, int(now_us), name)
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    data = DataFolder(Path(folder), open_session(SparkSettings(cores=1, is_short_lived=True, conf=FOR_SMALL_DATA)))
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    data.cycles(int(now_us), die_at).run_cycle()


if __name__ == "__main__":
    main(*sys.argv[1:])
