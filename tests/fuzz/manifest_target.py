"""Manifests: as a value, as a file on the disk, and as folders in which somebody put strange things."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final, TypeGuard

from runtime_actors import registry
from runtime_actors.contract import codec
from runtime_actors.contract.manifest import MiniAppManifest
from runtime_actors.errors import AppRefused
from runtime_actors.rules import inventory
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.rules.registration import RegisteredApp, register
from tests.fuzz.schema_target import _a_schema, _spoilt
from tests.fuzz.shapes import Shape, spoil
from tests.fuzz.source import Source
from tests.fuzz.target import ACCEPTED, Input, Stateless, expect
from tests.golden_files import manifests

REFUSED: Final = "manifest_invalid"
_VERSIONS: Final = ("1.0.0", "0.1.0", "0.1.0-a.b", "0.1.1", "999999.0.0", "1.0", "1.0.0+", "\u0661.\u0662.\u0663",
                    "1.0.\U00011f50", "0.0.\U0001e4f1", "-1.0.0", "1.0.0\n", 1)  # fmt: skip
_POOLS: Final[dict[str, Any]] = {
    "app_scope": ("desk", "other", "desk.", "Desk", "d" * 65, "chat"),
    "id": ("desk.write", "desk.x", "other.write", "desk.", ".x", "desk.write"),
    "version": (*_VERSIONS, 1, 2),
    "min_version": _VERSIONS,
    "kind": ("bundled-reference", "bundled-reference", "system", "x"),
    "type": ("lineup.v1.message", "lineup.v1.tool.call"),
    "permissions": ([], ["files.read"], ["x"] * 33),
    "requested_capabilities": ([], ["files.read"], ["x"] * 65),
    "timeout_ms": (1, 0, 604_800_000, 604_800_001, 1.0, True),
    "input_schema": lambda source: _a_schema(source, 2),
    "output_schema": lambda source: _spoilt(source, _a_schema(source, 2)),
}
_PLACES: Final = (
    "file",
    "pipe",
    "folder",
    "loop",
    "dangling",
    "closed",
    "no app",
    "app is a folder",
    "app loop",
    "deep",
)


class ManifestTarget(Stateless):
    """`rules.registration` and `registry`. `to` is `value`, or how the file lies on the disk."""

    name = "manifest"

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="lu-")
        self._shape = Shape(MiniAppManifest)
        self._good = [one.manifest for one in manifests()]

    def make(self, source: Source) -> Input:
        kind = source.random.random()
        tree: Any = copy.deepcopy(source.pick(self._good)) if kind < 0.7 else self._shape.body(source, _POOLS)
        for _ in range(source.below(4)):
            inner = tree.get("tools") if isinstance(tree, dict) else None
            spoil(source, source.pick(inner) if _is_tools(inner) and source.chance(0.5) else tree, _POOLS)
        text = json.dumps(tree, default=str).encode()
        if kind > 0.97:
            text = source.pick((b"", b"[" * 100_000, b'{"a":' * 60_000, b"1" * 5000, b'{"a":1e999}', b"NaN", b"{}",
                                b"\xff\xfe{\0}\0", text.decode().encode("utf-16"), b"\xef\xbb\xbf" + text,
                                text + b" " * 1024 * 1024, b'{"a":1,"a":2}'))  # fmt: skip
        elif kind > 0.9:
            text = source.broken(text, 2)
        return Input(text, source.pick(_PLACES) if source.chance(0.2) else source.pick(("value", "value", "file")))

    def feed(self, one: Input) -> str:
        if one.to == "value":
            return self._as_value(one.data)
        folder = Path(self._folder.name) / "apps" / "one"
        _lay(folder, one.to, one.data)
        try:
            apps, refused = self.cost.of(registry.load, [folder.parent if one.to == "deep" else folder])
        finally:
            shutil.rmtree(folder.parent)
        expect(all(isinstance(each, AppRefused) for each in refused), "it was refused by something else")
        if refused:
            expect(all(each.faults and str(each) for each in refused), "a refusal says nothing")
            return REFUSED
        expect(one.to in {"file", "deep"}, "it was registered, and there is no such app")
        return _advertised(apps)

    def _as_value(self, text: bytes) -> str:
        try:
            raw = json.loads(text)
            codec.check({"manifest": raw})
        except (ValueError, RecursionError):
            return "no value"
        found = self.cost.of(register, raw, "/apps/one", packaged=False)
        if isinstance(found, RegisteredApp):
            return _advertised(Catalogue.of([found]))
        expect(
            found and all(path.startswith("/") and reason for path, reason in found), "a fault has no path or reason"
        )
        return REFUSED

    def close(self) -> None:
        self._folder.cleanup()


def _is_tools(inner: object) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(inner, list) and bool(inner) and all(one and isinstance(one, dict) for one in inner)


def _advertised(apps: Catalogue) -> str:
    """What was registered can be shown to agents, under its own name, and asks for nothing that it was not given."""
    for scope, app in apps.apps.items():
        manifest = app.manifest
        expect(manifest.kind != "system" or scope == "chat", "an app became a system app")
        for name, tool in app.tools.items():
            descriptor = tool.descriptor
            expect(name.partition(".")[0] == scope == descriptor.target.app_scope, "a tool speaks for another app")
            expect(set(descriptor.permissions) <= set(manifest.requested_capabilities), "it has more than it asked for")
        expect(len(app.tools) == len(manifest.tools), "a tool got lost")
    wire = inventory.build(apps, frozenset()).wire.to_wire()
    codec.encode({"body": wire})
    return ACCEPTED


def _lay(folder: Path, how: str, text: bytes) -> None:
    """Put an app there, in its way."""
    folder.mkdir(parents=True)
    manifest, app = folder / registry.MANIFEST, folder / "app.py"
    match how:
        case "pipe":
            os.mkfifo(manifest)
        case "folder":
            manifest.mkdir()
        case "loop":
            manifest.symlink_to(manifest)
        case "dangling":
            manifest.symlink_to("nowhere")
        case "closed":
            manifest.symlink_to("/proc/self/mem")
        case _:
            manifest.write_bytes(text)
    match how:
        case "no app":
            pass
        case "app is a folder":
            app.mkdir()
        case "app loop":
            app.symlink_to(app)
        case _:
            app.write_text("async def main(sdk): ...\n")
