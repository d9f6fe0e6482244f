"""Steps of a run that do not wait for each other, each in a thread.

For few rows Spark spends most of the time on making plans, by one thread of its driver, while its cores have nothing to
do; so several steps take little longer than one.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def side_by_side(*steps: Callable[[], None]) -> None:
    """Take all steps, and come back when the last has ended. The first error is raised then."""
    with ThreadPoolExecutor(max_workers=max(len(steps), 1), thread_name_prefix="pipeline-step") as threads:
        taken = [threads.submit(step) for step in steps]
    for each in taken:
        each.result()
