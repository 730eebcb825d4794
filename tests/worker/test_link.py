from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from miniapp_worker.main import ExitCode
from runtime_actors.contract import envelope
from tests.worker.runtime_end import RuntimeEnd, Worker, served, spec_of

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


def test_what_was_said_before_the_connection_ended_is_heard(runtime: RuntimeEnd, app: App) -> None:
    with Worker(spec_of(runtime, app(COMPLETES_CALLS))) as worker:
        runtime.hear("session.hello")
        for _ in range(64):
            runtime.say("unheard.of")
        runtime.say("session.refused", code="attach_denied", detail="no such attempt")
        runtime.hang_up()

        assert worker.wait_exit_code() == ExitCode.REFUSED
