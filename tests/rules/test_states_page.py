"""The page of states is printed from the tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent


def test_the_page_of_states_says_what_the_tables_say() -> None:
    checked = subprocess.run(
        [sys.executable, "scripts/state_tables.py", "--check"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, "")
