import copy
import json

import pytest

from penstock.amf import UNDEFINED, UNSUPPORTED, AmfLimits, EcmaArray, printable
from penstock.errors import MisuseError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("stream 1", "stream 1"),
        ("直播 é", "直播 é"),
        ("می\u200cرو 👩\u200d🚀 朝\u3000ライブ", "می\u200cرو 👩\u200d🚀 朝\u3000ライブ"),
        ("\udcd6\udcd0", "\\xd6\\xd0"),
        ("a\nb\x1b[31m\x7f\x85", "a\\x0ab\\x1b[31m\\x7f\\x85"),
        ("left\u202eright\u2028", "left\\u202eright\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("", ""),
    ],
)
def test_printable_text_has_no_control_characters_and_no_surrogates(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert json.loads(json.dumps(printable(text), ensure_ascii=False).encode()) == shown


def test_undefined_and_unsupported_stay_the_same_objects_when_copied() -> None:
    assert copy.deepcopy([UNDEFINED, UNSUPPORTED]) == [UNDEFINED, UNSUPPORTED]
    assert copy.deepcopy(UNDEFINED) is UNDEFINED


def test_an_ecma_array_is_used_like_a_dict() -> None:
    array = EcmaArray({"width": 64.0})
    array["height"] = 48.0
    assert isinstance(array, dict)
    assert array == {"width": 64.0, "height": 48.0}


@pytest.mark.parametrize("max_depth", [-1, 101, 10**6])
def test_a_depth_that_python_itself_cannot_hold_is_misuse(max_depth: int) -> None:
    with pytest.raises(MisuseError, match=f"max_depth {max_depth} is not within 0 and 100"):
        AmfLimits(max_depth=max_depth)
