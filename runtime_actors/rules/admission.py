"""The ladder: may this invocation become a call? The first rung that fails answers (docs/protocol.md, section 4.3).

The rungs here need no record. Those that do (known call, conversation, permission, instance, bounds) are climbed inside
the transaction by `commands.calls.admit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from runtime_actors.contract import codec, envelope
from runtime_actors.contract.interactions import StandardInteractionRequest
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.rules.interactions import MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.contract.tools import ToolInvoke
    from runtime_actors.rules.inventory import Catalogue, Inventory

_QUESTION: Final[TypeAdapter[StandardInteractionRequest]] = TypeAdapter(StandardInteractionRequest)


def verdict(invoke: ToolInvoke, catalogue: Catalogue, inventory: Inventory) -> Rejection | None:
    """Revision, advertised, enabled, input: the first that does not hold, or None."""
    if invoke.inventory_revision != inventory.revision:
        return Rejection(
            code=RejectionCode.INVENTORY_REVISION_MISMATCH,
            detail=f"the inventory is at {inventory.revision}; choose the tool from that one and invoke again",
        )
    tool = catalogue.tools.get(invoke.tool_id)
    if tool is None or invoke.tool_id in inventory.hidden:
        return Rejection(code=RejectionCode.TOOL_NOT_ADVERTISED, detail="no such tool in the inventory")
    scope = tool.descriptor.target.app_scope
    if inventory.disabled & {("app", scope), ("tool", invoke.tool_id)}:
        return Rejection(code=RejectionCode.APP_DISABLED, detail=f"{invoke.tool_id} or its app is switched off")
    fault = tool.input_schema.find_fault(invoke.input)
    if fault is not None:
        return Rejection(
            code=RejectionCode.TOOL_INPUT_INVALID,
            detail=f"input of {invoke.tool_id} breaks '{fault.keyword}' at {fault.path or '/'}",
        )
    return _question_fault(invoke) if tool.descriptor.handling == "interactive" else None


def question_of(tool_id: str, given: JsonObject) -> StandardInteractionRequest:
    """What an interactive tool asks the person.

    Raises:
        pydantic.ValidationError: It is no such question.

    """
    return _QUESTION.validate_python({"kind": tool_id.rpartition(".")[2]} | given)


def _question_fault(invoke: ToolInvoke) -> Rejection | None:
    """The contract says more about a question than the schema subset can."""
    try:
        question = question_of(invoke.tool_id, invoke.input)
    except ValidationError as error:
        fault = envelope.describe(error)
    else:
        size = len(codec.encode(question.to_wire()))
        if size <= MAX_REQUEST_BYTES:
            return None
        fault = f"it takes {size} bytes; {MAX_REQUEST_BYTES} are allowed"
    return Rejection(code=RejectionCode.TOOL_INPUT_INVALID, detail=f"input of {invoke.tool_id}: {fault}")
