"""What holds for each command: it is all or nothing, and running it again does nothing again.

A new command has to be told a story here first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from runtime_actors.actor import SetAside
from runtime_actors.commands import (
    agents,
    apps,
    boot,  # noqa: F401 - X
    calls,
)
