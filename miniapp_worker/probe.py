"""A worker that runs no app: confined and sealed like any other, to find out what this machine gives.

It says what it found as one line of JSON on its standard output, and waits to be measured and ended.
"""

from __future__ import annotations

import json
import time

from miniapp_worker.layers import Confinement


def run(_: dict[str, object], confinement: Confinement) -> int:
    """Report, then wait for SIGKILL; never returns by itself."""
    applied, canaries = confinement.seal()
    report = {
        "namespaces": sorted(applied.namespaces),
        "landlock_abi": applied.landlock_abi,
        "canaries": canaries,
    }
    print(json.dumps(report), flush=True)  # noqa: T201 - its standard output is how it reports
    while True:
        time.sleep(3600)
