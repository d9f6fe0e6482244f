"""All targets by name."""

from fuzz.amf_targets import AMF_TARGETS
from fuzz.client_target import CLIENT_TARGET
from fuzz.media_targets import MEDIA_TARGETS
from fuzz.outcome import Target
from fuzz.protocol_targets import PROTOCOL_TARGETS
from fuzz.server_target import SERVER_TARGET

TARGETS: dict[str, Target] = {
    target.name: target for target in (*PROTOCOL_TARGETS, *AMF_TARGETS, SERVER_TARGET, CLIENT_TARGET, *MEDIA_TARGETS)
}
