"""Every fault of a manifest, with the JSON pointer it is reported under."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import pytest

from runtime_actors.rules.registration import RUNTIME_VERSION, RegisteredApp, register, without_namesakes, without_twins
from tests.fakes import BOARD, CATALOGUE, GUARDED, NOTES, SCREEN, a_manifest, a_tool, an_app

Json = dict[str, Any]


def target(*, front: bool, restore: bool, scope: str = "notes") -> Json:
    return {"app_scope": scope, "requires_foreground": front, "restore_previous_focus": restore}


def notes(*tools: Json, **changes: Any) -> Json:  # noqa: ANN401 - JSON
    return a_manifest("notes", *(tools or (a_tool("notes.write"),)), **changes)


def without(manifest: Json, name: str) -> Json:
    return {key: value for key, value in manifest.items() if key != name}


def schema(**changes: Any) -> Json:  # noqa: ANN401 - JSON
    return {"type": "object", "properties": {"text": {"type": "string"} | changes}}


FAULTS: Final[dict[str, tuple[Any, set[str]]]] = {
    "no object": ([], {"/"}),
    "no app_scope": (without(notes(), "app_scope"), {"/app_scope"}),
    "an unknown field": (notes(author="me"), {"/author"}),
    "a scope of other characters": (notes() | {"app_scope": "Notes"}, {"/app_scope"}),
    "a version that is none": (notes(version="1"), {"/version"}),
    "an unknown kind": (notes(kind="plugin"), {"/kind"}),
    "system, which only the packaged chat may be": (notes(kind="system"), {"/kind"}),
    "a newer runtime needed": (notes(host={"min_version": "99.0.0", "surface_required": False}), {"/host/min_version"}),
    "host without surface_required": (notes(host={"min_version": "0.1.0"}), {"/host/surface_required"}),
    "a foreign tool id": (
        notes(a_tool("other.write", target=target(front=False, restore=False))),
        {"/tools/0/id"},
    ),
    "a scope that only begins like its own": (
        notes(a_tool("notes-2.write", target=target(front=False, restore=False))),
        {"/tools/0/id"},
    ),
    "a foreign target": (
        notes(a_tool("notes.write", target=target(front=False, restore=False, scope="other"))),
        {"/tools/0/target/app_scope"},
    ),
    "a tool id that is none": (notes(a_tool("notes.write") | {"id": "notes"}), {"/tools/0/id"}),
    "one id twice": (notes(a_tool("notes.write"), a_tool("notes.write")), {"/tools/1/id"}),
    "a descriptor of another version": (notes(a_tool("notes.write", version=2)), {"/tools/0/version"}),
    "no title": (notes(without(a_tool("notes.write"), "title")), {"/tools/0/title"}),
    "an unknown handling": (notes(a_tool("notes.write") | {"handling": "magic"}), {"/tools/0/handling"}),
    "interactive, which is the runtime's own": (
        notes(a_tool("notes.write", handling="interactive")), {"/tools/0/handling"}
    ),
    "launch that stays behind": (
        notes(a_tool("notes.write", handling="launch", target=target(front=False, restore=False))),
        {"/tools/0/target/requires_foreground"},
    ),
    "foreground that stays behind and restores": (
        notes(a_tool("notes.write", handling="foreground", target=target(front=False, restore=True))),
        {"/tools/0/target/requires_foreground", "/tools/0/target/restore_previous_focus"},
    ),
    "direct that takes the front": (
        notes(a_tool("notes.write", handling="direct", target=target(front=True, restore=False))),
        {"/tools/0/target/requires_foreground"},
    ),
    "a focus to restore that was never taken": (
        notes(a_tool("notes.write", handling="operation", target=target(front=False, restore=True))),
        {"/tools/0/target/restore_previous_focus"},
    ),
    "a permission that was not requested": (
        notes(a_tool("notes.write", permissions=["files.read"])), {"/tools/0/permissions/0"}
    ),
    "a time-out of nothing": (notes(a_tool("notes.write", timeout_ms=0)), {"/tools/0/timeout_ms"}),
    "a time-out as a string": (notes(a_tool("notes.write", timeout_ms="60000")), {"/tools/0/timeout_ms"}),
    "a forbidden keyword": (
        notes(a_tool("notes.write", input_schema=schema(pattern="a+"))),
        {"/tools/0/input_schema/properties/text/pattern"},
    ),
    "a forbidden type in the output": (
        notes(a_tool("notes.write", output_schema=schema(type="integer"))),
        {"/tools/0/output_schema/properties/text/type"},
    ),
    "a reference": (
        notes(a_tool("notes.write", input_schema={"type": "object", "$ref": "#"})), {"/tools/0/input_schema/$ref"}
    ),
    "a root that is no object": (
        notes(a_tool("notes.write", input_schema={"type": "string"})), {"/tools/0/input_schema/type"}
    ),
    "additional properties": (
        notes(a_tool("notes.write", input_schema={"type": "object", "additionalProperties": True})),
        {"/tools/0/input_schema/additionalProperties"},
    ),
    "another subscription": (notes(subscriptions=[{"type": "lineup.v1.tool.invoke"}]), {"/subscriptions/0/type"}),
    "an unknown extension": (notes(extensions={"colour": "red"}), {"/extensions/colour"}),
    "on_interruption of an unknown tool": (
        notes(extensions={"on_interruption": {"notes.unknown": "fail"}}), {"/extensions/on_interruption/notes.unknown"}
    ),
    "on_interruption with an unknown word": (
        notes(extensions={"on_interruption": {"notes.write": "retry"}}), {"/extensions/on_interruption/notes.write"}
    ),
    "a run environment that is not here": (notes(extensions={"run_env": "browser"}), {"/extensions/run_env"}),
    "no memory": (notes(extensions={"limits": {"memory_mb": 1}}), {"/extensions/limits/memory_mb"}),
    "everything at once": (
        notes(
            a_tool("other.write", permissions=["files.read"], input_schema=schema(format="date")),
            kind="system",
        ),
        {
            "/kind",
            "/tools/0/id",
            "/tools/0/target/app_scope",
            "/tools/0/permissions/0",
            "/tools/0/input_schema/properties/text/format",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_manifest_is_refused_with_the_place_of_each_fault(name: str) -> None:
    raw, places = FAULTS[name]
    before = deepcopy(raw)

    found = register(raw, "/apps/notes", packaged=False)

    assert isinstance(found, list)
    assert {place for place, _ in found} == places
    assert all(reason for _, reason in found)
    assert raw == before


@pytest.mark.parametrize("manifest", [BOARD, NOTES, GUARDED, SCREEN], ids=lambda one: one["app_scope"])
def test_a_manifest_that_holds_is_registered_with_compiled_schemas(manifest: Json) -> None:
    app = register(manifest, "/apps/one", packaged=False)

    assert isinstance(app, RegisteredApp)
    assert set(app.tools) == {tool["id"] for tool in manifest["tools"]}
    for tool in app.tools.values():
        assert tool.input_schema.find_fault({"text": "a"}) is None
        assert tool.output_schema.find_fault({}) is not None


def test_only_the_packaged_chat_may_be_system() -> None:
    chat = a_manifest("chat", kind="system")

    assert isinstance(register(chat, "/apps/chat", packaged=True), RegisteredApp)
    assert isinstance(register(chat, "/apps/chat", packaged=False), list)
    assert isinstance(register(notes(kind="system"), "/apps/notes", packaged=True), list)


@pytest.mark.parametrize("version", [RUNTIME_VERSION, "0.0.9", "0.0.99-rc.1"])
def test_this_runtime_is_new_enough_for_apps_that_need_no_newer_one(version: str) -> None:
    made = notes(host={"min_version": version, "surface_required": False})

    assert isinstance(register(made, "/apps/notes", packaged=False), RegisteredApp)


@pytest.mark.parametrize("version", ["0.1.1", "0.10.0", "1.0.0"])
def test_versions_are_compared_as_numbers(version: str) -> None:
    made = notes(host={"min_version": version, "surface_required": False})

    assert isinstance(register(made, "/apps/notes", packaged=False), list)


def test_only_the_tools_that_say_so_fail_on_interruption() -> None:
    tools = CATALOGUE.apps["notes"].tools

    assert (tools["notes.once"].fails_on_interruption, tools["notes.write"].fails_on_interruption) == (True, False)


def test_of_two_apps_with_one_scope_the_first_stays() -> None:
    first, second, other = an_app(NOTES), an_app(NOTES), an_app(BOARD)

    kept, twins = without_twins([first, other, second])

    assert [id(one) for one in kept] == [id(first), id(other)]
    assert [id(one) for one in twins] == [id(second)]


@pytest.mark.parametrize(
    "title",
    [
        "LineUp",
        "The Line-Up board",
        "Runtime",
        "\uff32untime 2",
        "运行时",
        "r.u.n.t.i.m.e",
        "Two\nlines",
        "Hidden\u202ename",
        "★",
    ],
)
def test_a_title_that_names_the_runtime_or_hides_something_is_refused(title: str) -> None:
    found = register(notes(extensions={"title": title}), "/apps/notes", packaged=False)

    assert isinstance(found, list)
    assert {place for place, _ in found} == {"/extensions/title"}


def test_without_a_title_the_scope_must_not_name_the_runtime_either() -> None:
    found = register(a_manifest("lineup-tools"), "/apps/one", packaged=False)

    assert isinstance(found, list)
    assert {place for place, _ in found} == {"/app_scope"}


@pytest.mark.parametrize("scope", ["runtime", "lineup", "my-runtime", "lineup-tools", "a-lineup-b"])
def test_a_scope_that_names_the_runtime_is_refused_whatever_the_title(scope: str) -> None:
    found = register(a_manifest(scope, extensions={"title": "Tools"}), "/apps/one", packaged=False)

    assert isinstance(found, list)
    assert {place for place, _ in found} == {"/app_scope"}


def test_a_scope_in_which_the_runtimes_name_is_no_part_of_its_own_may_be_used() -> None:
    found = register(a_manifest("lineups", extensions={"title": "Queues"}), "/apps/one", packaged=False)

    assert isinstance(found, RegisteredApp)


def test_a_capability_is_declared_once() -> None:
    found = register(notes(requested_capabilities=["notify", "print", "notify"]), "/apps/notes", packaged=False)

    assert isinstance(found, list)
    assert {place for place, _ in found} == {"/requested_capabilities/2"}


def test_a_manifest_may_declare_what_is_never_granted() -> None:
    found = register(notes(requested_capabilities=["microphone", "camera"]), "/apps/notes", packaged=False)

    assert isinstance(found, RegisteredApp)


def test_of_two_apps_whose_titles_read_the_same_the_first_stays() -> None:
    first = an_app(a_manifest("one", extensions={"title": "Task Dashboard"}))
    second = an_app(a_manifest("two", extensions={"title": "task-dashboard"}))
    third = an_app(a_manifest("task-dashboard"))
    other = an_app(NOTES)

    kept, namesakes = without_namesakes([first, second, other, third])

    assert [id(one) for one in kept] == [id(first), id(other)]
    assert [id(one) for one in namesakes] == [id(second), id(third)]
