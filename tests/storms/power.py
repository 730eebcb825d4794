"""Loss of power: stories on a recorded store, cut anywhere, every state of the disk opened and judged.

`python -m tests.storms.power [--images N] [--seed S] [--json]`
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runtime_actors.store import files
from tests.storms import images, vfs
from tests.storms.images import Image
from tests.storms.judging import judged
from tests.storms.recorder import Recorder, recording
from tests.storms.stories import TALES, Tale, play_base


@dataclass(slots=True)
class Found:
    """What became of the images of some stories."""

    images: int = 0
    broken: int = 0
    """Images of which something was wrong."""
    by_story: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, more: Found) -> None:
        self.images += more.images
        self.broken += more.broken
        self.by_story.update(more.by_story)
        self.violations += more.violations


@contextmanager
def room() -> Iterator[Path]:
    """A folder in memory where there is one: what is judged is what the images hold, not the disk below."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(prefix="lu-power-", dir=memory if usable else None) as folder:
        yield Path(folder)


def recorded(library: ctypes.CDLL, tale: Tale, root: Path, durability: str = "power") -> Recorder:
    """Play a story below an empty folder."""
    play_base(tale, root, durability)
    with recording(library, root) as recorder:
        tale.play(recorder, durability)
    return recorder


def lose_power(tale: Tale, recorder: Recorder, wanted: int, seed: int, durability: str = "power") -> Found:
    """Judge about so many images of a recorded story."""
    found = Found()
    name = getattr(tale.play, "__name__", "?")
    with room() as folder:
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(files.BALLAST_BYTES))
        for image in images.images(recorder.events, recorder.folders, recorder.begun, seed, wanted):
            here = folder / "image"
            here.mkdir()
            wrong = judged(image, here, ballast, durability, tale.migrations)
            shutil.rmtree(here)
            found.images += 1
            found.by_story[name] += 1
            found.broken += bool(wrong)
            found.violations += [_where(name, recorder, image, one) for one in wrong]
    return found


def _where(name: str, recorder: Recorder, image: Image, what: str) -> str:
    return f"{name}, power lost after event {image.cut} of {len(recorder.events)}, {image.way}: {what}"


def all_tales(library: ctypes.CDLL, wanted: int, seed: int, tales: Sequence[Tale] = TALES) -> Found:
    """What the short stories cannot give, because they have no more states, the long ones do."""
    told: list[tuple[Tale, Recorder]] = []
    for tale in tales:
        with room() as folder:
            told.append((tale, recorded(library, tale, folder)))
    told.sort(key=lambda one: len(one[1].events))
    found = Found()
    for number, (tale, recorder) in enumerate(told):
        found.add(lose_power(tale, recorder, (wanted - found.images) // (len(told) - number), seed))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storms.power", description=__doc__)
    parser.add_argument("--images", type=int, default=1200, help="about how many (default: 1200)")
    parser.add_argument("--seed", type=int, default=1, help="draws cuts and what is left")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    library = vfs.find_library()
    if isinstance(library, str):
        sys.stderr.write(f"{library}\n")
        return 2
    begun = time.monotonic()
    found = all_tales(library, options.images, options.seed)
    gone_s = time.monotonic() - begun
    told: dict[str, object] = {
        "images": found.images,
        "seconds": round(gone_s, 1),
        "images_a_second": round(found.images / gone_s, 1),
    }
    told |= {"seed": options.seed, "by_story": dict(found.by_story), "broken": found.broken}
    if options.json:
        sys.stdout.write(json.dumps({**told, "violations": found.violations[:100]}) + "\n")
    else:
        sys.stdout.write("".join(f"BROKEN {one}\n" for one in found.violations[:100]))
        sys.stdout.write(", ".join(f"{name} {value}" for name, value in told.items()) + "\n")
    return 1 if found.broken or not found.images else 0


if __name__ == "__main__":
    sys.exit(main())
