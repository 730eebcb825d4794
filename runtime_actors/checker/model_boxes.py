"""The entries of agents, their conversations, and the boxes in both directions."""

from __future__ import annotations

from runtime_actors.checker.chain import Entry
from runtime_actors.checker.model import LIVE, Call, Key, Message, Model, Place


def agent_added(model: Model, entry: Entry) -> None:
    if entry.subject["agent_id"] in model.agents:
        model.blame(entry, "there was an agent of this name")
    model.agents.add(entry.subject["agent_id"])


def conversation_opened(model: Model, entry: Entry) -> None:
    if entry.subject["conversation_id"] in model.owners or entry.subject["agent_id"] not in model.agents:
        model.blame(entry, "the conversation was open, or its agent is unknown")
    model.owners[entry.subject["conversation_id"]] = entry.subject["agent_id"]


def received(model: Model, entry: Entry) -> None:
    subject = entry.subject
    key = Key(subject["agent_id"], subject["conversation_id"], subject["message_id"])
    if key in model.texts:
        model.blame(entry, "the text had been received", model.texts[key], rule="second-record")
        return
    model.check_owner(entry)
    model.texts[key] = entry
    model.put_message(Place(subject["conversation_id"], subject["app_scope"]), Message(entry, key.agent, None))


def message_acknowledged(model: Model, entry: Entry) -> None:
    instance, number = model.instance_of(entry), int(entry.subject["message_id"][1:])
    if instance is None or instance.state not in LIVE:
        model.blame(entry, "the instance is not live")
        return
    message = model.inbox[instance.place].pop(number, None)
    call_id = None if message is None or message.call is None else message.call.call_id
    if message is None or call_id != entry.subject.get("call_id"):
        again = model.put.get((instance.place, number))
        model.blame(entry, "no such message was in the inbox", *([again.entry] if again else []))
        return
    model.acknowledged[instance.place, number] = entry
    if message.call is not None:
        model.calls[message.call].message = None


def settled(model: Model, entry: Entry) -> None:
    agent = entry.subject["agent_id"]
    for number in entry.detail.get("numbers") or [entry.detail["number"]]:
        call = model.outbox[agent].pop(number, None)
        if call is None and agent not in model.flooded:
            model.blame(entry, f"delivery {number} was not waiting for {agent}")
        if isinstance(call, Call) and call.progress == number:
            call.progress = None
        model.gone[agent, number] = entry
