"""What the zygote does with its memory and its forks, tried in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
LIMIT_S = 60


def said_by(program: str) -> str:
    """What `program` prints, in a clean interpreter that has registered nothing."""
    begin = "from miniapp_worker import forks\nforks.register_nothing()\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_functions_that_were_moved_do_what_they_did() -> None:
    said = said_by("""
        import asyncio
        from miniapp_worker import layers, memory, warm_up

        before = asyncio.sleep, asyncio.new_event_loop.__code__
        memory.gather(lambda: warm_up.warm_up(None, lives=1))
        warm_up.warm_up(None, lives=2)

        async def work():
            done = await asyncio.gather(asyncio.sleep(0, "a"), asyncio.to_thread(str, 5))
            return [*done, layers.Confinement.seal.__qualname__, layers.Confinement.seal.__doc__[:6]]

        print(asyncio.run(work()), asyncio.new_event_loop.__code__ is before[1])
    """)

    assert said == "['a', '5', 'Confinement.seal', '`seal`'] False"


def test_what_is_new_after_the_gaps_were_filled_lies_together() -> None:
    said = said_by("""
        import runtime_actors.contract.protocol  # so that there are some
        from miniapp_worker import memory

        memory.fill_gaps()
        for size in (64, 256, 480):
            new = [bytes(size - 33) for _ in range(64)]
            print(len({id(one) // 4096 for one in new}) <= 64 * size // 4096 + 2)
    """)

    assert said == "True\nTrue\nTrue"


def test_a_child_has_its_own_chance_and_knows_its_thread() -> None:
    said = said_by("""
        import os, threading, random

        be_born = forks.born()
        heard, told = os.pipe()
        for _ in range(2):
            if os.fork() == 0:
                be_born()
                right = threading.main_thread().native_id == threading.get_native_id() == os.getpid()
                os.write(told, f"{right} {random.random()}\\n".encode())
                os._exit(0)
            os.wait()
        os.close(told)
        lines = os.read(heard, 1000).decode().split()
        print(lines[0], lines[2], lines[1] == lines[3], str(random.random()) in lines)
    """)

    assert said == "True True False False"


def test_forks_run_nothing_that_modules_registered() -> None:
    said = said_by("""
        import logging, os, threading

        locked = threading.Lock()
        os.register_at_fork(before=lambda: print("asked", flush=True))
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        print("done")
    """)

    assert said == "done"
