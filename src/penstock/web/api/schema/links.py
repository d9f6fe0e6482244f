"""The shapes of links."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from penstock.web.access.links import DEFAULT_LINK_S, MAX_LINK_S
from penstock.web.api.models import Order

_QUERY: Final = "exp=1795017734&sig=Hj8QQh-QhOe0CuLVLexY8enOoeyXWsnX9F_Idk-Bfh0"


class _NewLink(Order):
    for_s: Annotated[float, Field(ge=1, le=MAX_LINK_S)] = DEFAULT_LINK_S


Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f?#]+$")]


class NewStreamLink(_NewLink):
    """A stream to watch, published now or not."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"app": "live", "stream": "test"}]})
    app: Name
    stream: Name


class NewRecordingLink(_NewLink):
    """A recording to watch or fetch."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"recording": "live_test-1"}]})
    recording: Annotated[str, Field(min_length=1, max_length=255)]


class Link(BaseModel):
    """Addresses that need neither token nor credentials, until they expire. What plays by one of a stream ends then."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": _QUERY,
                    "expires_at": "2026-11-18T16:02:14.000Z",
                    "paths": {"http-flv": f"/live/test.flv?{_QUERY}"},
                }
            ]
        }
    )
    query: str
    """For behind the `?` of an address of that stream, over RTMP too, or of that recording."""
    expires_at: datetime
    paths: dict[str, str]
    """On this server, with the query. Of a stream by protocol: `http-flv`, `ws-flv`, `http-mp4`, `hls`, and `thumbnail`
    and `page`; of a recording `media` (fragmented MP4) and `file` (FLV)."""
