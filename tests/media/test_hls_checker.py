"""The judge of playlists: each rule is seen to fail once, on a text that is right but for one thing."""

import pytest

from tests.support.hls_checker import delta_violations, violations

HEAD = """#EXTM3U
#EXT-X-VERSION:9
#EXT-X-TARGETDURATION:1
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=6.0,PART-HOLD-BACK=1.5
#EXT-X-PART-INF:PART-TARGET=0.5
#EXT-X-MEDIA-SEQUENCE:7
#EXT-X-DISCONTINUITY-SEQUENCE:2
"""
FIRST = """#EXT-X-MAP:URI="i"
#EXT-X-PROGRAM-DATE-TIME:2026-11-18T10:00:00.000Z
#EXT-X-PART:DURATION=0.5,URI="p1",INDEPENDENT=YES
#EXT-X-PART:DURATION=0.5,URI="p2"
#EXTINF:1.0,
s7
"""
SECOND = """#EXT-X-PROGRAM-DATE-TIME:2026-11-18T10:00:01.000Z
#EXT-X-PART:DURATION=0.5,URI="p3",INDEPENDENT=YES
"""
HINT = """#EXT-X-PRELOAD-HINT:TYPE=PART,URI="p4"
"""
WHOLE = HEAD + FIRST + SECOND + HINT
LATER = HEAD + FIRST + SECOND + '#EXT-X-PART:DURATION=0.5,URI="p4"\n#EXTINF:1.0,\ns8\n'


def test_a_right_playlist_is_right() -> None:
    assert violations([WHOLE, WHOLE, LATER, LATER + "#EXT-X-ENDLIST\n"]) == []


@pytest.mark.parametrize(
    ("right", "wrong", "section"),
    [
        ("#EXT-X-TARGETDURATION:1\n", "", "4.4.3.1"),
        ("#EXTINF:1.0,", "#EXTINF:1.5,", "4.4.3.1"),
        ("#EXT-X-VERSION:9", "#EXT-X-VERSION:5", "8: EXT-X-MAP"),
        ('URI="p2"\n', 'URI="p2"\n#EXT-X-VERSION:9\n', "4.4: EXT-X-VERSION"),
        ('#EXT-X-MAP:URI="i"\n', "", "3.1.2"),
        ("10:00:01", "10:00:09", "4.4.4.6"),
        ("DURATION=0.5,URI=" + '"p2"', "DURATION=0.4,URI=" + '"p2"', "do not add up"),
        ("DURATION=0.5,URI=" + '"p3"', "DURATION=0.6,URI=" + '"p3"', "4.4.4.9"),
        ("PART-TARGET=0.5", "PART-TARGET=0.6", "PART-HOLD-BACK"),
        ("CAN-SKIP-UNTIL=6.0", "CAN-SKIP-UNTIL=5.9", "CAN-SKIP-UNTIL below"),
        ("CAN-BLOCK-RELOAD=YES,", "", "B.1"),
        ("#EXT-X-PART-INF:PART-TARGET=0.5\n", "", "4.4.3.7"),
        ('"p4"', '"p3"', "hinted and listed"),
        (HINT, HINT + "#EXT-X-ENDLIST\n", "4.4.5.3"),
        ('#EXT-X-PART:DURATION=0.5,URI="p1",INDEPENDENT=YES\n#EXT-X-PART:DURATION=0.5,URI="p2"\n', "", "6.2.2"),
    ],
)
def test_a_broken_rule_is_found(right: str, wrong: str, section: str) -> None:
    assert right in WHOLE
    assert [each for each in violations([WHOLE.replace(right, wrong)]) if section in each]


def test_a_short_part_in_the_middle_is_found() -> None:
    text = WHOLE.replace('DURATION=0.5,URI="p2"', 'DURATION=0.3,URI="p2a"\n#EXT-X-PART:DURATION=0.2,URI="p2"')
    assert [each for each in violations([text]) if "p2a of 300 ms" in each]


@pytest.mark.parametrize(
    ("right", "wrong", "section"),
    [
        ("#EXT-X-TARGETDURATION:1", "#EXT-X-TARGETDURATION:2", "EXT-X-TARGETDURATION was 1"),
        ("PART-TARGET=0.5", "PART-TARGET=0.51", "EXT-X-PART-INF was"),
        ("MEDIA-SEQUENCE:7", "MEDIA-SEQUENCE:6", "EXT-X-MEDIA-SEQUENCE was 7"),
        ("DISCONTINUITY-SEQUENCE:2", "DISCONTINUITY-SEQUENCE:3", "segment 7 was"),
        ("s7", "other", "segment 7 was"),
        ('URI="i"', 'URI="j"', "another EXT-X-MAP"),
        ('"p3"', '"p3b"', "parts of segment 8 changed"),
        ('"p4"', '"p5"', "p4 was hinted"),
    ],
)
def test_a_broken_promise_between_two_playlists_is_found(right: str, wrong: str, section: str) -> None:
    assert right in LATER
    assert [each for each in violations([WHOLE, LATER.replace(right, wrong)]) if section in each]


def test_removing_too_much_is_found() -> None:
    gone = LATER.replace(FIRST, '#EXT-X-MAP:URI="i"\n').replace("MEDIA-SEQUENCE:7", "MEDIA-SEQUENCE:8")
    assert [each for each in violations([LATER, gone]) if "1000 ms are left" in each]


def test_going_on_behind_the_end_is_found() -> None:
    assert [each for each in violations([LATER + "#EXT-X-ENDLIST\n", LATER]) if "behind its end" in each]


def test_going_back_is_found() -> None:
    assert [each for each in violations([WHOLE, HEAD + FIRST]) if "the end went back" in each]


def test_skipping_too_much_is_found() -> None:
    delta = WHOLE.replace(FIRST, "#EXT-X-SKIP:SKIPPED-SEGMENTS=1\n")
    assert [each for each in delta_violations(WHOLE, delta) if "500 ms from the end" in each]
    assert delta_violations(WHOLE, WHOLE) == ["4.4.5.2: no EXT-X-SKIP"]
