"""penstock kick, against a server of the test."""

import pytest

from penstock.cli import main
from tests.commands.api.answering import Answer, answering


@pytest.mark.parametrize(
    ("answers", "status", "told"),
    [
        ({"DELETE /api/v1/connections/c1": (204, None)}, 0, "kicked c1\n"),
        ({"DELETE /api/v1/viewers/c1": (204, None)}, 0, "kicked c1\n"),
        ({}, 1, "penstock kick: no connection and no viewer is called c1\n"),
        (
            {"DELETE /api/v1/connections/c1": (403, {"detail": "This needs the role operate."})},
            1,
            (
                "penstock kick: the server answers 403: This needs the role operate. "
                "(a token is taken from PENSTOCK_TOKEN)\n"
            ),
        ),
    ],
)
def test_a_kick_finds_out_what_the_id_is_of(
    answers: dict[str, Answer], status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(answers) as server:
        assert main(["kick", "c1", "--url", server.url]) == status
    captured = capsys.readouterr()
    assert captured.out + captured.err == told
