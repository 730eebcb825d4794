"""The golden files at the worker's end: the SDK reads what the runtime says there, and says what is written there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from miniapp_worker.layers import Applied, Confinement
from miniapp_worker.main import ExitCode
from runtime_actors.contract import codec, envelope
from tests.golden_files import WORKER_TOKEN, Case, every_case, story
from tests.worker.runtime_end import ATTEMPT, TOKEN, RuntimeEnd, Worker, spec_of

App = Callable[[str], Path]

DESK: Final = """
    async def main(sdk: MiniAppSDK) -> None:
        texts: asyncio.Queue[MiniAppMessage] = asyncio.Queue()
        calls: asyncio.Queue[MiniAppToolCall] = asyncio.Queue()
        changes: asyncio.Queue[MiniAppToolCall] = asyncio.Queue()
        sdk.inbox.subscribe(texts.put)
        sdk.tools.subscribe(calls.put)
        sdk.tools.subscribe_changes(changes.put)

        call, text = await calls.get(), await texts.get()
        assert [message.number for message in await sdk.inbox.list()] == [1, 2]
        assert [message.number for message in await sdk.inbox.list(call.message_id)] == [2]
        assert text.message == AgentText(text="hello", data={"mood": "good"})
        assert (await sdk.inbox.acknowledge(text.message_id)).accepted
        assert (await sdk.inbox.acknowledge("m99")).code == "message_not_found"
        assert await sdk.tools.get(call.call_id) is call
        assert await sdk.tools.get("c9") is None
        receipt = await sdk.tools.report_progress(call.call_id, percent=12.5, note="half way", data={"step": 1})
        assert receipt.accepted and call.status == "running"
        assert (await sdk.tools.report_progress("c9", percent=50.0)).code == "call_not_found"
        assert (await sdk.tools.complete(call.call_id, {"ok": "yes"})).code == "tool_output_invalid"
        assert not call.is_final
        assert (await sdk.tools.complete(call.call_id, {"ok": True})).accepted
        assert call.status == "completed"
        assert (await sdk.tools.complete(call.call_id, {"ok": True})).accepted
        assert (await sdk.tools.complete(call.call_id, {"ok": False})).code == "call_already_final"
        receipt = await sdk.tools.fail(call.call_id, code="app.late", message="too late")
        assert receipt.code == "call_already_final"
        assert (await sdk.tools.report_progress(call.call_id, percent=100.0)).code == "call_already_final"

        call = await calls.get()
        receipt = await sdk.tools.fail(
            call.call_id, code="app.broken", message="the pen is empty", retryable=True, data={"pen": "blue"}
        )
        assert receipt.accepted and call.status == "failed"

        call = await calls.get()
        assert (await changes.get()) is call and call.cancel_requested
        assert (await sdk.tools.cancel(call.call_id, "as you wish")).accepted
        assert await sdk.inbox.list() == ()

        await sdk.run_until_stopped()
"""


class AsWritten(Confinement):
    """Confined as the story tells: what really is, is tested with real processes."""

    def __init__(self) -> None:
        super().__init__(None, Applied(frozenset({"net", "mnt"}), own_uid=False, landlock_abi=7, filters=1))

    def seal(self) -> tuple[Applied, dict[str, bool]]:
        return self.applied, {"landlock": True, "filter": True, "seal": True}


def _id(case: Case) -> str:
    return f"{case.story}: {case.name}"


def test_a_life_of_a_worker_goes_at_the_sdk_as_it_is_written(runtime: RuntimeEnd, app: App) -> None:
    assert (ATTEMPT, TOKEN) == ("att-1", WORKER_TOKEN)

    with Worker(spec_of(runtime, app(DESK), app_scope="echo"), AsWritten()) as worker:
        for case in story("worker"):
            if case.door != "worker":
                continue
            if case.direction == "out":
                runtime.say_raw(case.sent)
                continue
            said = envelope.decode(runtime.hear_frame())
            assert case.envelope is not None
            assert (said.type, said.id, said.body) == (case.kind, case.envelope["id"], case.body), case.name
        code = worker.wait_exit_code()

    assert code == ExitCode.DONE


@pytest.mark.parametrize("case", [case for case in every_case() if case.is_accepted], ids=_id)
def test_an_accepted_frame_is_read_as_it_is_written(case: Case) -> None:
    said = envelope.decode(case.sent)

    assert case.envelope is not None
    assert (said.id, said.type, said.body) == (case.envelope["id"], case.kind, case.body)


@pytest.mark.parametrize("case", [case for case in every_case() if case.envelope is None], ids=_id)
def test_a_frame_that_is_no_envelope_is_refused_by_the_same_code(case: Case) -> None:
    with pytest.raises(codec.IntakeError) as refused:
        envelope.decode(case.sent)

    assert refused.value.code == case.expect


def test_a_refused_hello_ends_the_worker(runtime: RuntimeEnd, app: App) -> None:
    refusal = next(case for case in story("impostor") if case.kind == "lineup.v1.session.refused")

    with Worker(spec_of(runtime, app(DESK))) as worker:
        runtime.hear("session.hello")
        runtime.say_raw(refusal.sent)
        runtime.hang_up()
        code = worker.wait_exit_code()

    assert code == ExitCode.REFUSED


def test_frames_that_break_the_rule_disturb_no_session(
    runtime: RuntimeEnd, app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    unreadable = [case for case in story("frames") if case.envelope is None and case.sent]

    with Worker(
        spec_of(runtime, app("async def main(sdk: MiniAppSDK) -> None:\n    await sdk.run_until_stopped()"))
    ) as worker:
        runtime.start_app()
        for beat, case in enumerate(unreadable):
            if len(case.sent) <= codec.MAX_FRAME_BYTES:  # ZeroMQ itself cuts off whoever sends more to a worker
                runtime.say_raw(case.sent)
            runtime.say("session.ping", beat=beat)
            assert runtime.hear("session.pong").body == {"beat": beat}
        runtime.say("session.stop", reason="test", grace_ms=500)
        code = worker.wait_exit_code()

    assert code == ExitCode.DONE
    assert "a frame of the runtime was ignored" in capsys.readouterr().err
