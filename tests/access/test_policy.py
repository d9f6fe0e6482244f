"""Who may, by rules, keys, aliases and signatures."""

from typing import Any

import pytest

from penstock.access.adobe import proof_of
from penstock.access.keys import key_line, read_key_line
from penstock.access.policy import AppAccess, Policy
from penstock.access.request import AccessRequest, Action, Allowed, Decision, Grant, Pending, Refused, Undecided
from penstock.access.rules import read_rule_text, rules_of
from penstock.access.signing import signature, signed_query

KEY = "6xygj3cykoilmjp4zqtyw27yfwcid6ro"
OTHER = "ircmy7yvqxzvxxgeuaoptburbsndudb3"
STUDIO = read_key_line(key_line("studio", KEY, "c2FsdHNhbHQx"))
CAMERA = read_key_line(key_line("camera", OTHER))
SECRET = b"topsecret"
NOW = 1_800_000_000.0


def app(
    publish: list[Any] | None = None, play: list[Any] | None = None, aliases: dict[str, str] | None = None
) -> AppAccess:
    return AppAccess(
        rules_of(read_rule_text(publish or [])),
        rules_of(read_rule_text(play or [])),
        (STUDIO, CAMERA),
        aliases or {},
    )


def decided(
    policy: Policy, stream: str = "x", query: str = "", action: Action = "publish", name: str = "live", **more: Any
) -> Decision:
    values: dict[str, Any] = {"protocol": "rtmp", "peer_ip": "192.0.2.1"} | more
    return policy.decide(AccessRequest(action, name, stream, stream_query=query, **values), NOW)


def by(*publish: Any, aliases: dict[str, str] | None = None) -> Policy:
    return Policy({"live": app(list(publish), aliases=aliases)}, (SECRET,))


def is_refused(decision: Decision) -> bool:
    return isinstance(decision, Refused)


def test_without_any_rules_everybody_may_everything() -> None:
    assert Policy().is_open
    assert decided(Policy()) == Allowed("open", None, "x", None)


def test_once_there_are_rules_an_app_without_any_is_denied() -> None:
    policy = Policy({"live": app(["open"], ["open"])})
    assert not policy.is_open
    assert decided(policy, name="other") == Refused("no rule for this app", has_credentials=False)
    assert decided(policy, name="other", query="key=x") == Refused("no rule for this app", has_credentials=True)


def test_the_star_is_for_apps_that_are_not_named() -> None:
    policy = Policy({"live": app(["deny"]), "*": app(["open"])})
    assert decided(policy, name="other") == Allowed("open", None, "x", None)
    assert is_refused(decided(policy, name="live"))


def test_an_action_without_rules_is_for_nobody() -> None:
    assert is_refused(decided(by("open"), action="play"))
    assert is_refused(decided(by()))


def test_any_one_lets_in_and_an_inner_list_needs_all() -> None:
    policy = by("deny", ["ip:10.0.0.0/8", "key"], "ip:2001:db8::/32")
    assert decided(policy, query=f"key={KEY}", peer_ip="10.1.2.3") == Allowed("ip:10.0.0.0/8+key", "studio", "x", None)
    assert is_refused(decided(policy, query=f"key={KEY}", peer_ip="11.1.2.3"))
    assert is_refused(decided(policy, peer_ip="10.1.2.3"))
    assert decided(policy, peer_ip="2001:db8::7") == Allowed("ip:2001:db8::/32", None, "x", None)
    assert is_refused(decided(policy, peer_ip=None))


@pytest.mark.parametrize(
    "brought",
    [
        {"query": f"key={KEY}"},
        {"app_query": f"key={KEY}"},
        {"bearer": KEY},
        {"basic": ("studio", KEY)},
        {"user_proved": proof_of(STUDIO)},
    ],
)
def test_a_key_is_taken_wherever_it_is_shown(brought: dict[str, Any]) -> None:
    assert decided(by("key"), **brought) == Allowed("key", "studio", "x", None)


