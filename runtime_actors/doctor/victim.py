"""A process like the daemon, to be attacked: of the same uid, not dumpable. Ends with its standard input."""

from __future__ import annotations

import ctypes
import json
import sys

_PR_SET_DUMPABLE = 4

secret = ctypes.create_string_buffer(b"secret!!", 8)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
print(json.dumps(ctypes.addressof(secret)), flush=True)  # noqa: T201 - that is how it says that it is ready
for _ in sys.stdin:
    print(json.dumps(secret.raw.hex()), flush=True)  # noqa: T201 - whoever asks sees what the memory holds now
