"""Ports: what a variable sets, else what the last `up` had, else any that is free."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from infra.progress import StepFailed
from localstack.platform import HOST
from localstack.workspace import PORT_VARIABLES


def choose(name: str, *, wanted: Mapping[str, int], last: Mapping[str, int]) -> int:
    """Return the port for one piece.

    A port that was asked for is taken or refused, never replaced: whoever set it will
    look for it there.

    Raises:
        StepFailed: the port that a variable asks for is taken.
    """
    if name in wanted:
        if not is_free(wanted[name]):
            raise taken(name, wanted[name])
        return wanted[name]
    if name in last and is_free(last[name]):
        return last[name]
    return free()


def is_free(port: int) -> bool:
    """Say whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def taken(name: str, port: int) -> StepFailed:
    """The failure that names a taken port and the variable that asked for it."""
    return StepFailed(
        f"port {port} on {HOST} is taken ({PORT_VARIABLES[name]} asks for it)"
    )