@pytest.mark.parametrize(
    "brought",
    [
        {"query": f"key={KEY}a"},
        {"query": "key="},
        {"query": "key=\udcff"},
        {"bearer": "x"},
        {"basic": ("camera", KEY)},
        {"user_proved": "studio#00000000000000000000000000000000"},
        {"user_proved": "camera"},
    ],
)
def test_a_wrong_key_is_refused_as_such(brought: dict[str, Any]) -> None:
    decision = decided(by("key"), **brought)
    assert isinstance(decision, Refused)
    assert decision.has_credentials


def test_no_key_is_refused_as_none_and_the_reason_names_nothing_of_the_peer() -> None:
    assert decided(by("key", ["ip:10.0.0.0/8", "key"]), stream=KEY) == Refused(
        "not let in by the rules of the app: key, ip:10.0.0.0/8+key", has_credentials=False
    )


def test_a_key_with_an_alias_is_for_its_stream_and_no_other() -> None:
    policy = by("key", aliases={"studio": "main"})
    main = Allowed("key", "studio", "main", None)
    assert decided(policy, "main", f"key={KEY}") == main
    assert decided(policy, "studio", f"key={KEY}") == main
    assert is_refused(decided(policy, "other", f"key={KEY}"))
    assert decided(policy, "other", f"key={OTHER}") == Allowed("key", "camera", "other", None)


def test_a_key_with_an_alias_may_be_the_name_of_the_stream() -> None:
    assert decided(by("key", aliases={"studio": "main"}), KEY) == Allowed("key", "studio", "main", None)
    assert is_refused(decided(by("key", aliases={"studio": "main"}), OTHER))
    assert is_refused(decided(by("key"), KEY))


def test_a_key_as_a_name_is_shown_to_nobody_whichever_rule_lets_it_in() -> None:
    assert decided(by("open", aliases={"studio": "main"}), KEY) == Allowed("open", None, "main", None)


def test_a_removed_key_lets_nobody_in_and_a_new_one_of_its_name_is_another() -> None:
    renewed = AppAccess(rules_of(("key",)), (), (read_key_line(key_line("studio", OTHER, "c2FsdHNhbHQy")),))
    assert is_refused(decided(Policy({"live": renewed}), user_proved=proof_of(STUDIO)))
    assert is_refused(decided(Policy({"live": AppAccess(rules_of(("key",)))}), query=f"key={KEY}"))


def test_a_signed_link_lets_in_until_it_expires() -> None:
    sig = signature(SECRET, "publish", "live/x", "1800000600", "")
    query = f"exp=1800000600&sig={sig}"
    assert decided(by("signed"), query=query) == Allowed("signed", None, "x", 1_800_000_600.0)
    assert decided(by("signed"), app_query=query) == Allowed("signed", None, "x", 1_800_000_600.0)
    assert is_refused(decided(by("signed"), "y", query))
    assert decided(by(["signed", "key"]), query=f"{query}&key={KEY}") == Allowed(
        "signed+key", "studio", "x", 1_800_000_600.0
    )


def test_what_web_has_to_verify_is_left_undecided() -> None:
    decision = decided(by("key", ["key", "jwt"], ["ip:10.0.0.0/8", "callback"], "callback"), query="token=t")
    assert isinstance(decision, Undecided)
    assert decision.alternatives == (Pending("callback", ("callback",), "x", Grant()),)
    assert decision.token == "t"
    assert decision.refused.has_credentials
    decision = decided(by(["key", "jwt"], aliases={"studio": "main"}), KEY, "token=t")
    assert isinstance(decision, Undecided)
    assert decision.alternatives == (Pending("key+jwt", ("jwt",), "main", Grant("studio")),)


def test_what_can_be_decided_here_is_not_asked() -> None:
    assert decided(by("callback", "key"), query=f"key={KEY}") == Allowed("key", "studio", "x", None)
    assert is_refused(decided(by("jwt"), query=f"key={KEY}")), "no token, no question"
    assert decided(by("jwt")) == Refused("not let in by the rules of the app: jwt", has_credentials=False)


def test_names_that_are_no_utf_8_are_not_asked_about() -> None:
    assert is_refused(decided(by("callback"), "\udcff"))
    assert decided(by("open"), "\udcff") == Allowed("open", None, "\udcff", None)


