"""How far one process may run ahead of the actor that reads what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from runtime_actors.channel.peer import Peer

_MARKS: Final = 2


class Window:
    """What of the peers of one process was told and may still wait in their door's mailbox.

    After half as many frames, or bytes, as it has room for, a mark is told as well; the reader answers it when it has
    come that far. With two marks unanswered, or one that stands for so much, nothing more is told. So a process
    has a short stretch of the mailbox at most, however much it says on however many connections, and one whose reader
    keeps up never waits.
    """

    __slots__ = ("_bytes", "_frames", "_frames_a_mark", "_marked", "_room_bytes", "peers", "process", "waiting")

    def __init__(self, process: int, frames: int, room_bytes: int) -> None:
        self.process = process
        self.peers = 0
        """Its connections to the door."""
        self._frames_a_mark = max(1, frames // _MARKS)
        self._room_bytes = room_bytes
        self.waiting: dict[Peer, None] = {}
        """Peers that are not read until there is room."""
        self._frames = 0
        self._bytes = 0
        self._marked: list[int] = []

    @property
    def is_full(self) -> bool:
        return len(self._marked) >= _MARKS or sum(self._marked) >= self._room_bytes

    @property
    def is_empty(self) -> bool:
        """No mark is unanswered."""
        return not self._marked

    def told(self, size: int) -> int | None:
        """One more frame of `size` bytes was told; if a mark has to follow, the bytes that it stands for."""
        self._frames += 1
        self._bytes += size
        if self._frames < self._frames_a_mark and self._bytes < self._room_bytes // _MARKS:
            return None
        marked, self._frames, self._bytes = self._bytes, 0, 0
        self._marked.append(marked)
        return marked

    def answered(self) -> None:
        """The oldest mark was."""
        del self._marked[0]
