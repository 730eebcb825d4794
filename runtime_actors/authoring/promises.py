"""What every MiniApp must hold, each promise with a stable id and the section of the SDK's definition it stems from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runtime_actors.contract.base import JsonObject


@dataclass(frozen=True, slots=True)
class Promise:
    """One of `PROMISES`."""

    id: str
    sentence: str
    section: str
    """Of the definition of MiniApp SDK v1; `isolation` for what docs/isolation.md asks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about a promise."""

    promise: Promise
    holds: bool | None
    """None: it could not be tried, because another one is broken or the app has nothing to try it with."""
    detail: str

    @property
    def broken(self) -> bool:
        return self.holds is False

    def to_json(self) -> JsonObject:
        return {
            "id": self.promise.id,
            "sentence": self.promise.sentence,
            "section": self.promise.section,
            "holds": self.holds,
            "detail": self.detail,
        }


MANIFEST: Final = Promise("manifest", "The manifest can be registered, and its schemas are of the subset.", "4.1")
STARTS: Final = Promise("starts", "It is imported and ready within ten seconds.", "3")
SERVES: Final = Promise("serves-tools", "It takes over or ends each call of each tool within ten seconds.", "4.4")
INPUTS: Final = Promise("valid-inputs", "No input that fits the schema makes a handler raise.", "4.2")
OUTPUTS: Final = Promise("valid-outputs", "Each result fits the output schema of its tool.", "3.2")
KILLS: Final = Promise(
    "survives-kills", "A call whose process was killed is taken up by the next one, and ends once.", "9.11"
)
CANCELS: Final = Promise(
    "honours-cancel", "A call that is wanted no longer is ended in time, also after a kill.", "3.2"
)
CLOSES: Final = Promise("takes-close", "It takes a person's wish to close it over within ten seconds.", "3.3")
STOPS: Final = Promise("honours-stop", "Told to stop, the process ends by itself in time.", "3.3")
CONVERSATIONS: Final = Promise("conversations", "Two conversations at once do not disturb each other.", "3")
LATE: Final = Promise("late-news", "News of calls that are over, and texts, do not end the process.", "3.1")
BEATS: Final = Promise("answers-beats", "Its event loop is never blocked for long: each beat is answered.", "isolation")
ALIVE: Final = Promise("stays-alive", "The process ends only when it is told to.", "3.3")
QUIET: Final = Promise("quiet-output", "What it prints stays below one MiB a process.", "isolation")
MEMORY: Final = Promise("idle-memory", "Private memory of an idle process (for information).", "isolation")

PROMISES: Final = (
    MANIFEST,
    STARTS,
    SERVES,
    INPUTS,
    OUTPUTS,
    CANCELS,
    KILLS,
    CONVERSATIONS,
    LATE,
    CLOSES,
    STOPS,
    BEATS,
    ALIVE,
    QUIET,
    MEMORY,
)
"""In the order in which they are found out about."""
