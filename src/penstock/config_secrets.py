"""Secrets that the configuration refers to: read where they are needed, by the process that needs them.

Owns the way from `file:PATH` and `env:NAME` to bytes, and from a configuration to its policy. What was read is in no
message between processes and in no error: a line says which key and where it should have been.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.access.keys import read_key_line
from penstock.access.policy import AppAccess, Policy
from penstock.access.rules import rules_of
from penstock.config import Config
from penstock.config_access import (
    FILE_PREFIX,
    JWKS_PREFIX,
    VARIABLE_PREFIX,
    WHSEC,
    AccessConfig,
    HookConfig,
    hook_secret_bytes,
)
from penstock.errors import ConfigError
from penstock.pulls.config import PullConfig
from penstock.pushes.config import PushConfig

_MAX_BYTES: Final = 64 * 1024
_MIN_JWT_BYTES: Final = 32
"""HS256 is as strong as its key: RFC 7518, section 3.2."""
PEM_START: Final = b"-----BEGIN "
_PUBLIC_PEM: Final = re.compile(
    rb"-----BEGIN ((?:RSA )?PUBLIC KEY|CERTIFICATE)-----\s(.*?)-----END \1-----(?:.*)", re.DOTALL
)
"""A chain of certificates begins with the one that counts."""


def read_secret(reference: str, key: str, environment: Mapping[str, str]) -> bytes:
    """What a reference leads to, without the line break that editors put behind it."""
    if reference.startswith(VARIABLE_PREFIX):
        name = reference.removeprefix(VARIABLE_PREFIX)
        secret = environment.get(name, "").encode("utf-8", "surrogateescape")
        where = f"the variable {name}"
    else:
        path = reference.removeprefix(FILE_PREFIX)
        where = path
        try:
            with Path(path).open("rb") as file:
                secret = file.read(_MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no path"
            raise ConfigError(f"{key}: {path} cannot be read: {reason}") from None
    secret = secret.rstrip(b"\r\n")
    if not secret:
        raise ConfigError(f"{key}: {where} is empty or not there")
    if len(secret) > _MAX_BYTES:
        raise ConfigError(f"{key}: {where} has more than {_MAX_BYTES} bytes")
    return secret


def signing_secrets(config: Config, environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """The first signs, all verify."""
    return tuple(read_secret(each, "auth.signing", environment) for each in config.auth.signing)


def jwt_secret(config: Config, environment: Mapping[str, str]) -> bytes | None:
    """The secret or PEM that tokens are verified by; None: a key set does, or nothing."""
    reference = config.auth.jwt
    if reference is None or reference.startswith(JWKS_PREFIX):
        return None
    secret = read_secret(reference, "auth.jwt", environment)
    if secret.lstrip().startswith(PEM_START):
        if not _is_public_pem(secret):
            raise ConfigError("auth.jwt: a PEM should be a public key or a certificate")
    elif len(secret) < _MIN_JWT_BYTES:
        raise ConfigError(f"auth.jwt: a secret should have at least {_MIN_JWT_BYTES} bytes, not {len(secret)}")
    return secret


def _is_public_pem(text: bytes) -> bool:
    """Whether it looks like one, for a line before the start. What is in it is read by the web process."""
    match = _PUBLIC_PEM.fullmatch(text.strip())
    try:
        return match is not None and bool(base64.b64decode(b"".join(match[2].split()), validate=True))
    except binascii.Error:
        return False


def hook_secret(hook: HookConfig, environment: Mapping[str, str]) -> bytes | None:
    """What a webhook is signed with."""
    if hook.secret is None:
        return None
    text = hook.secret
    if not text.startswith(WHSEC):
        text = read_secret(text, "hooks.secret", environment).decode("utf-8", "replace").strip()
    secret = hook_secret_bytes(text)
    if secret is None:
        raise ConfigError(f"hooks.secret: what it refers to should be {WHSEC}BASE64")
    return secret


def push_key(push: PushConfig, environment: Mapping[str, str]) -> str | None:
    """The stream key of a target."""
    if push.key is None:
        return None
    try:
        key = read_secret(push.key, f"push.{push.name}.key", environment).decode("ascii")
    except UnicodeDecodeError:
        key = ""
    if not key or not key.isprintable() or " " in key:
        raise ConfigError(f"push.{push.name}.key: what it refers to should be one word of printable ASCII")
    return key


def pull_key(pull: PullConfig, number: int, environment: Mapping[str, str]) -> str | None:
    """What an origin is shown."""
    if pull.key is None:
        return None
    where = f"pull[{number}].key"
    try:
        key = read_secret(pull.key, where, environment).decode("ascii")
    except UnicodeDecodeError:
        key = ""
    if not key or not key.isprintable() or " " in key:
        raise ConfigError(f"{where}: what it refers to should be one word of printable ASCII")
    return key


def policy_of(config: Config, environment: Mapping[str, str], own_secret: bytes = b"") -> Policy:
    """Who may, by the configuration. A secret that cannot be read raises ConfigError.

    `own_secret` is what this life of the server signs its own links by.
    """
    apps = {name: _app_access(each) for name, each in config.access.items()}
    return Policy(apps, signing_secrets(config, environment), _edition_of(config), own_secret)


def _edition_of(config: Config) -> str:
    """The same in every process that was given this configuration."""
    text = repr((config.auth, sorted((name, repr(each)) for name, each in config.access.items())))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def check_secrets(config: Config, environment: Mapping[str, str]) -> None:
    """Follow every reference once, before anything is started that needs it."""
    policy_of(config, environment)
    jwt_secret(config, environment)
    for hook in config.hooks:
        hook_secret(hook, environment)
    for push in config.push:
        push_key(push, environment)
    for number, pull in enumerate(config.pull, start=1):
        pull_key(pull, number, environment)


def _app_access(config: AccessConfig) -> AppAccess:
    return AppAccess(
        publish=rules_of(config.publish),
        play=rules_of(config.play),
        keys=tuple(map(read_key_line, config.keys)),
        aliases=dict(config.aliases),
    )
