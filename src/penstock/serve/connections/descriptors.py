"""Descriptors: how many this process may have, and which of them are kept for files."""

import resource
from typing import Final

RESERVED_DESCRIPTORS: Final = 64
"""Not for connections: logs of streams, recordings and facts open files all the time, and must not fail for a crowd."""


def raise_descriptor_limit() -> int:
    """Use all descriptors the system allows: each connection and each second of a stream is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def is_reserved(descriptor: int) -> bool:
    """Whether so few are left that they are for files. The system gives the smallest number that is free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptor >= limit - min(RESERVED_DESCRIPTORS, limit // 4)
