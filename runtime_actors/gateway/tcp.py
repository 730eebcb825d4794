"""The optional TCP door: its keys, and the relay process that serves it."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from typing import TYPE_CHECKING

from runtime_actors.errors import GaveUp
from runtime_actors.gateway.curve import Relay, RelayConfig, RelayNotStarted, new_keys, start_relay

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)


class TcpDoor:
    """Started, watched and stopped by the main thread, with which the relay lives and dies."""

    def __init__(self, state: Path, agent_sock: Path, listen: str | None) -> None:
        self._state, self._agent_sock, self._listen = state, agent_sock, listen
        self.secret = secrets.token_hex(32) if listen else ""
        """By which the agent door knows the relay."""
        self._relay: Relay | None = None
        self._keys: dict[str, str] = {}

    @property
    def endpoint(self) -> str | None:
        """Where it listens, with its port; None if it does not."""
        return self._relay.endpoint if self._relay else None

    @property
    def pid(self) -> int | None:
        """Of the relay."""
        return self._relay.process.pid if self._relay else None

    def start(self, keys: Mapping[str, str]) -> None:
        """Serve, if that was asked for. `keys` maps public keys to agents.

        Raises:
            GaveUp: The address cannot be had.

        """
        self._keys = dict(keys)
        if self._listen is None:
            return
        config = RelayConfig(self._listen, self._agent_sock, self._server_key(), self._keys, self.secret)
        try:
            self._relay = start_relay(config)
        except (RelayNotStarted, ValueError) as error:
            detail = f"--listen {self._listen}: {error}"
            raise GaveUp(detail) from error

    def look(self) -> None:
        """Start it again if it has ended."""
        if self._relay is not None and self._relay.process.poll() is not None:
            logger.warning("the relay ended and is started again")
            with contextlib.suppress(GaveUp):
                self.start(self._keys)

    def allow(self, keys: Mapping[str, str]) -> None:
        """Replace the map of public keys to agents."""
        self._keys = dict(keys)
        if self._relay is not None:
            self._relay.allow(self._keys)

    def stop(self) -> None:
        """End the relay."""
        if self._relay is not None:
            self._relay.stop()

    def _server_key(self) -> str:
        """The secret key (Z85), made with the first use; the public one lies beside it for agents."""
        path = self._state / "curve.key"
        if not path.exists():
            public, secret = new_keys()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secret)
            (self._state / "curve.pub").write_bytes(public + b"\n")
        return path.read_text().strip()
