"""What goes wrong with other servers, in words that hold no key.

Owns how a refusal is told. Servers like to repeat the name of a stream in what they refuse, and for most platforms
that name is the key.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from penstock.amf import printable

HIDDEN: Final = "***"
_MAX_CHARACTERS: Final = 300
_MAX_READ_CHARACTERS: Final = 16 * 1024
"""Looking for secrets takes time, and a server may send megabytes. Only one that repeats a key dozens of times could
have a part of it shown where this cuts."""


class Failure(NamedTuple):
    """Why an outgoing connection is over."""

    reason: str
    """For logs, facts and operators."""
    is_refusal: bool = False
    """Whether the server said no, rather than that it could not be reached or went away."""
    code: str = ""
    """The status code of the refusal."""


def without_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """A text of the other side, fit to be shown: printable, of bounded length, and without the secrets."""
    is_cut, text = len(text) > _MAX_READ_CHARACTERS, text[:_MAX_READ_CHARACTERS]
    forms = {form for each in secrets for form in (each, unquote(each)) if form}
    if forms:
        # The longest first: one may be a part of another.
        text = re.sub("|".join(map(_however, sorted(forms, key=len, reverse=True))), HIDDEN, text, flags=re.IGNORECASE)
    text = printable(text)
    return text if len(text) <= _MAX_CHARACTERS and not is_cut else f"{text[:_MAX_CHARACTERS]}…"


def _however(secret: str) -> str:
    """A pattern of a text, whichever of its characters are percent-encoded."""
    return "".join(f"(?:{re.escape(character)}|{_encoded(character)})" for character in secret)


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def refusal(what: str, code: str, description: str, secrets: tuple[str, ...]) -> Failure:
    """A server that says no."""
    shown_code = without_secrets(code, secrets)
    shown = " ".join(
        part for part in (shown_code, description and f"({without_secrets(description, secrets)})") if part
    )
    return Failure(f"it refused {what}: {shown or 'it gave no reason'}", is_refusal=True, code=shown_code)
