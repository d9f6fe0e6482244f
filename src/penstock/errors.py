"""The whole error tree. Whose fault it is decides the family.

::

    PenstockError
    ├── MalformedInput          what came from outside is wrong: a peer, an encoder or a file
    │   ├── ProtocolViolation   a peer broke RTMP; costs that connection, never the process
    │   ├── MalformedAmf        bytes that are no AMF value, or one past our bounds
    │   └── MalformedMedia      a payload or FLV file that is not what it claims to be
    ├── RemoteError             a server that we are a client of does not do what we ask
    │   ├── RemoteRefused       it said no, and by which code
    │   └── RemoteLost          it cannot be reached, went away or fell silent
    ├── ConfigError             the operator's configuration is wrong; it ends the start
    ├── PipelineError           a run of the pipeline cannot do what was asked
    │   ├── LakeError           the lake is not as it should be, or a table of it is not to be had
    │   ├── LakeBusy            another writer has the lake
    │   └── MissingProgram      something that has to be installed is not there, Java for one
    └── MisuseError             our own caller asked for what the state forbids: a bug of ours

Messages name the layer first, then the numbers of the case in hand, so that one log line is enough to see what
happened and where.
"""


class PenstockError(Exception):
    """Root of everything that Penstock raises on purpose."""


class MalformedInput(PenstockError):
    """What came from outside is wrong. `layer` says which reader refused it."""

    def __init__(self, layer: str, detail: str) -> None:
        super().__init__(f"{layer}: {detail}")
        self.layer = layer
        self.detail = detail


class ProtocolViolation(MalformedInput):
    """The peer broke RTMP. `state` is the state that the connection was in, once a connection knows it."""

    def __init__(self, layer: str, detail: str, state: str | None = None) -> None:
        super().__init__(layer, detail if state is None else f"{detail} (connection {state})")
        self.state = state


class MalformedAmf(MalformedInput):
    """Bytes that are no AMF value, or a value past our bounds of depth and size."""


class MalformedMedia(MalformedInput):
    """A payload or file that is not what it claims to be."""


class RemoteError(PenstockError):
    """A server that we are a client of does not do what we ask. `server` is its host and port."""

    def __init__(self, server: str, detail: str) -> None:
        super().__init__(f"server {server}: {detail}")
        self.server = server
        self.detail = detail


class RemoteRefused(RemoteError):
    """The server said no. `code` is its status code, "" if it gave none."""

    def __init__(self, server: str, detail: str, code: str) -> None:
        super().__init__(server, detail)
        self.code = code


class RemoteLost(RemoteError):
    """The server cannot be reached, went away or fell silent."""


class ConfigError(PenstockError):
    """The operator's configuration is wrong. One line says where the value came from, its key and what is allowed."""


class PipelineError(PenstockError):
    """A run of the pipeline cannot do what was asked."""


class LakeError(PipelineError):
    """The lake is not as it should be, or a table of it is not to be had."""


class LakeBusy(PipelineError):
    """Another writer has the lake. The message names it."""


class MissingProgram(PipelineError):
    """Something that has to be installed is not there. The message says what to install."""


class MisuseError(PenstockError):
    """Our own caller asked for what the state forbids."""
