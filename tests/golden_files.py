"""The golden fixtures: frames as they cross a door, kept as files that tests of both ends load from here.

A file of `tests/golden/` is a story: its cases happen in their order, on a runtime that knows the manifests of
`manifests.json` and the agents below. A case is

- `name`, `door`, `direction`: as `contract.protocol` has them; `peer` where a door has several;
- `envelope` and `frame_hex`, its canonical form; or, for frames that are none, `frame_hex` alone: pieces of hex, each
  as it is or with the number of its repetitions;
- `sent_hex`: what the peer really sends, where that is not the canonical form;
- `same_body_as`: the name of a case whose body has the same digest;
- `expect`: `accepted`, or the code of the refusal; `answer`: the type that answers;
- `when`: what happens before, for what the runtime says by itself.

After a wire shape was changed on purpose: correct the envelopes, then `python -m tests.golden_files` writes the hex.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runtime_actors.contract import codec
from runtime_actors.contract.protocol import Direction, Door

FOLDER: Final = Path(__file__).parent / "golden"
MANIFESTS: Final = FOLDER / "manifests.json"
ACCEPTED: Final = "accepted"

TOKENS: Final = {"alice": "alice-and-nobody-else", "bob": "bob-and-nobody-else"}
"""The agents of every story, and what they show."""
RELAY_SECRET: Final = "only-the-relay-knows"
WORKER_TOKEN: Final = "0123456789abcdef0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Case:
    """One frame of a story."""

    story: str
    name: str
    door: Door
    peer: str
    direction: Direction
    envelope: dict[str, Any] | None
    """None if the frame holds no envelope, or one that breaks the intake rule."""
    frame: bytes
    """In canonical form, if it has one."""
    sent: bytes
    """As its peer sends it."""
    same_body_as: str | None
    expect: str
    answer: str | None
    when: str | None

    @property
    def body(self) -> dict[str, Any]:
        assert self.envelope is not None
        body = self.envelope["body"]
        assert isinstance(body, dict)
        return body

    @property
    def kind(self) -> str:
        """The message type; empty if there is no envelope."""
        return str(self.envelope["type"]) if self.envelope is not None else ""

    @property
    def is_accepted(self) -> bool:
        return self.expect == ACCEPTED


@dataclass(frozen=True, slots=True)
class ManifestCase:
    """A manifest, and whether it may be registered."""

    name: str
    manifest: dict[str, Any]
    expect: str
    """`accepted`, or the path of the first fault."""


def story(name: str) -> tuple[Case, ...]:
    """The cases of one file."""
    return tuple(_case(name, raw) for raw in _read(FOLDER / f"{name}.json"))


def stories() -> tuple[str, ...]:
    """The name of every file."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json") if path != MANIFESTS))


def every_case() -> Iterator[Case]:
    for name in stories():
        yield from story(name)


def manifests() -> tuple[ManifestCase, ...]:
    return tuple(ManifestCase(raw["name"], raw["manifest"], raw["expect"]) for raw in _read(MANIFESTS))


def rewrite() -> None:
    """Write the canonical form of every envelope beside it."""
    for path in (FOLDER / f"{name}.json" for name in stories()):
        cases = _read(path)
        for raw in cases:
            if "envelope" in raw:
                raw["frame_hex"] = codec.encode(raw["envelope"]).hex()
        path.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(path: Path) -> list[dict[str, Any]]:
    cases = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(cases, list)
    return cases


def _case(story_name: str, raw: dict[str, Any]) -> Case:
    frame = _bytes(raw["frame_hex"])
    return Case(
        story=story_name,
        name=raw["name"],
        door=raw["door"],
        peer=raw.get("peer", raw["door"]),
        direction=raw["direction"],
        envelope=raw.get("envelope"),
        frame=frame,
        sent=_bytes(raw["sent_hex"]) if "sent_hex" in raw else frame,
        same_body_as=raw.get("same_body_as"),
        expect=raw["expect"],
        answer=raw.get("answer"),
        when=raw.get("when"),
    )


def _bytes(written: str | list[str | list[Any]]) -> bytes:
    if isinstance(written, str):
        return bytes.fromhex(written)
    pieces = [(one, 1) if isinstance(one, str) else (one[0], one[1]) for one in written]
    return b"".join(bytes.fromhex(piece) * times for piece, times in pieces)


if __name__ == "__main__":
    rewrite()
