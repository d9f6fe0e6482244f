"""Keys and the lines that verify them."""

import pytest

from penstock.access.keys import (
    KeyLine,
    RoleLine,
    adobe_verifier,
    find_key,
    find_role,
    key_line,
    make_key,
    make_salt,
    read_key_line,
    read_role_line,
    role_line,
)

KEY = "aaaqeayeaudaocajbifqydiob4ibceqt"
SHA256 = "0d4a0a72a9b2ef16ac5d1a0cfe2e5fde0a5b1fae8c1ce7b9ea76b5c3f0cc2c17"


def test_a_key_is_160_bits_in_letters_and_digits() -> None:
    assert make_key(bytes(range(20))) == KEY
    with pytest.raises(ValueError, match="20 bytes, not of 16"):
        make_key(bytes(16))


def test_a_line_verifies_its_key_and_no_other() -> None:
    line = read_key_line(key_line("studio", KEY))
    assert (line.name, line.adobe) == ("studio", None)
    assert find_key([line], KEY) is line
    assert find_key([line], KEY + "a") is None
    assert find_key([line], "") is None


def test_the_digest_is_sha256_of_the_key() -> None:
    # echo -n abc | sha256sum
    line = "x:sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert key_line("x", "abc") == line


def test_a_line_for_the_challenge_has_salt_and_verifier_behind_the_digest() -> None:
    # printf %s studioc2FsdHNhbHQxabc | md5sum | xxd -r -p | base64
    text = key_line("studio", "abc", "c2FsdHNhbHQx")
    assert text.endswith(f":adobe:c2FsdHNhbHQx:{adobe_verifier('studio', 'c2FsdHNhbHQx', 'abc')}")
    line = read_key_line(text)
    assert line.adobe is not None
    assert (line.adobe.salt, find_key([line], "abc")) == ("c2FsdHNhbHQx", line)


def test_the_verifier_is_what_clients_make_of_user_salt_and_password() -> None:
    # printf %s userSALTSALTpassword | md5sum | xxd -r -p | base64
    assert adobe_verifier("user", "SALTSALT", "password") == "cfkdRdcAmd5r8k765TlVzg=="


def test_a_salt_survives_clients_that_cut_at_ampersands() -> None:
    assert make_salt(b"\xff" * 9) == "____________"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "studio",
        KEY,
        f"studio:{SHA256}",
        f"studio:md5:{SHA256}",
        f"stu dio:sha256:{SHA256}",
        f":sha256:{SHA256}",
        f"studio:sha256:{SHA256.upper()}",
        f"studio:sha256:{SHA256}:adobe:a&b=cdefgh:MKAgXzy+fBChcaH80a6MXA==",
        f"studio:sha256:{SHA256}:adobe:abcdefgh:short",
        f"studio:admin:sha256:{SHA256}",
    ],
)
def test_other_lines_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="as `penstock key make NAME` prints them") as caught:
        read_key_line(text)
    assert not text or text not in str(caught.value)


def test_a_line_of_the_api_has_a_role() -> None:
    line = read_role_line(role_line("boss", "admin", KEY))
    assert (line.name, line.role) == ("boss", "admin")
    assert find_role([line], KEY) is line
    assert find_role([line], "abc") is None


@pytest.mark.parametrize("text", ["", KEY, f"boss:sha256:{SHA256}", f"boss:owner:sha256:{SHA256}"])
def test_other_lines_of_the_api_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--role read"):
        read_role_line(text)


def test_what_verifies_is_not_printed_by_accident() -> None:
    lines: list[KeyLine | RoleLine] = [
        read_key_line(key_line("studio", KEY, "c2FsdHNhbHQx")),
        read_role_line(role_line("boss", "read", KEY)),
    ]
    assert not [each for each in lines if "\\x" in repr(each) or "==" in repr(each)]
