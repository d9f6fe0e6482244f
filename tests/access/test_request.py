"""Where credentials are looked for, and what grants add up to."""

from penstock.access.request import (
    AccessRequest,
    Allowed,
    Credentials,
    Grant,
    Pending,
    SignedPart,
    credentials_of,
    parameters_of,
)


def request(app_query: str = "", stream_query: str = "", bearer: str | None = None) -> AccessRequest:
    return AccessRequest("play", "live", "x", "rtmp", "192.0.2.1", app_query, stream_query, bearer=bearer)


def test_the_query_of_the_stream_comes_before_that_of_the_app() -> None:
    assert credentials_of(request("key=app&token=t", "key=own")) == Credentials("own", "t", None)


def test_a_signature_is_taken_from_one_query_alone() -> None:
    credentials = credentials_of(request("exp=5&ip=192.0.2.1", "sig=s"))
    assert credentials.signed == SignedPart("", "", "s")
    assert credentials_of(request("exp=5&sig=s")).signed == SignedPart("5", "", "s")


def test_a_bearer_is_a_token_or_a_key() -> None:
    assert credentials_of(request(bearer="a.b.c")) == Credentials(None, "a.b.c", None)
    assert credentials_of(request(bearer="abc")) == Credentials("abc", "abc", None)
    assert credentials_of(request(stream_query="key=k&token=t", bearer="abc")) == Credentials("k", "t", None)


def test_nothing_is_no_credentials() -> None:
    assert not credentials_of(request("campaign=x")).is_any
    assert credentials_of(request("key=")).is_any


def test_the_first_of_a_name_counts_and_values_are_decoded() -> None:
    assert parameters_of("a=1&a=2&b=%41%20b&c&=d&\udcff=\udcff") == {
        "a": "1",
        "b": "A b",
        "c": "",
        "": "d",
        "\udcff": "\udcff",
    }


def test_a_request_does_not_print_what_may_be_a_secret() -> None:
    text = repr(AccessRequest("play", "live", "s1", "rtmp", None, "s2", "s3", "s4", "s5", ("s6", "s7")))
    assert not [each for each in ("s1", "s2", "s3", "s4", "s5", "s6", "s7") if each in text]


def test_grants_together_end_with_the_first_and_have_the_first_subject() -> None:
    pending = Pending("key+jwt+callback", ("jwt", "callback"), "main", Grant(None, 50.0))
    assert pending.granted(Grant("alice", 40.0), Grant("bob", None, "other")) == Allowed(
        "key+jwt+callback", "alice", "other", 40.0, is_by_web=True
    )
    assert pending.granted(Grant(), Grant()) == Allowed("key+jwt+callback", None, "main", 50.0, is_by_web=True)
