"""What every wire model shares: strictness, and the spelling of ids and JSON."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

JsonObject = dict[str, Any]
"""A JSON object that passed the intake rule (`contract.codec`)."""

MAX_PAYLOAD_BYTES: Final = 192 * 1024
MAX_PAYLOAD_DEPTH: Final = 24
MAX_PAYLOAD_NODES: Final = 8_000
"""What one input or result may be. Less than a frame may hold, so that whatever is let in fits every frame it must
leave in."""
MAX_SIDE_BYTES: Final = 16 * 1024
"""The most `data` of a progress report, a failure or a text may take in canonical form."""

CallId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
ConversationId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
MessageId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
InstanceId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
AttemptId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
RequestId = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]
AgentName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
AppScope = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
ToolId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,63}\.[a-z][A-Za-z0-9_-]{0,63}$")]
Capability = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z0-9.-]{0,63}$")]
Revision = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,64}$")]
# Digits are spelt out: \d would let in those of every script there is, and int() does not know them all.
Version = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}(?:[-+][0-9A-Za-z.-]{1,32})?$")]
Key = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,64}$")]
"""An app's own name for something that it makes."""
Reason = Annotated[str, StringConstraints(max_length=2000)]
Timestamp = Annotated[
    str,
    StringConstraints(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})$"
    ),
]
"""RFC 3339 date and time with an offset."""


_ALLOWED_IN_PROSE: Final = frozenset("\n\t")
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})


def check_line(text: str) -> str:
    """One line of what can be seen: nothing that moves a cursor, ends a line or turns the direction of writing.

    Raises:
        ValueError: It holds such a character.

    """
    return _check_visible(text, frozenset())


def check_prose(text: str) -> str:
    """As `check_line`, with line feeds and tabs.

    Raises:
        ValueError: It holds another such character.

    """
    return _check_visible(text, _ALLOWED_IN_PROSE)


def _check_visible(text: str, allowed: frozenset[str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    for at, character in enumerate(text):
        if character not in allowed and unicodedata.category(character) in _INVISIBLE:
            detail = f"character {at} is a control or format character"
            raise ValueError(detail)
    return text


class WireModel(BaseModel):
    """A body as it crosses a process boundary: frozen, exactly its fields, no conversion of types.

    Both ends are installed together, so an unknown field is a mistake and not a newer version.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def to_wire(self) -> JsonObject:
        """As a JSON object; fields that were left out stay out."""
        return self.model_dump(mode="json", exclude_none=True)


class AuditMark(WireModel):
    """A place on the audit chain. An agent that keeps it can later prove that the log was not rewritten."""

    audit_seq: int = Field(ge=0)
    head_hash: str
    """Hex SHA-256 of the chain up to and including `audit_seq`."""
