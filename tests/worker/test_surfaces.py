"""`sdk.surfaces`, `sdk.artifacts` and `sdk.actions`: what they say, and what apps are given."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from runtime_actors.contract.surfaces import CHUNK_BYTES
from tests.worker.runtime_end import SENT_AT, RuntimeEnd, Worker, served, spec_of

App = Callable[[str], Path]
RECORD: Final = {
    "surface_id": "srf-1", "app_scope": "echo", "instance_id": "ins-1", "conversation_id": "c-1", "kind": "board",
    "title": "A board", "state": {"a": None}, "revision": 3, "status": "open", "created_at": SENT_AT,
    "updated_at": SENT_AT,
}  # fmt: skip


def an_action(runtime: RuntimeEnd, number: int, kind: str, **action: object) -> None:
    """Message `m<number>` brings action `act-<number>`."""
    body = {"action_id": f"act-{number}", "kind": kind, **action}
    runtime.say("inbox.message", message_id=f"m{number}", number=number, kind="action", created_at=SENT_AT, action=body)


def test_a_surface_is_asked_for_read_patched_and_closed(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            asked = {"kind": "board", "title": "A board", "state": {"a": None}}
            opened = await sdk.surfaces.request_open(asked, call_id="c1", key="b1")
            record = await sdk.surfaces.get(opened.surface_id)
            (listed,) = await sdk.surfaces.list()
            late = await sdk.surfaces.update(listed.surface_id, {"a": None, "b": {"c": None}}, revision=1)
            assert (late.code, late.revision, record.state) == ("surface_stale", 3, {"a": None})
            closed = await sdk.surfaces.request_close("srf-1")
            await sdk.inbox.acknowledge(closed.code)
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        opened = runtime.hear("surfaces.open")
        runtime.say("surfaces.receipt", request_id=opened.id, accepted=True, surface_id="srf-1", revision=1)
        got = runtime.hear("surfaces.get")
        runtime.say("surfaces.surface", request_id=got.id, surface=RECORD)
        listed = runtime.hear("surfaces.list")
        shown = {name: value for name, value in RECORD.items() if name != "state"}
        runtime.say("surfaces.surfaces", request_id=listed.id, surfaces=[shown])
        updated = runtime.hear("surfaces.update")
        runtime.say(
            "surfaces.receipt", request_id=updated.id, accepted=False, surface_id="srf-1", revision=3,
            code="surface_stale", detail="",
        )  # fmt: skip
        closed = runtime.hear("surfaces.close")
        runtime.refuse(closed, "surface_closed")
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert opened.body == {
        "surface": {"kind": "board", "title": "A board", "state": {"a": None}},
        "call_id": "c1",
        "key": "b1",
    }
    assert updated.body == {"surface_id": "srf-1", "patch": {"a": None, "b": {"c": None}}, "revision": 1}
    assert closed.body == {"surface_id": "srf-1"}
    assert told.body == {"message_id": "surface_closed"}


def test_what_breaks_the_contract_is_not_sent(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        from miniapp_worker.sdk import PayloadRefused

        async def main(sdk: MiniAppSDK) -> None:
            refused = 0
            for wish in (
                lambda: sdk.surfaces.request_open({"kind": "A board", "title": "x", "state": {}}),
                lambda: sdk.surfaces.request_open({"kind": "board", "title": "x\\n", "state": {}}),
                lambda: sdk.surfaces.request_open({"kind": "board", "title": "x", "state": {"a": {1}}}),
                lambda: sdk.surfaces.update("no id!", {}),
                lambda: sdk.surfaces.update("srf-1", {"a": float("nan")}),
                lambda: sdk.surfaces.update("srf-1", {}, revision=0),
                lambda: sdk.artifacts.put("../up.svg", "image/svg+xml", b""),
                lambda: sdk.artifacts.put("a.svg", "svg", b""),
                lambda: sdk.artifacts.put("a.svg", "image/svg+xml", bytes(8 * 1024 * 1024 + 1)),
            ):
                try:
                    await wish()
                except PayloadRefused:
                    refused += 1
            await sdk.inbox.acknowledge(f"refused-{refused}")
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert told.body == {"message_id": "refused-9"}


PUTS: Final = """
    async def main(sdk: MiniAppSDK) -> None:
        content = bytes(range(256)) * 600
        receipt = await sdk.artifacts.put("a.bin", "application/octet-stream", content, "c1")
        await sdk.inbox.acknowledge(f"{receipt.accepted}-{receipt.complete}-{receipt.artifact_id}")
        await sdk.run_until_stopped()
