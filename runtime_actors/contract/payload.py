"""What one input, result or `data` may be: less than a frame may hold, so that it fits every frame it must leave in."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator

from runtime_actors.contract import codec
from runtime_actors.contract.base import (
    MAX_PAYLOAD_BYTES,
    MAX_PAYLOAD_DEPTH,
    MAX_PAYLOAD_NODES,
    MAX_SIDE_BYTES,
    JsonObject,
)

_MAX_SIDE_NODES: Final = 1_000


def canonical(payload: JsonObject) -> bytes:
    """The canonical form of an input or a result.

    Raises:
        codec.IntakeError: It is too large, too deep, has too many nodes, or breaks the intake rule.

    """
    return _bounded(payload, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_NODES)


def check_side(data: JsonObject) -> JsonObject:
    """`data` of a progress report, a failure or a text.

    Raises:
        ValueError: As in `canonical`, with smaller bounds.

    """
    _bounded(data, MAX_SIDE_BYTES, _MAX_SIDE_NODES)
    return data


SideData = Annotated[JsonObject, AfterValidator(check_side)]


def node_count(value: JsonObject | list[Any]) -> int:
    """Values in it, as the intake rule counts them."""
    nodes = 1
    level: list[dict[str, Any] | list[Any]] = [value]
    while level:
        children = [child for one in level for child in (one.values() if isinstance(one, dict) else one)]
        nodes += len(children)
        level = [child for child in children if isinstance(child, (dict, list))]
    return nodes


def _bounded(payload: JsonObject, most_bytes: int, most_nodes: int) -> bytes:
    frame = codec.encode(payload)
    if len(frame) > most_bytes:
        raise codec.IntakeError(codec.MESSAGE_TOO_LARGE, f"it takes {len(frame)} bytes; {most_bytes} are allowed")
    nodes, depth = 1, 1
    level: list[dict[str, Any] | list[Any]] = [payload]
    while level:  # breadth first, a level a round
        children = [child for one in level for child in (one.values() if isinstance(one, dict) else one)]
        nodes += len(children)
        level = [child for child in children if isinstance(child, (dict, list))]
        depth += bool(level)
    if depth > MAX_PAYLOAD_DEPTH:
        raise codec.IntakeError(codec.MESSAGE_INVALID, f"it is {depth} deep; {MAX_PAYLOAD_DEPTH} is allowed")
    if nodes > most_nodes:
        raise codec.IntakeError(codec.MESSAGE_TOO_LARGE, f"it has {nodes} values; {most_nodes} are allowed")
    return frame
