"""Who may publish and play, in words, and who is here by which rule. Nothing of it is secret."""

from collections import Counter
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.access.keys import read_key_line
from penstock.access.rules import Alternative, Condition, RuleText, rules_of
from penstock.config_access import AccessConfig
from penstock.web.api.answers import json_answer
from penstock.web.api.context import ApiContext
from penstock.web.api.schema import access as schema
from penstock.web.live.state import LiveState

MAX_SUBJECTS: Final = 50
_WHO: Final = {"open": "everybody", "deny": "nobody"}
_WORDS: Final = {
    "open": "is anybody",
    "deny": "is nobody",
    "key": "shows one of the app's keys",
    "signed": "has a signed link",
    "jwt": "has a token for this action and stream",
    "callback": "is let in by the callback",
}


def router(context: ApiContext) -> APIRouter:
    """GET /access."""
    routes = APIRouter(tags=["access"])

    @routes.get("/access", response_model=schema.Access)
    async def get_access(request: Request) -> Response:
        """The rules in force, and what they have let in that goes on now."""
        access = context.config.config.access
        answer = {
            "is_open": not access,
            "apps": [_show_app(name, rules) for name, rules in sorted(access.items())],
            "let_in": _let_in(context.happenings.state),
        }
        return json_answer(request, answer)

    return routes


def _show_app(name: str, access: AccessConfig) -> dict[str, Any]:
    return {
        "app": name,
        "publish": _show_rules(access.publish),
        "play": _show_rules(access.play),
        "keys": sorted({read_key_line(line).name for line in access.keys}),
        "aliases": [{"key": key, "stream": stream} for key, stream in sorted(access.aliases.items())],
    }


def _show_rules(text: RuleText) -> list[dict[str, str]]:
    return [{"rule": each.name, "words": _in_words(each)} for each in rules_of(text)]


def _in_words(alternative: Alternative) -> str:
    who = _WHO.get(alternative.name)
    return "whoever " + ", and ".join(map(_condition, alternative.conditions)) if who is None else who


def _condition(condition: Condition) -> str:
    return _WORDS[condition] if isinstance(condition, str) else f"comes from {condition}"


def _let_in(state: LiveState) -> list[dict[str, Any]]:
    publishers = [(key[0], each.value.publisher) for key, each in state.streams.items()]
    found = Counter(("publish", app, each.rule, each.auth_subject) for app, each in publishers if each is not None)
    found.update(("play", each.value.app, each.value.rule, each.value.auth_subject) for each in state.views.values())
    subjects: dict[tuple[str, str, str | None], Counter[str | None]] = {}
    for (action, app, rule, subject), count in found.items():
        subjects.setdefault((action, app, rule), Counter())[subject] += count
    return [
        {
            "action": action,
            "app": app,
            "rule": rule,
            "count": counts.total(),
            "subjects": [{"subject": subject, "count": count} for subject, count in counts.most_common(MAX_SUBJECTS)],
        }
        for (action, app, rule), counts in sorted(subjects.items(), key=lambda each: (each[0][:2], each[0][2] or ""))
    ]
