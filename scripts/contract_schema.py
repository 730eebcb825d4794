"""Write the JSON Schemas of all message types, and of the manifest, into docs/schema/.

.venv/bin/python scripts/contract_schema.py            write them
.venv/bin/python scripts/contract_schema.py --check    exit 1 if a file is not what the models say
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from runtime_actors.contract.envelope import Envelope
from runtime_actors.contract.manifest import MiniAppManifest
from runtime_actors.contract.protocol import KINDS, MessageKind
from runtime_actors.gateway.peers import NEEDS_CONVERSATION

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MANIFEST = "manifest.schema.json"
README = """# JSON Schemas

Written by `scripts/contract_schema.py` from the models in `runtime_actors/contract/`; a test fails when they drift.
One file a message type, envelope and body together (draft 2020-12); `manifest.schema.json` is for MiniApps.

`in` is what the runtime is told, and unknown fields are refused there. `out` is what it says, and may one day hold more
fields, so those schemas allow them. A schema says nothing of sizes in bytes, of depth, or of what a value means:
[the protocol](../protocol.md) does.

| type | direction | doors |
|---|---|---|
"""


def message_schema(name: str, kind: MessageKind) -> dict[str, Any]:
    """Envelope and body of one type."""
    schema, body = _plain(Envelope.model_json_schema()), _plain(kind.body.model_json_schema())
    definitions = schema.pop("$defs", {}) | body.pop("$defs", {})
    schema["description"] = body.pop("description", "")
    schema["properties"] |= {"v": {"const": 1}, "type": {"const": name}, "body": body}
    if name in NEEDS_CONVERSATION:
        schema["properties"]["conversation_id"] = schema["properties"]["conversation_id"]["anyOf"][0]
        schema["required"].append("conversation_id")
    whole: dict[str, Any] = {"$schema": DIALECT, "$id": f"{name}.json", "title": name} | schema | {"$defs": definitions}
    opened: dict[str, Any] = _open(whole)
    return opened if kind.direction == "out" else whole


def files() -> dict[str, str]:
    """Every file of the folder by name."""
    made = {f"{name}.json": message_schema(name, kind) for name, kind in KINDS.items()}
    made[MANIFEST] = {"$schema": DIALECT, "$id": MANIFEST, "title": "manifest v1"}
    made[MANIFEST] |= _plain(MiniAppManifest.model_json_schema())
    texts = {name: json.dumps(one, indent=1, sort_keys=True, ensure_ascii=False) + "\n" for name, one in made.items()}
    rows = [f"| [`{name}`]({name}.json) | {kind.direction} | {', '.join(kind.doors)} |" for name, kind in KINDS.items()]
    return texts | {"README.md": README + "\n".join(rows) + f"\n\nManifest: [`{MANIFEST}`]({MANIFEST}).\n"}


def _plain(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Without the titles that pydantic makes of names."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema


def _open(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """With room for fields that are not known yet."""
    if isinstance(schema, dict):
        closed = schema.get("additionalProperties") is False
        return {key: _open(value) for key, value in schema.items() if not (closed and key == "additionalProperties")}
    return [_open(one) for one in schema] if isinstance(schema, list) else schema


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Write the JSON Schemas of all message types into docs/schema/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file has drifted")
    made = files()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*")}
    drifted = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    if parser.parse_args().check:
        for name in drifted:
            print(f"docs/schema/{name} is not what the models say: run scripts/contract_schema.py", file=sys.stderr)
        return 1 if drifted else 0
    FOLDER.mkdir(exist_ok=True)
    for name in drifted:
        if name in made:
            (FOLDER / name).write_text(made[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
