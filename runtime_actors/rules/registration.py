"""May a MiniApp be registered? Everything that can be wrong with a manifest is found here, with its path."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from pydantic import ValidationError

from runtime_actors.contract.base import check_line
from runtime_actors.contract.interactions import InteractionKind
from runtime_actors.contract.json_schema import Schema, SchemaRefused, compile_schema
from runtime_actors.contract.manifest import MiniAppManifest, ToolDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime_actors.contract.base import JsonObject

RUNTIME_VERSION: Final = "0.1.0"
SYSTEM_SCOPES: Final = frozenset({"chat"})
"""Packaged apps that may be `kind: system`."""

QUESTIONS: Final = frozenset(f"chat.{kind}" for kind in get_args(InteractionKind))
"""Tools that ask the person: their calls become interactions."""

RUNTIME_NAMES: Final = ("lineup", "runtime", "运行时")
"""In no title: what hosts draw as an app's name must not be taken for the runtime itself (docs/people.md, 2.4)."""

Fault = tuple[str, str]
"""JSON pointer into the manifest, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool whose schemas are compiled."""

    descriptor: ToolDescriptor
    input_schema: Schema
    output_schema: Schema
    fails_on_interruption: bool


@dataclass(frozen=True, slots=True)
class RegisteredApp:
    """A MiniApp that may run."""

    manifest: MiniAppManifest
    folder: str
    """Absolute."""
    tools: Mapping[str, RegisteredTool]


def register(raw: object, folder: str, *, packaged: bool) -> RegisteredApp | list[Fault]:
    """Check a manifest and compile it, or say everything that is wrong with it."""
    try:
        manifest = MiniAppManifest.model_validate(raw)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return [("/" + "/".join(str(part) for part in one["loc"]), one["msg"]) for one in found]
    faults = _app_faults(manifest, packaged=packaged)
    tools = {}
    for index, descriptor in enumerate(manifest.tools):
        at = f"/tools/{index}"
        faults += _tool_faults(manifest, descriptor, at)
        given = _compiled(descriptor.input_schema, f"{at}/input_schema", faults)
        answered = _compiled(descriptor.output_schema, f"{at}/output_schema", faults)
        if given is not None and answered is not None:
            fails = manifest.extensions.on_interruption.get(descriptor.id) == "fail"
            tools[descriptor.id] = RegisteredTool(descriptor, given, answered, fails_on_interruption=fails)
    return faults or RegisteredApp(manifest, folder, tools)


def _compiled(source: JsonObject, at: str, faults: list[Fault]) -> Schema | None:
    try:
        return compile_schema(source)
    except SchemaRefused as refused:
        faults.append((f"{at}{refused.path}", refused.reason))
        return None


def _app_faults(manifest: MiniAppManifest, *, packaged: bool) -> list[Fault]:
    faults = []
    if manifest.kind == "system" and not (packaged and manifest.app_scope in SYSTEM_SCOPES):
        faults.append(("/kind", "only the packaged chat may be 'system'; use 'bundled-reference'"))
    if _ordered(manifest.host.min_version) > _ordered(RUNTIME_VERSION):
        faults.append(("/host/min_version", f"needs a newer runtime; this is {RUNTIME_VERSION}"))
    ids = [tool.id for tool in manifest.tools]
    faults += [(f"/tools/{at}/id", f"'{one}' is there twice") for at, one in enumerate(ids) if one in ids[:at]]
    faults += _title_faults(manifest)
    faults += _scope_faults(manifest)
    declared = manifest.requested_capabilities
    faults += [
        (f"/requested_capabilities/{at}", f"'{one}' is there twice")
        for at, one in enumerate(declared)
        if one in declared[:at]
    ]
    interrupted = manifest.extensions.on_interruption
    return faults + [(f"/extensions/on_interruption/{one}", "no such tool") for one in interrupted if one not in ids]


def _title_faults(manifest: MiniAppManifest) -> list[Fault]:
    title = manifest.extensions.title
    at = "/app_scope" if title is None else "/extensions/title"
    try:
        check_line(title or "")
    except ValueError as error:
        return [(at, str(error))]
    plain = plain_title(title or manifest.app_scope)
    if not plain:
        return [(at, "needs a letter or a digit")]
    return [(at, f"'{name}' is in it, which names the runtime") for name in RUNTIME_NAMES if name in plain]


def _scope_faults(manifest: MiniAppManifest) -> list[Fault]:
    if manifest.extensions.title is None:
        return []  # then the scope is the title, and was looked at as such
    named = [one for one in manifest.app_scope.split("-") if one in RUNTIME_NAMES]
    return [("/app_scope", f"'{name}' is in it, which names the runtime") for name in named[:1]]


def plain_title(title: str) -> str:
    """What a person reads in a title at a glance: two that read the same are the same."""
    return "".join(one for one in unicodedata.normalize("NFKC", title).casefold() if one.isalnum())


def shown_title(app: RegisteredApp) -> str:
    """What hosts draw as its name."""
    return app.manifest.extensions.title or app.manifest.app_scope


def _tool_faults(manifest: MiniAppManifest, tool: ToolDescriptor, at: str) -> list[Fault]:
    faults = []
    target = tool.target
    if not tool.id.startswith(f"{manifest.app_scope}."):
        faults.append((f"{at}/id", f"must start with '{manifest.app_scope}.'"))
    if target.app_scope != manifest.app_scope:
        faults.append((f"{at}/target/app_scope", f"must be '{manifest.app_scope}'"))
    faults += [
        (f"{at}/permissions/{index}", "is not among requested_capabilities")
        for index, one in enumerate(tool.permissions)
        if one not in manifest.requested_capabilities
    ]
    if tool.handling == "interactive" and (manifest.kind != "system" or tool.id not in QUESTIONS):
        faults.append(
            (f"{at}/handling", "'interactive' is kept for the runtime's own notice, choice, confirm and input")
        )
    takes_front = tool.handling in {"launch", "foreground"}
    if takes_front and not target.requires_foreground:
        faults.append((f"{at}/target/requires_foreground", f"must be true: '{tool.handling}' takes the front"))
    if tool.handling == "direct" and target.requires_foreground:
        faults.append((f"{at}/target/requires_foreground", "must be false: 'direct' leaves the focus alone"))
    if target.restore_previous_focus and not target.requires_foreground:
        faults.append((f"{at}/target/restore_previous_focus", "must be false: this tool never takes the front"))
    return faults


def without_twins(apps: Iterable[RegisteredApp]) -> tuple[list[RegisteredApp], list[RegisteredApp]]:
    """Those with a scope of their own, and those whose scope an earlier one already has."""
    kept: dict[str, RegisteredApp] = {}
    twins = []
    for app in apps:
        if app.manifest.app_scope in kept:
            twins.append(app)
        else:
            kept[app.manifest.app_scope] = app
    return list(kept.values()), twins


def without_namesakes(apps: Iterable[RegisteredApp]) -> tuple[list[RegisteredApp], list[RegisteredApp]]:
    """Those with a title of their own, and those whose title reads like an earlier one's."""
    kept: dict[str, RegisteredApp] = {}
    namesakes = []
    for app in apps:
        title = plain_title(shown_title(app))
        if title in kept:
            namesakes.append(app)
        else:
            kept[title] = app
    return list(kept.values()), namesakes


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-", maxsplit=1)[0].split("+", maxsplit=1)[0].split("."))
