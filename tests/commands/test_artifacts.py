"""What an app made for agents: announced, brought piece by piece, checked, and read by its conversation alone."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from runtime_actors.commands import artifacts, calls, views
from runtime_actors.commands.asker import Asker
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.surfaces import CHUNK_BYTES, ArtifactBegin, ArtifactChunk, ArtifactReceipt
from runtime_actors.records import artifacts as rows
from runtime_actors.rules import artifacts as rules
from tests.fakes import TALK, a_result, assert_refused, by, process_ended, refused, running

if TYPE_CHECKING:
    from tests.fakes import Records

SMALL: Final = b"<svg/>"
LARGE: Final = bytes(range(256)) * (CHUNK_BYTES * 5 // 2 // 256)
"""Two pieces and a half."""


def an_asker(records: Records, request_id: str = "att-1/1", *, call_id: str = "c1") -> Asker:
    return Asker(str(records.call(call_id).instance_id), "att-1", request_id)


def a_beginning(who: Asker, content: bytes = SMALL, **changes: Any) -> artifacts.Beginning:  # noqa: ANN401
    fields = {
        "name": "board.svg",
        "media_type": "image/svg+xml",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    return artifacts.Beginning(who, ArtifactBegin.model_validate(fields | changes))


def a_piece(who: Asker, content: bytes, offset: int = 0, artifact_id: str = "art-1") -> artifacts.Piece:
    text = base64.b64encode(content).decode()
    return artifacts.Piece(who, ArtifactChunk(artifact_id=artifact_id, offset=offset, content=text))


def begun(records: Records, content: bytes = SMALL, **changes: Any) -> str:  # noqa: ANN401
    outcome = records.run(artifacts.begin_artifact, a_beginning(an_asker(records), content, **changes))
    assert isinstance(outcome, ArtifactReceipt), outcome
    assert outcome.artifact_id is not None
    return outcome.artifact_id


def stored(records: Records, content: bytes = SMALL, **changes: Any) -> str:  # noqa: ANN401
    """An artifact that is complete."""
    artifact_id = begun(records, content, **changes)
    for offset in range(0, len(content), CHUNK_BYTES):
        piece = a_piece(an_asker(records), content[offset : offset + CHUNK_BYTES], offset, artifact_id)
        receipt = records.run(artifacts.add_chunk, piece)
        assert isinstance(receipt, ArtifactReceipt), receipt
        assert receipt.complete == (offset + CHUNK_BYTES >= len(content))
    return artifact_id


def read(records: Records, artifact_id: str, *, agent_id: str = "local", conversation_id: str = TALK) -> bytes:
    content = b""
    while True:
        of = artifacts.ArtifactOf(agent_id, conversation_id, artifact_id, len(content))
        found = artifacts.artifact_content(records.transaction(), of)
        assert isinstance(found, artifacts.Content), found
        assert found.offset == len(content)
        content += base64.b64decode(found.text)
        if len(content) == found.size:
            return content


@pytest.fixture
def app(records: Records) -> Records:
    """An app with a running call `c1`."""
    running(records)
    return records


# --- storing ---


@pytest.mark.parametrize("content", [b"", SMALL, LARGE, LARGE[: 2 * CHUNK_BYTES], b"x" * (CHUNK_BYTES + 1)])
def test_what_was_stored_is_read_as_it_was(app: Records, content: bytes) -> None:
    artifact_id = stored(app, content, call_id="c1")

    meta = artifacts.artifact_meta(app.transaction(), artifacts.ArtifactOf("local", TALK, artifact_id))

    assert read(app, artifact_id) == content
    assert not isinstance(meta, Rejection)
    assert (meta.size, meta.sha256, meta.call_id) == (len(content), hashlib.sha256(content).hexdigest(), "c1")
    assert app.audit()[-1].event == "artifact.stored"
    assert app.audit()[-1].digest == hashlib.sha256(content).digest()


def test_content_can_be_read_from_anywhere(app: Records) -> None:
    artifact_id = stored(app, LARGE)

    for offset in (0, 1, CHUNK_BYTES - 1, CHUNK_BYTES + 7, len(LARGE) - 3, len(LARGE)):
        of = artifacts.ArtifactOf("local", TALK, artifact_id, offset)
        found = artifacts.artifact_content(app.transaction(), of)
        assert isinstance(found, artifacts.Content)
        assert base64.b64decode(found.text) == LARGE[offset : offset + CHUNK_BYTES]

    beyond = artifacts.ArtifactOf("local", TALK, artifact_id, len(LARGE) + 1)
    assert_refused(app, artifacts.artifact_content, beyond, RejectionCode.ARTIFACT_INVALID, "artifact.refused")


def test_content_with_another_digest_is_forgotten_and_the_refusal_is_repeated(app: Records) -> None:
    artifact_id = begun(app)
    wrong = a_piece(an_asker(app, "att-1/2"), SMALL[::-1])

    receipt = app.run(artifacts.add_chunk, wrong)

    assert isinstance(receipt, ArtifactReceipt)
    assert (receipt.accepted, receipt.code) == (False, "artifact_invalid")
    assert app.sql.execute("select count(*) from artifacts").fetchone() == (0,)
    assert app.sql.execute("select count(*) from artifact_chunks").fetchone() == (0,)
    assert app.run(artifacts.add_chunk, wrong) == receipt
    late = a_piece(an_asker(app, "att-1/3"), SMALL, artifact_id=artifact_id)
    assert refused(app.run(artifacts.add_chunk, late)) == "artifact_not_found"
    assert stored(app) == "art-2"


@pytest.mark.parametrize(
    ("content", "offset"),
    [
        (LARGE[CHUNK_BYTES : 2 * CHUNK_BYTES], CHUNK_BYTES),  # out of order
        (LARGE[:100], 0),  # short, and not the last one
        (LARGE[:CHUNK_BYTES], 1),
        (b"", 0),
    ],
)
def test_a_piece_that_is_not_the_next_one_is_refused(app: Records, content: bytes, offset: int) -> None:
    begun(app, LARGE)
    piece = a_piece(an_asker(app, "att-1/2"), content, offset)

    assert_refused(app, artifacts.add_chunk, piece, RejectionCode.ARTIFACT_INVALID, "artifact.refused")


@pytest.mark.parametrize("text", ["%%%%", "PHN2Zy8", "PHN2Zy8+\n", "ÄÖÜ="])
def test_what_is_not_base64_is_refused(app: Records, text: str) -> None:
    begun(app)
    piece = artifacts.Piece(an_asker(app), ArtifactChunk(artifact_id="art-1", offset=0, content=text))

    assert_refused(app, artifacts.add_chunk, piece, RejectionCode.ARTIFACT_INVALID, "artifact.refused")


def test_more_than_was_announced_is_refused(app: Records) -> None:
    begun(app)
    piece = a_piece(an_asker(app), SMALL + b"!")

    assert_refused(app, artifacts.add_chunk, piece, RejectionCode.ARTIFACT_INVALID, "artifact.refused")


def test_a_piece_that_is_repeated_is_harmless_at_any_time(app: Records) -> None:
    begun(app, LARGE)
    pieces = [a_piece(an_asker(app), LARGE[at : at + CHUNK_BYTES], at) for at in range(0, len(LARGE), CHUNK_BYTES)]
    for piece in pieces:
        first = app.run(artifacts.add_chunk, piece)
        before = app.everything()
        assert app.run(artifacts.add_chunk, piece) == first
        assert app.everything() == before

    again = app.run(artifacts.add_chunk, pieces[0])

    assert isinstance(again, ArtifactReceipt)
    assert again.complete
    assert read(app, "art-1") == LARGE


def test_a_later_process_goes_on_with_what_was_begun_and_ends_with_the_same_artifact(app: Records) -> None:
    begun(app, LARGE)
    app.run(artifacts.add_chunk, a_piece(an_asker(app), LARGE[:CHUNK_BYTES]))
    process_ended(app, "att-1")

    assert stored(app, LARGE) == "art-1"
    assert read(app, "art-1") == LARGE


def test_the_same_content_under_the_same_name_is_complete_at_once(app: Records) -> None:
    stored(app)
    before = app.everything()

    again = app.run(artifacts.begin_artifact, a_beginning(an_asker(app, "att-1/9")))

    assert again == ArtifactReceipt(request_id="att-1/9", accepted=True, artifact_id="art-1", complete=True)
    assert app.everything() == before


@pytest.mark.parametrize("changes", [{"name": "other.svg"}, {"media_type": "text/plain"}])
def test_under_another_name_or_type_it_is_another_artifact(app: Records, changes: dict[str, Any]) -> None:
    stored(app)

    assert stored(app, **changes) == "art-2"


def test_nothing_is_shared_between_instances(app: Records) -> None:
    stored(app)
    running(app, "board.open", "c2")
    stranger = Asker(str(app.call("c2").instance_id), "att-2", "att-2/1")

    outcome = app.run(artifacts.begin_artifact, a_beginning(stranger))

    assert outcome == ArtifactReceipt(request_id="att-2/1", accepted=True, artifact_id="art-2", complete=False)
    piece = a_piece(stranger, SMALL, artifact_id="art-1")
    assert_refused(app, artifacts.add_chunk, piece, RejectionCode.ARTIFACT_NOT_FOUND, "artifact.refused")


def test_an_artifact_is_a_result_only_of_a_call_of_its_instance(app: Records) -> None:
    running(app, "board.open", "c2")
    asked = a_beginning(an_asker(app), call_id="c2")

    assert_refused(app, artifacts.begin_artifact, asked, RejectionCode.CALL_NOT_FOUND, "artifact.refused")


def test_an_instance_that_is_closing_stores_nothing_more(records: Records) -> None:
    call = running(records, "board.open")
    records.run(calls.finish, a_result(by(call)))
    asked = a_beginning(an_asker(records))

    assert_refused(records, artifacts.begin_artifact, asked, RejectionCode.APP_INSTANCE_NOT_FOUND, "artifact.refused")


# --- bounds ---


def test_nothing_has_no_bytes_but_nothing(app: Records) -> None:
    asked = a_beginning(an_asker(app), b"", sha256="0" * 64)

    assert_refused(app, artifacts.begin_artifact, asked, RejectionCode.ARTIFACT_INVALID, "artifact.refused")


def test_a_conversation_holds_so_many_artifacts_and_no_more(app: Records) -> None:
    for number in range(rules.MAX_OF_CONVERSATION):
        begun(app, b"%d" % number)
    asked = a_beginning(an_asker(app), b"one more")

    assert_refused(app, artifacts.begin_artifact, asked, RejectionCode.BUSY, "artifact.refused")

    running(app, call_id="c2", conversation_id="elsewhere")
    other = Asker(str(app.call("c2", conversation_id="elsewhere").instance_id), "att-2", "att-2/1")
    assert isinstance(app.run(artifacts.begin_artifact, a_beginning(other)), ArtifactReceipt)


@pytest.mark.parametrize(("of_conversation", "of_all"), [(rules.MAX_BYTES_OF_CONVERSATION, 0), (0, rules.MAX_BYTES)])
def test_bytes_are_bounded_in_a_conversation_and_in_all(of_conversation: int, of_all: int) -> None:
    asked = ArtifactBegin(name="a", media_type="text/plain", size=10, sha256="0" * 64)

    def judged(spare: int) -> object:
        return rules.may_begin(
            asked, rules.Sums(1, of_conversation - spare), rules.Sums(1, max(of_all, of_conversation) - spare)
        )

    assert judged(10) is None
    assert refused(judged(9)) == "busy"


def test_the_sums_are_those_of_the_rows(app: Records) -> None:
    stored(app)
    begun(app, LARGE)
    wrong = begun(app, b"wrong")
    app.run(artifacts.add_chunk, a_piece(an_asker(app), b"gnorw", artifact_id=wrong))

    found = app.sql.execute("select count(*), sum(size) from artifacts").fetchone()

    assert rows.sums(app.transaction(), TALK) == rows.sums(app.transaction()) == rules.Sums(*found)
    assert found == (2, len(SMALL) + len(LARGE))


def test_what_is_not_complete_after_an_hour_is_dropped_and_gives_its_room_back(app: Records) -> None:
    stored(app)
    app.clock.move(1)
    begun(app, LARGE)
    app.run(artifacts.add_chunk, a_piece(an_asker(app), LARGE[:CHUNK_BYTES], artifact_id="art-2"))
    app.clock.move(rules.UNFINISHED_S)

    assert app.run(artifacts.drop_unfinished, None) == 0
    app.clock.move(1)
    assert app.run(artifacts.drop_unfinished, None) == 1

    assert rows.sums(app.transaction()) == rules.Sums(1, len(SMALL))
    assert app.sql.execute("select distinct artifact_id from artifact_chunks").fetchall() == [("art-1",)]
    assert app.audit()[-1].event == "artifact.dropped"
    assert read(app, "art-1") == SMALL


# --- who may read ---


@pytest.mark.parametrize("artifact_id", ["art-1", "art-9"])
def test_another_agent_is_refused_the_same_whether_it_exists_or_not(app: Records, artifact_id: str) -> None:
    stored(app)
    of = artifacts.ArtifactOf("other", TALK, artifact_id)

    for rule in (artifacts.artifact_meta, artifacts.artifact_content):
        assert_refused(app, rule, of, RejectionCode.CONVERSATION_DENIED, "artifact.refused")


def test_another_conversation_has_no_such_artifact(app: Records) -> None:
    stored(app)
    running(app, call_id="c2", conversation_id="elsewhere")

    for conversation_id in ("elsewhere", "never-opened"):
        of = artifacts.ArtifactOf("local", conversation_id, "art-1")
        assert_refused(app, artifacts.artifact_meta, of, RejectionCode.ARTIFACT_NOT_FOUND, "artifact.refused")


def test_what_is_not_complete_is_not_there(app: Records) -> None:
    begun(app)
    of = artifacts.ArtifactOf("local", TALK, "art-1")

    assert_refused(app, artifacts.artifact_meta, of, RejectionCode.ARTIFACT_NOT_FOUND, "artifact.refused")


def test_the_listing_names_every_artifact_and_how_much_of_it_is_here(app: Records) -> None:
    stored(app)
    begun(app, LARGE)

    page = views.view_artifacts(app.transaction(), views.View({"conversation_id": TALK}, None, 10))

    assert [(row["artifact_id"], row["received"], row["size"]) for row in page.rows] == [
        ("art-1", len(SMALL), len(SMALL)),
        ("art-2", 0, len(LARGE)),
    ]