"""
CONTENT: Final = bytes(range(256)) * 600


def test_content_goes_in_pieces_one_after_the_other(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(PUTS)):
        runtime.start_app()
        begun = runtime.hear("artifacts.begin")
        runtime.say("artifacts.receipt", request_id=begun.id, accepted=True, artifact_id="art-1", complete=False)
        pieces: list[tuple[int, bytes]] = []
        for complete in (False, True):
            assert len(pieces) < 2
            piece = runtime.hear("artifacts.chunk")
            pieces.append((piece.body["offset"], base64.b64decode(piece.body["content"])))
            runtime.say("artifacts.receipt", request_id=piece.id, accepted=True, artifact_id="art-1", complete=complete)
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert begun.body == {
        "name": "a.bin",
        "media_type": "application/octet-stream",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "call_id": "c1",
    }
    assert pieces == [(0, CONTENT[:CHUNK_BYTES]), (CHUNK_BYTES, CONTENT[CHUNK_BYTES:])]
    assert told.body == {"message_id": "True-True-art-1"}


def test_what_was_stored_before_is_not_sent_again_and_a_refusal_ends_it(runtime: RuntimeEnd, app: App) -> None:
    folder = app(PUTS)
    with served(runtime, folder):
        runtime.start_app()
        begun = runtime.hear("artifacts.begin")
        runtime.say("artifacts.receipt", request_id=begun.id, accepted=True, artifact_id="art-1", complete=True)
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)
    assert told.body == {"message_id": "True-True-art-1"}

    runtime.drop_connection()
    runtime.session = 0
    with Worker(spec_of(runtime, folder)) as worker:
        runtime.start_app()
        begun = runtime.hear("artifacts.begin")
        runtime.say("artifacts.receipt", request_id=begun.id, accepted=True, artifact_id="art-1", complete=False)
        runtime.refuse(runtime.hear("artifacts.chunk"), "artifact_not_found")
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)
        runtime.say("session.stop", reason="test", grace_ms=500)
        assert worker.wait_exit_code() == 0
    assert told.body == {"message_id": "False-False-None"}


def test_an_action_is_acknowledged_when_its_listener_is_through_and_not_if_it_raises(
    runtime: RuntimeEnd, app: App
) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            async def drawn(action):
                if action.data:
                    raise ValueError(action.data)
                await sdk.surfaces.update(action.surface_id, {"seen": action.revision})

            sdk.surfaces.subscribe(drawn)
            sdk.actions.subscribe(lambda action: None, kinds=["focus"])
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        an_action(runtime, 1, "surface.update", surface_id="srf-1", revision=2)
        updated = runtime.hear("surfaces.update")
        assert runtime.stays_quiet()
        runtime.say("surfaces.receipt", request_id=updated.id, accepted=True, surface_id="srf-1", revision=3)
        first = runtime.hear("inbox.acknowledge")
        runtime.accept(first)
        an_action(runtime, 2, "surface.ask", surface_id="srf-1", data={"what": "else"})
        an_action(runtime, 3, "close")
        assert runtime.stays_quiet()
        an_action(runtime, 4, "focus")
        second = runtime.hear("inbox.acknowledge")
        runtime.accept(second)

    assert updated.body == {"surface_id": "srf-1", "patch": {"seen": 2}}
    assert (first.body["message_id"], second.body["message_id"]) == ("m1", "m4")
