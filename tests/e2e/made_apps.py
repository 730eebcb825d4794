"""MiniApps that a test writes into a folder of its own, because what is wrong with them is the point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_TEXT: Final = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {"text": {"type": "string"}},
}
SERVES: Final = """
async def main(sdk):
    @sdk.tools.handler(sdk.context.app_scope + ".go")
    async def go(call):
        return {"text": call.input["text"]}

    await sdk.run_until_stopped()
"""
"""Says back what it is given."""


def a_tool(tool_id: str, scope: str, **changes: object) -> dict[str, Any]:
    """A tool that takes and gives a text."""
    target = {"app_scope": scope, "requires_foreground": False, "restore_previous_focus": False}
    tool = {"id": tool_id, "version": 1, "title": "Go", "description": "Go.", "handling": "direct", "target": target}
    return tool | {"input_schema": _TEXT, "output_schema": _TEXT} | changes


def write_app(
    folder: Path, scope: str, code: str = SERVES, *, tools: list[dict[str, Any]] | None = None, **changes: object
) -> Path:
    """Write a MiniApp with the tool `SCOPE.go` into `folder`; that folder."""
    manifest = {
        "app_scope": scope,
        "version": "1.0.0",
        "kind": "bundled-reference",
        "tools": [a_tool(f"{scope}.go", scope)] if tools is None else tools,
        "subscriptions": [],
        "requested_capabilities": [],
        "host": {"min_version": "0.1.0", "surface_required": False},
    }
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    (folder / "app.py").write_text(code)
    return folder
