"""The shapes of rules, and of who is here by which."""

from typing import Literal

from pydantic import BaseModel

from penstock.web.api.models import Count


class AccessRule(BaseModel):
    """One of the rules that let in."""

    rule: str
    """As it is in the configuration; conditions that only let in together are joined by `+`."""
    words: str


class KeyAlias(BaseModel):
    """A key that is for one stream."""

    key: str
    stream: str


class AppAccess(BaseModel):
    """Who may what in one app."""

    app: str
    """`*`: all that are not named."""
    publish: list[AccessRule]
    """Any one lets in; none: nobody may."""
    play: list[AccessRule]
    keys: list[str]
    """Their names; the keys themselves are not known here."""
    aliases: list[KeyAlias]


class Subject(BaseModel):
    """Who was let in, and how often."""

    subject: str | None
    """Null: the rule names nobody."""
    count: Count


class LetIn(BaseModel):
    """What one rule has let in that goes on now."""

    action: Literal["publish", "play"]
    app: str
    rule: str | None
    count: Count
    subjects: list[Subject]
    """The most frequent first, 50 at most."""


class Access(BaseModel):
    """The rules in force, and who is here by which."""

    is_open: bool
    """There are no rules: everybody may everything."""
    apps: list[AppAccess]
    let_in: list[LetIn]
