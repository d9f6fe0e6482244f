"""The shapes of the test stream."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.web.api.models import Order

DEFAULT_S: Final = 600.0
MAX_S: Final = 3600.0
PlainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class NewTestStream(Order):
    """Where to publish the test pattern, and for how long."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"app": "live", "stream": "test", "for_s": 600}]})
    app: PlainName = "live"
    stream: PlainName = "test"
    for_s: Annotated[float, Field(ge=1, le=MAX_S)] = DEFAULT_S


class TestStream(BaseModel):
    """The newest test stream."""

    role: Literal["read", "operate"]
    """What starting and ending one takes."""
    state: Literal["never", "running", "ended"]
    words: str
    app: str | None
    stream: str | None
    started_at: datetime | None
    ends_at: datetime | None
    """When it ends by itself, or when it ended."""
