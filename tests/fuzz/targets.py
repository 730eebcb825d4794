"""Every target by its name, and how many of a number of inputs each gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.fuzz.codec_target import CodecTarget
from tests.fuzz.daemon_target import DaemonTarget
from tests.fuzz.handler_target import HandlerTarget, handler_names
from tests.fuzz.manifest_target import ManifestTarget
from tests.fuzz.operator_target import OperatorTarget
from tests.fuzz.policy_target import PatchTarget, PolicyTarget
from tests.fuzz.schema_target import SchemaTarget
from tests.fuzz.target import Target
from tests.fuzz.worker_target import WorkerTarget
from tests.fuzz.zmtp_target import SocketsTarget, ZmtpTarget

_PLAIN: Final[dict[str, tuple[Callable[[], Target], float]]] = {
    "codec": (CodecTarget, 0.1),
    "zmtp": (ZmtpTarget, 0.08),
    "schema": (SchemaTarget, 0.04),
    "manifest": (ManifestTarget, 0.03),
    "policy": (PolicyTarget, 0.03),
    "patch": (PatchTarget, 0.03),
    "operator": (OperatorTarget, 0.025),
    "worker side": (WorkerTarget, 0.02),
    "sockets": (SocketsTarget, 0.015),
    "daemon": (DaemonTarget, 0.004),
}
"""Each with its share of all inputs; the handlers share the rest."""
HANDLERS: Final = {name: (door, kind) for name, door, kind in handler_names()}
NAMES: Final = (*_PLAIN, *HANDLERS)


def make(name: str) -> Target:
    """A new one.

    Raises:
        KeyError: There is none of this name.

    """
    if name in _PLAIN:
        return _PLAIN[name][0]()
    return HandlerTarget(name, *HANDLERS[name])


def planned(inputs: int) -> dict[str, int]:
    """How many each target gets. A handler gets at least 1,000 when there are 100,000 in all."""
    left = 1.0 - sum(share for _, share in _PLAIN.values())
    shares = {name: share for name, (_, share) in _PLAIN.items()} | dict.fromkeys(HANDLERS, left / len(HANDLERS))
    return {name: -int(-share * inputs // 1) for name, share in shares.items()}
