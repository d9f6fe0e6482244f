"""Steps of a run, each in a thread as soon as what it rests on is done.

For few rows Spark spends most of the time on making plans, by one thread of its driver, while its cores have nothing to
do; so several steps take little longer than one. Of those that can be taken the first in the list is, so the longest
chain of steps belongs at its beginning.
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do after other steps of the same run."""

    name: str
    take: Callable[[], object]
    after: Collection[str] = ()


def only(steps: Sequence[Step], names: Collection[str] | None) -> list[Step]:
    """The steps of these names, or all, in their order. What the others would make is there from earlier runs."""
    if names is None:
        return list(steps)
    return [replace(step, after=set(step.after) & set(names)) for step in steps if step.name in names]


def side_by_side(steps: Sequence[Step], at_once: int) -> None:
    """Take all steps, so many at once, and come back when the last has ended. After an error none is begun."""
    waiting, done = list(steps), set[str]()
    with ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="pipeline-step") as threads:
        under_way: dict[Future[object], str] = {}
        while waiting or under_way:
            ready = [step for step in waiting if done.issuperset(step.after)][: at_once - len(under_way)]
            waiting = [step for step in waiting if step not in ready]
            under_way.update({threads.submit(step.take): step.name for step in ready})
            if not under_way:
                raise ValueError(f"steps that wait for each other: {', '.join(step.name for step in waiting)}")
            for ended in wait(under_way, return_when=FIRST_COMPLETED).done:
                done.add(under_way.pop(ended))
                ended.result()
