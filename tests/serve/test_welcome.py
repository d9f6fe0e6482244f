"""What a person reads who has just started the server on a terminal."""

from pathlib import Path

from penstock.serve.welcome import welcome


def test_it_says_where_to_publish_play_and_look() -> None:
    addresses = {"rtmp": ("127.0.0.1", 1935), "http": ("127.0.0.1", 8080)}
    assert welcome(addresses, Path("data"), ()) == (
        "\n"
        "  publish  rtmp://127.0.0.1:1935/live/STREAM\n"
        "           in OBS: server rtmp://127.0.0.1:1935/live, stream key STREAM\n"
        "  play     rtmp://127.0.0.1:1935/live/STREAM, by VLC or ffplay\n"
        "  look     http://127.0.0.1:8080/healthz and /metrics\n"
        "  files    data; records nothing; see --record\n"
        "  stop     Ctrl+C\n"
    )


def test_https_is_looked_at_as_such() -> None:
    text = welcome({"rtmp": ("127.0.0.1", 1935), "https": ("127.0.0.1", 8443)}, Path("data"), ())
    assert "  look     https://127.0.0.1:8443/healthz and /metrics\n" in text


def test_where_web_has_a_port_of_its_own_it_is_looked_at_there() -> None:
    addresses = {"rtmp": ("127.0.0.1", 1935), "https": ("127.0.0.1", 8443), "web_https": ("127.0.0.1", 9443)}
    text = welcome(addresses, Path("data"), ())
    assert "  look     https://127.0.0.1:9443/healthz and /metrics\n" in text
    assert "8443" not in text


def test_a_server_on_every_interface_is_named_by_an_address_that_can_be_typed() -> None:
    addresses = {"rtmp": ("0.0.0.0", 1935), "rtmps": ("::1", 1936)}
    assert welcome(addresses, Path("/srv"), ("live/*", "vod/x")) == (
        "\n"
        "  publish  rtmp://127.0.0.1:1935/live/STREAM or rtmps://[::1]:1936/live/STREAM\n"
        "           in OBS: server rtmp://127.0.0.1:1935/live, stream key STREAM\n"
        "  play     rtmp://127.0.0.1:1935/live/STREAM or rtmps://[::1]:1936/live/STREAM, by VLC or ffplay\n"
        "  files    /srv; records live/*, vod/x\n"
        "           127.0.0.1 is this machine; from others, use its name or address\n"
        "  stop     Ctrl+C\n"
    )
