from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from miniapp_worker import link
from miniapp_worker.main import ExitCode
from runtime_actors.contract import envelope, zmtp
from tests.worker.runtime_end import LIMIT_S, RuntimeEnd, Worker, served, spec_of

GREETING: Final = zmtp.Connection("ROUTER").greeting()[:64]

App = Callable[[str], Path]

COMPLETES_CALLS = """
    async def main(sdk: MiniAppSDK) -> None:
        sdk.tools.handler("echo.say")(lambda call: {})
        await sdk.run_until_stopped()
"""


def test_a_burst_followed_by_silence_is_read_to_its_end(runtime: RuntimeEnd, app: App) -> None:
    with served(runtime, app(COMPLETES_CALLS)):
        runtime.start_app()
        for number in range(1, 301):
            runtime.call(number)
            if number % 4 == 0:  # answers travel while calls come in
                runtime.say("session.ping", beat=number)
        ended: set[str] = set()
        pongs = 0
        while len(ended) < 300 or pongs < 75:
            said = envelope.decode(runtime.hear_frame())
            if said.type == "lineup.v1.session.pong":
                pongs += 1
            else:
                ended.add(said.body["call_id"])
                runtime.accept(said, call_status="completed")

    assert len(ended) == 300


def test_what_arrives_while_the_app_computes_is_read_without_waiting_for_more(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        import time

        async def main(sdk: MiniAppSDK) -> None:
            sdk.inbox.subscribe(lambda message: sdk.inbox.acknowledge(message.message_id))

            @sdk.tools.handler("echo.say")
            async def compute(call: MiniAppToolCall) -> JsonObject:
                report = asyncio.create_task(sdk.tools.report_progress(call.call_id))
                await asyncio.sleep(0)
                end = time.monotonic() + 0.01
                while time.monotonic() < end:
                    pass
                return {}

            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app()
        for number in range(1, 40, 2):
            runtime.call(number)
            report = runtime.hear("tools.report_progress")
            runtime.text(number + 1, "while it computes")
            completed = runtime.hear("tools.complete")  # sending it swallows the sign that the text came in
            acknowledge = runtime.hear("inbox.acknowledge")
            runtime.accept(report)
            runtime.accept(completed, call_status="completed")
            runtime.accept(acknowledge)


def test_requests_that_the_socket_does_not_take_wait_for_room(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            data = {"text": "x" * 16_000}
            reports = [sdk.tools.report_progress(f"call-{n}", data=data) for n in range(300)]
            await asyncio.gather(*reports, sdk.inbox.acknowledge("m1"))
            await sdk.run_until_stopped()
    """)
    with served(runtime, folder):
        runtime.start_app(window=400)
        for _ in range(64):
            runtime.say("session.ping", beat=0)
        heard = [envelope.decode(runtime.hear_frame()) for _ in range(365)]
        asked = [said for said in heard if said.type != "lineup.v1.session.pong"]
        for request in asked:
            runtime.accept(request)

    assert [request.body.get("call_id") for request in asked] == [*(f"call-{n}" for n in range(300)), None]


def test_a_frame_that_fills_the_socket_many_times_arrives_whole(runtime: RuntimeEnd, app: App) -> None:
    folder = app("""
        async def main(sdk: MiniAppSDK) -> None:
            sdk.tools.handler("echo.say")(lambda call: call.input)
            await sdk.run_until_stopped()
    """)
    given = {"parts": ["x" * 9_000] * 20}
    with served(runtime, folder):
        runtime.start_app()
        runtime.call(1, input=given)
        completed = runtime.hear("tools.complete")
        runtime.accept(completed, call_status="completed")

    assert completed.body["result"] == given


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(GREETING[:40], id="half a greeting"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n".ljust(64), id="another protocol"),
        pytest.param(GREETING + b"\x01\x00", id="a message before it is ready"),
    ],
)
def test_whoever_does_not_greet_as_a_runtime_does_is_left_and_tried_again(
    said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_HANDSHAKE_S", 0.1)
    monkeypatch.chdir(tmp_path)  # the whole path would be too long
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(LIMIT_S)
        door.bind("w")
        door.listen()
        changes: list[str] = []

        async def meet() -> None:
            made = link.Link(
                "w",
                on_up=lambda: changes.append("up"),
                on_down=lambda: changes.append("down"),
                on_frame=lambda _: changes.append("frame"),
            )
            made.connect()
            for _ in range(2):
                accepted, _ = await asyncio.to_thread(door.accept)
                accepted.sendall(said)
                with accepted:
                    await asyncio.to_thread(read_to_its_end, accepted)
            made.close(linger_ms=0)

        asyncio.run(asyncio.wait_for(meet(), LIMIT_S))

    assert changes == ["down", "down"]


def read_to_its_end(accepted: socket.socket) -> None:
    accepted.settimeout(LIMIT_S)
    while accepted.recv(4096):
        pass


def test_what_was_said_before_the_connection_ended_is_heard(runtime: RuntimeEnd, app: App) -> None:
    with Worker(spec_of(runtime, app(COMPLETES_CALLS))) as worker:
        runtime.hear("session.hello")
        for _ in range(64):
            runtime.say("unheard.of")
        runtime.say("session.refused", code="attach_denied", detail="no such attempt")
        runtime.hang_up()

        assert worker.wait_exit_code() == ExitCode.REFUSED
