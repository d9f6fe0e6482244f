"""The registry of names: one owner for each, whoever claims, yields, ends, watches or is lost."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.control.messages import (
    NOBODY,
    Begun,
    Challenge,
    Claim,
    Ended,
    LastSeen,
    Over,
    Owner,
    PublishAnswer,
    SeatAnswer,
    Unwatch,
    Verdict,
    Watch,
    Yielded,
)
from penstock.control.names import LAST_WORD_S, Names, Outgoing
from tests.control.names_support import CAM, WHERE, claim, owned_by, tell


def test_a_free_name_is_granted_to_whoever_claims_it() -> None:
    assert tell(Names(), (2, claim(7))) == [(2, PublishAnswer(7, Verdict.ADMIT, 1, None))]


def test_of_two_who_race_one_is_granted_and_is_asked_for_the_other() -> None:
    names = Names()
    assert tell(names, (1, claim(7))) == [(1, PublishAnswer(7, Verdict.ADMIT, 1, None))]
    assert tell(names, (2, claim(8, may_replace=True, claimant="c2"))) == [(1, Challenge(1, CAM, True, "c2"))]
    refused = tell(names, (1, Yielded(1, Verdict.REFUSE, None)))
    assert refused == [(2, PublishAnswer(8, Verdict.REFUSE, 0, None))]
    assert names.owner_of(CAM) == 1


def test_a_name_that_is_yielded_goes_elsewhere_with_where_the_stream_was() -> None:
    names = owned_by(1)
    moved = tell(names, (2, claim(8)), (1, Yielded(1, Verdict.REPLACE, WHERE)))
    assert moved == [(2, PublishAnswer(8, Verdict.REPLACE, 2, WHERE))]
    assert names.owner_of(CAM) == 2
    assert tell(names, (1, Ended(CAM, 1))) == []
    assert names.owner_of(CAM) == 2


def test_who_takes_over_from_itself_has_the_log_already() -> None:
    names = owned_by(1)
    assert tell(names, (1, claim(8)), (1, Yielded(1, Verdict.ADMIT, WHERE))) == [
        (1, PublishAnswer(8, Verdict.ADMIT, 2, None))
    ]


def test_claims_of_one_name_are_decided_one_after_another() -> None:
    names = owned_by(1)
    assert tell(names, (2, claim(8))) == [(1, Challenge(1, CAM, False, "c1"))]
    assert tell(names, (3, claim(9))) == []
    assert tell(names, (1, Yielded(1, Verdict.ADMIT, WHERE))) == [
        (2, PublishAnswer(8, Verdict.ADMIT, 2, WHERE)),
        (2, Challenge(2, CAM, False, "c1")),
    ]


def test_those_who_watch_hear_where_a_stream_has_begun_but_for_the_owner() -> None:
    names = Names()
    for worker in (1, 2, 3, 3):
        assert tell(names, (worker, Watch(5, CAM, 10))) == [(worker, SeatAnswer(5, True, NOBODY, 0))]
    tell(names, (1, claim()))
    assert tell(names, (3, Watch(6, CAM, 10))) == [(3, SeatAnswer(6, True, NOBODY, 0))]
    assert tell(names, (1, Begun(CAM, 1))) == [(2, Owner(CAM, 1, 1)), (3, Owner(CAM, 1, 1))]
    assert tell(names, (1, Begun(CAM, 1))) == []
    assert tell(names, (2, Watch(7, CAM, 10))) == [(2, SeatAnswer(7, True, 1, 1))]


def test_the_former_owner_hears_of_the_new_one_if_it_watches() -> None:
    names = owned_by(1)
    tell(names, (1, Watch(5, CAM, 10)), (2, claim(8)), (1, Yielded(1, Verdict.REPLACE, WHERE)))
    assert tell(names, (2, Begun(CAM, 2))) == [(1, Owner(CAM, 2, 2))]


def test_an_end_frees_the_name_and_tells_those_who_watch() -> None:
    names = owned_by(1)
    tell(names, (1, Watch(5, CAM, 10)), (2, Watch(5, CAM, 10)))
    assert tell(names, (2, Ended(CAM, 1))) == []
    assert tell(names, (1, Ended(CAM, 1))) == [(2, Over(CAM, 1))]
    assert tell(names, (3, claim(9))) == [(3, PublishAnswer(9, Verdict.ADMIT, 2, None))]


def test_an_end_decides_about_who_was_waiting_for_an_answer_and_a_late_one_is_nothing() -> None:
    names = owned_by(1)
    tell(names, (2, claim(8)))
    assert tell(names, (1, Ended(CAM, 1))) == [(2, PublishAnswer(8, Verdict.ADMIT, 2, None))]
    assert tell(names, (1, Yielded(1, Verdict.ADMIT, WHERE))) == []
    assert names.owner_of(CAM) == 2


def test_viewers_are_counted_over_all_workers() -> None:
    names = Names()
    answers = [tell(names, (worker, Watch(worker, CAM, 3))) for worker in (1, 2, 1, 2)]
    assert [answer[0][1].is_admitted for answer in answers if isinstance(answer[0][1], SeatAnswer)] == [
        True,
        True,
        True,
        False,
    ]
    tell(names, (1, Unwatch(CAM)))
    assert tell(names, (2, Watch(9, CAM, 3))) == [(2, SeatAnswer(9, True, NOBODY, 0))]
    assert names.viewers_of(CAM) == 3


def test_names_that_nobody_has_wants_or_watches_are_forgotten() -> None:
    names = owned_by(1)
    tell(names, (2, Watch(5, CAM, 10)), (1, Ended(CAM, 1)))
    assert len(names) == 1
    tell(names, (2, Unwatch(CAM)))
    assert len(names) == 0
    assert tell(names, (2, Watch(6, b"live/full", 0))) == [(2, SeatAnswer(6, False, NOBODY, 0))]
    assert len(names) == 0


def test_whoever_yielded_a_name_hears_when_it_has_begun_elsewhere() -> None:
    names = owned_by(1)
    tell(names, (2, claim(8)), (1, Yielded(1, Verdict.REPLACE, WHERE)))
    assert tell(names, (2, Begun(CAM, 2))) == [(1, Owner(CAM, 2, 2))]


def test_a_publisher_that_is_alive_refuses_all_who_have_asked_meanwhile() -> None:
    names = owned_by(1)
    assert tell(names, (2, claim(8))) == [(1, Challenge(1, CAM, False, "c1"))]
    assert tell(names, (3, claim(9))) == []
    assert tell(names, (1, Yielded(1, Verdict.REFUSE, None))) == [
        (2, PublishAnswer(8, Verdict.REFUSE, 0, None)),
        (3, PublishAnswer(9, Verdict.REFUSE, 0, None)),
    ]


class RandomWorkers(RuleBasedStateMachine):
    """Workers that claim, yield, begin, end, watch and are lost in any order, with their answers late."""

    def __init__(self) -> None:
        super().__init__()
        self.names = Names()
        self.now = 0.0
        self.requests = 0
        self.waiting: dict[int, int] = {}
        """Claims without an answer, and their workers."""
        self.claimed: dict[int, bytes] = {}
        self.grants: dict[bytes, tuple[int, int]] = {}
        """By name: the worker and epoch that was granted last and is neither over, nor yielded, nor lost."""
        self.challenges: dict[int, tuple[int, bytes]] = {}
        self.newest_epoch = 0
        self.epochs: dict[bytes, int] = {}
        self.seats: dict[tuple[bytes, int], int] = {}
        self.yielded: dict[bytes, int] = {}
        """Who has yielded a name last."""

    def hear(self, outgoing: list[Outgoing]) -> None:
        for worker, message in outgoing:
            match message:
                case PublishAnswer():
                    assert self.waiting.pop(message.request) == worker
                    if message.verdict is not Verdict.REFUSE:
                        assert message.epoch > self.newest_epoch
                        self.newest_epoch = message.epoch
                        name = self.claimed.pop(message.request)
                        assert name not in self.grants, "two owners of one name"
                        self.grants[name] = (worker, message.epoch)
                        self.epochs[name] = message.epoch
                case Challenge():
                    assert self.grants[message.name][0] == worker
                    self.challenges[message.challenge] = (worker, message.name)
                case Owner():
                    assert self.seats.get((message.name, worker)) or worker == self.yielded.pop(message.name)
                case Over():
                    assert self.seats[(message.name, worker)] > 0

    @rule(worker=st.integers(1, 3), name=st.sampled_from([b"a", b"b"]))
    def claim(self, worker: int, name: bytes) -> None:
        self.requests += 1
        self.waiting[self.requests] = worker
        self.claimed[self.requests] = name
        self.hear(self.names.receive(worker, Claim(self.requests, name, "c", True, 5.0), self.now))

    @precondition(lambda self: self.challenges)
    @rule(data=st.data(), verdict=st.sampled_from(Verdict))
    def answer_a_challenge(self, data: st.DataObject, verdict: Verdict) -> None:
        number = data.draw(st.sampled_from(sorted(self.challenges)))
        worker, name = self.challenges.pop(number)
        # One that ended by itself meanwhile is not asked for any more, and its answer is nothing.
        if verdict is not Verdict.REFUSE and number in self.names._challenges:
            del self.grants[name]
            self.yielded[name] = worker
        self.hear(self.names.receive(worker, Yielded(number, verdict, WHERE), self.now))

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), is_end=st.booleans())
    def begin_or_end(self, data: st.DataObject, is_end: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.grants)))
        worker, epoch = self.grants[name]
        if is_end:
            del self.grants[name]
        self.hear(self.names.receive(worker, (Ended if is_end else Begun)(name, epoch), self.now))

    @rule(worker=st.integers(1, 3), name=st.sampled_from([b"a", b"b"]))
    def watch(self, worker: int, name: bytes) -> None:
        ((_, answer),) = self.names.receive(worker, Watch(1, name, 4), self.now)
        assert isinstance(answer, SeatAnswer)
        if answer.is_admitted:
            self.seats[(name, worker)] = self.seats.get((name, worker), 0) + 1

    @precondition(lambda self: any(self.seats.values()))
    @rule(data=st.data())
    def unwatch(self, data: st.DataObject) -> None:
        name, worker = data.draw(st.sampled_from(sorted(seat for seat, count in self.seats.items() if count)))
        self.seats[(name, worker)] -= 1
        self.hear(self.names.receive(worker, Unwatch(name), self.now))

    @precondition(lambda self: any(self.seats.values()))
    @rule(data=st.data(), is_late=st.booleans())
    def tell_how_far_a_stream_had_come(self, data: st.DataObject, is_late: bool) -> None:
        name, worker = data.draw(st.sampled_from(sorted(seat for seat, count in self.seats.items() if count)))
        epoch = self.epochs.get(name, 1) - is_late
        self.hear(self.names.receive(worker, LastSeen(name, epoch, WHERE), self.now))

    @rule(worker=st.integers(1, 3))
    def lose(self, worker: int) -> None:
        self.waiting = {request: other for request, other in self.waiting.items() if other != worker}
        self.grants = {name: grant for name, grant in self.grants.items() if grant[0] != worker}
        self.challenges = {number: each for number, each in self.challenges.items() if each[0] != worker}
        self.seats = {seat: count for seat, count in self.seats.items() if seat[1] != worker}
        self.hear(self.names.worker_lost(worker, self.now))

    @rule(seconds=st.floats(0.1, 6.0))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.hear(self.names.tick(self.now))

    @invariant()
    def owners_and_viewers_are_as_the_workers_know_them(self) -> None:
        for name in (b"a", b"b"):
            assert self.names.owner_of(name) == self.grants.get(name, (NOBODY, 0))[0]
            viewers = sum(count for (watched, _), count in self.seats.items() if watched == name)
            assert self.names.viewers_of(name) == viewers <= 4

    def teardown(self) -> None:
        # Nobody is waited for any longer, and whoever is asked answers: then no claim is left without an answer.
        self.pass_time(LAST_WORD_S)
        while self.challenges:
            number, (worker, _) = self.challenges.popitem()
            self.hear(self.names.receive(worker, Yielded(number, Verdict.REFUSE, None), self.now))
        assert self.waiting == {}
        for worker in (1, 2, 3):
            self.seats = {seat: count for seat, count in self.seats.items() if seat[1] != worker}
            self.hear(self.names.worker_lost(worker, self.now))
        self.hear(self.names.tick(self.now + 5.0))
        assert len(self.names) == 0
        assert (self.names._challenges, self.names._waiting) == ({}, set())


TestRandomWorkers = RandomWorkers.TestCase
TestRandomWorkers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
