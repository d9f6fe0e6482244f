"""Which parameters of a URL may become a fact, and in what words."""

from penstock.serve.streams.dimensions import MAX_VALUE_CHARACTERS, dimensions_text, named_parameters


def test_only_parameters_that_were_named_are_taken() -> None:
    query = "token=s3cret&campaign=spring&Campaign=no&region=eu"
    assert named_parameters(("campaign", "region"), query) == {"campaign": "spring", "region": "eu"}
    assert named_parameters((), query) == {}


def test_the_first_of_one_name_counts_and_one_without_a_value_is_none() -> None:
    assert named_parameters(("a", "b", "c"), "a=1&a=2&b=&c") == {"a": "1"}
    assert named_parameters(("a",), "") == named_parameters(("a",), None) == {}


def test_a_long_value_is_told_as_other_and_none_of_it() -> None:
    longest = "x" * MAX_VALUE_CHARACTERS
    assert named_parameters(("a", "b"), f"a={longest}&b={longest}y") == {"a": longest, "b": "other"}


def test_values_are_decoded_and_printable() -> None:
    assert named_parameters(("a", "b"), "a=gr%C3%BCn+5&b=%00%0A%FF") == {"a": "grün 5", "b": "\\x00\\x0a�"}


def test_facts_have_one_text_for_the_same_parameters() -> None:
    assert dimensions_text({"b": 'say "x"', "a": "grün"}) == '{"a":"grün","b":"say \\"x\\""}'
    assert dimensions_text({"a": "1", "b": "2"}) == dimensions_text({"b": "2", "a": "1"})
    assert dimensions_text({}) is None
