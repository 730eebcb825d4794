"""Manifests and switches make one inventory, whose revision names its content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime_actors.contract import codec
from runtime_actors.contract.agent import AdvertisedApp, AdvertisedTool, ClientInventory
from runtime_actors.rules.policy import NO_RULES, Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime_actors.rules.registration import RegisteredApp, RegisteredTool


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What is registered in this run of the daemon. Switches are records; this is not."""

    apps: Mapping[str, RegisteredApp]
    tools: Mapping[str, RegisteredTool]

    @classmethod
    def of(cls, apps: Iterable[RegisteredApp]) -> Catalogue:
        """Index them."""
        by_scope = {app.manifest.app_scope: app for app in apps}
        return cls(by_scope, {name: tool for app in by_scope.values() for name, tool in app.tools.items()})


@dataclass(frozen=True, slots=True)
class Inventory:
    """What agents may use now."""

    revision: str
    wire: ClientInventory
    disabled: frozenset[tuple[str, str]]
    """("app" or "tool", name): registered, but switched off."""
    hidden: frozenset[str] = frozenset()
    """Tools that policy denies to everyone: nobody is told of them."""


def build(catalogue: Catalogue, disabled: frozenset[tuple[str, str]], policy: Policy = NO_RULES) -> Inventory:
    """The inventory of what is enabled and not denied to everyone. The same content has the same revision."""
    apps, tools = [], []
    capabilities: set[str] = set()
    hidden = frozenset(
        name for name, tool in catalogue.tools.items() if policy.hides_tool(tool.descriptor.target.app_scope, name)
    )
    for scope, app in sorted(catalogue.apps.items()):
        if ("app", scope) in disabled or policy.hides_app(scope, tuple(app.tools)):
            continue
        apps.append(AdvertisedApp(app_scope=scope, version=app.manifest.version, kind=app.manifest.kind))
        capabilities.update(app.manifest.requested_capabilities)
        for name, tool in sorted(app.tools.items()):
            if ("tool", name) not in disabled and name not in hidden:
                tools.append(_advertised(tool))
    wire = ClientInventory(revision="", apps=tuple(apps), tools=tuple(tools), capabilities=tuple(sorted(capabilities)))
    revision = "r-" + codec.digest(wire.to_wire()).hex()[:16]
    return Inventory(revision, wire.model_copy(update={"revision": revision}), disabled, hidden)


def _advertised(tool: RegisteredTool) -> AdvertisedTool:
    one = tool.descriptor
    return AdvertisedTool(
        id=one.id,
        version=one.version,
        title=one.title,
        description=one.description,
        app_scope=one.target.app_scope,
        handling=one.handling,
        input_schema=one.input_schema,
        output_schema=one.output_schema,
        timeout_ms=one.timeout_ms,
    )
