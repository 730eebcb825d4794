"""`sdk.capabilities`: what it asks, how it waits for a person, and what a process that comes later is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runtime_actors.contract.envelope import Envelope
from tests.worker.runtime_end import SENT_AT, RuntimeEnd, served

App = Callable[[str], Path]


def receipt(runtime: RuntimeEnd, request: Envelope, decision: str, *, accepted: bool = True, **more: object) -> None:
    runtime.say("capabilities.receipt", request_id=request.id, accepted=accepted, decision=decision, **more)


def decided(runtime: RuntimeEnd, number: int, grant_id: str, decision: str) -> None:
    """Message `m<number>`: what a person said."""
    body = {"capability": "notify", "decision": decision, "grant_id": grant_id}
    runtime.say(
        "inbox.message",
        message_id=f"m{number}",
        number=number,
        kind="capability",
        created_at=SENT_AT,
        capability=body,
    )


ASKS = """
    async def main(sdk: MiniAppSDK) -> None:
        receipt = await sdk.capabilities.ask("notify", "you wanted to know", {"at": "noon"})
        await sdk.inbox.acknowledge(f"{receipt.accepted}-{receipt.decision}-{receipt.grant_id}-{receipt.code}")
        await sdk.run_until_stopped()
"""


def test_what_is_asked_for_and_what_is_answered(runtime: RuntimeEnd, app: App) -> None:
    folder = app(ASKS)
    with served(runtime, folder):
        runtime.start_app()
        asked = runtime.hear("capabilities.request")
        receipt(runtime, asked, "granted", grant_id="gra-1")
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert asked.body == {"capability": "notify", "reason": "you wanted to know", "arguments": {"at": "noon"}}
    assert told.body == {"message_id": "True-granted-gra-1-None"}


def test_a_yes_is_waited_for_acknowledged_and_made_use_of(runtime: RuntimeEnd, app: App) -> None:
    folder = app(ASKS)
    with served(runtime, folder):
        runtime.start_app()
        first = runtime.hear("capabilities.request")
        receipt(runtime, first, "asking", grant_id="gra-1")
        decided(runtime, 1, "gra-7", "denied")
        decided(runtime, 2, "gra-1", "granted")
        acknowledged = runtime.hear("inbox.acknowledge")
        runtime.accept(acknowledged)
        again = runtime.hear("capabilities.request")
        receipt(runtime, again, "granted", grant_id="gra-1")
        older = runtime.hear("inbox.acknowledge")
        runtime.accept(older)
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert acknowledged.body == {"message_id": "m2"}
    assert again.body == first.body
    assert again.id != first.id
    assert older.body == {"message_id": "m1"}
    assert told.body == {"message_id": "True-granted-gra-1-None"}


def test_a_no_is_waited_for_and_not_asked_again(runtime: RuntimeEnd, app: App) -> None:
    folder = app(ASKS)
    with served(runtime, folder):
        runtime.start_app()
        receipt(runtime, runtime.hear("capabilities.request"), "asking", grant_id="gra-1")
        decided(runtime, 1, "gra-1", "denied")
        runtime.accept(runtime.hear("inbox.acknowledge"))
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert told.body == {"message_id": "False-denied-gra-1-permission_declined"}


ASKS_TWICE = """
    import asyncio

    async def main(sdk: MiniAppSDK) -> None:
        async def ask(number: int) -> None:
            receipt = await sdk.capabilities.ask("notify", "you wanted to know")
            await sdk.inbox.acknowledge(f"{number}-{receipt.decision}")

        first = asyncio.create_task(ask(1))
        second = asyncio.create_task(ask(2))
        await asyncio.gather(first, second)
        await sdk.run_until_stopped()
"""


def test_who_begins_to_wait_when_the_answer_was_handed_out_is_told_as_well(runtime: RuntimeEnd, app: App) -> None:
    folder = app(ASKS_TWICE)
    with served(runtime, folder):
        runtime.start_app()
        first, second = runtime.hear("capabilities.request"), runtime.hear("capabilities.request")
        receipt(runtime, first, "asking", grant_id="gra-1")
        decided(runtime, 1, "gra-1", "denied")
        settled = runtime.hear("inbox.acknowledge")
        runtime.accept(settled)
        done = runtime.hear("inbox.acknowledge")
        runtime.accept(done)
        receipt(runtime, second, "asking", grant_id="gra-1")
        also = runtime.hear("inbox.acknowledge")
        runtime.accept(also)

    assert settled.body == {"message_id": "m1"}
    assert (done.body, also.body) == ({"message_id": "1-denied"}, {"message_id": "2-denied"})


def test_a_denial_and_another_refusal_are_told_apart(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            denied = await sdk.capabilities.request("notify", "why not")
            busy = await sdk.capabilities.request("notify", "why not")
            await sdk.inbox.acknowledge(f"{denied.decision}-{denied.code}-{busy.decision}-{busy.code}")
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        receipt(runtime, runtime.hear("capabilities.request"), "denied", accepted=False, code="capability_denied")
        runtime.refuse(runtime.hear("capabilities.request"), "busy")
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert told.body == {"message_id": "denied-capability_denied-None-busy"}


def test_what_a_person_said_to_an_earlier_process_is_given_to_who_subscribes(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            told = asyncio.Queue()
            sdk.capabilities.subscribe(told.put)
            decision = await told.get()
            await sdk.inbox.acknowledge(f"{decision.capability}-{decision.decision}-{decision.grant_id}")
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        decided(runtime, 1, "gra-1", "granted")
        acknowledged = runtime.hear("inbox.acknowledge")
        runtime.accept(acknowledged)
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert acknowledged.body == {"message_id": "m1"}
    assert told.body == {"message_id": "notify-granted-gra-1"}


def test_a_reason_of_two_lines_is_not_sent(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            try:
                await sdk.capabilities.request("notify", "one line\\nand another")
            except PayloadRefused as refused:
                await sdk.inbox.acknowledge(refused.code)
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        told = runtime.hear("inbox.acknowledge")
        runtime.accept(told)

    assert told.body == {"message_id": "message_invalid"}


def test_a_request_that_came_too_soon_is_made_again(runtime: RuntimeEnd, app: App) -> None:
    folder = app(ASKS)
    with served(runtime, folder):
        runtime.start_app()
        first = runtime.hear("capabilities.request")
        runtime.refuse(first, "rate_exceeded")
        again = runtime.hear("capabilities.request")
        receipt(runtime, again, "granted")
        runtime.accept(runtime.hear("inbox.acknowledge"))

    assert again == first