def test_web_is_needed_for_tokens_and_callbacks_alone() -> None:
    assert not by("key", "signed", ["ip:10.0.0.0/8", "open"]).needs_web
    assert by("key", ["ip:10.0.0.0/8", "jwt"]).needs_web
    assert Policy({"live": app(play=["callback"])}).needs_web
    assert not Policy().needs_web


def test_a_policy_prints_no_secret() -> None:
    assert "topsecret" not in repr(by("signed"))


OWN = b"of this life of the server"


def with_own_links(*play: Any, publish: tuple[Any, ...] = ()) -> Policy:
    return Policy({"live": app(list(publish), list(play))}, (SECRET,), own_secret=OWN)


def own_link(path: str = "live/x", action: Action = "play", for_s: int = 300, ip: str = "") -> str:
    return signed_query(OWN, action, path, int(NOW) + for_s, ip)


@pytest.mark.parametrize("rule", ["key", "signed", "jwt", "callback", "ip:10.0.0.0/8", ["ip:10.0.0.0/8", "jwt"]])
def test_a_link_of_the_server_counts_under_every_rule_for_playing(rule: Any) -> None:
    allowed = Allowed("server", None, "x", NOW + 300)
    assert decided(with_own_links(rule), query=own_link(), action="play") == allowed


def test_a_link_of_the_server_does_not_count_under_deny() -> None:
    for rules in (["deny"], [["deny", "key"]], ["deny", ["ip:192.0.2.0/24", "deny"]], []):
        assert is_refused(decided(with_own_links(*rules), query=own_link(), action="play")), rules
    assert not is_refused(decided(with_own_links("deny", "key"), query=own_link(), action="play"))


def test_a_link_of_the_server_opens_no_app_that_has_no_rules() -> None:
    assert is_refused(decided(with_own_links("key"), query=own_link("other/x"), action="play", name="other"))


@pytest.mark.parametrize(
    "query",
    [
        own_link("live/y"),
        own_link("other/x"),
        own_link(action="publish"),
        own_link(for_s=0),
        own_link(ip="192.0.2.77"),
        own_link().replace("exp=18", "exp=19"),
        signed_query(b"", "play", "live/x", int(NOW) + 300),
        signed_query(SECRET, "play", "live/x", int(NOW) + 300),
    ],
)
def test_a_link_of_the_server_is_for_one_stream_and_one_action_and_a_while(query: str) -> None:
    assert is_refused(decided(with_own_links("key"), query=query, action="play"))


def test_a_link_to_play_does_not_let_publish() -> None:
    policy = with_own_links("key", publish=("key",))
    assert is_refused(decided(policy, query=own_link(), action="publish"))


def test_what_lets_in_without_an_end_comes_before_a_link_which_has_one_and_before_whoever_asks_web() -> None:
    assert decided(with_own_links("open"), query=own_link(), action="play") == Allowed("open", None, "x", None)
    shown = f"key={KEY}&{own_link()}"
    assert decided(with_own_links("key"), query=shown, action="play") == Allowed("key", "studio", "x", None)
    asked = decided(with_own_links("jwt"), query=f"token=a.b.c&{own_link()}", action="play")
    assert asked == Allowed("server", None, "x", NOW + 300)


def test_a_server_without_a_secret_of_its_own_makes_no_links_that_count() -> None:
    policy = Policy({"live": app([], ["key"])}, (SECRET,))
    assert is_refused(decided(policy, query=signed_query(b"", "play", "live/x", int(NOW) + 300), action="play"))


def test_no_secret_is_in_what_a_policy_shows_of_itself() -> None:
    assert "life" not in repr(with_own_links("key"))


def test_only_a_link_to_publish_lets_publish_from_its_address_and_under_every_rule_but_deny() -> None:
    query = own_link(action="publish", ip="127.0.0.1")
    allowed = Allowed("server", None, "x", NOW + 300)
    assert decided(with_own_links(publish=("jwt",)), query=query, peer_ip="127.0.0.1") == allowed
    assert is_refused(decided(with_own_links(publish=("jwt",)), query=query))
    assert is_refused(decided(with_own_links(publish=("deny",)), query=query, peer_ip="127.0.0.1"))
    assert is_refused(decided(with_own_links("key"), query=query, peer_ip="127.0.0.1", action="play"))
