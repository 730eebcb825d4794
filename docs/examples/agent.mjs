// An agent in another language, written from docs/protocol.md alone: it calls one tool and waits for the result,
// whatever happens to the connection or the daemon meanwhile.
//
//   npm install
//   node agent.mjs STATE_DIR TOOL JSON [CALL_ID]
//
// Prints one JSON object a line. A call that is given its CALL_ID can be repeated by running the same command again.
// Ctrl-C asks for the call to be cancelled; a second one leaves at once.
// Exit codes: 0 completed; 1 failed, cancelled or expired; 3 refused; 4 no end was seen in time.

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { join } from "node:path";
import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const EXIT = { completed: 0, failed: 1, cancelled: 1, expired: 1, rejected: 3 }; // the final statuses
const NOT_DONE = new Set(["busy", "store_unavailable", "internal_error"]); // the same request may be sent again
const RETRY_MS = 500;
const QUIET_MS = 2000;
const SPARE_MS = 30_000; // on top of the tool's own limit: the daemon may be down for a while

const [state, toolId, inputText, callId = randomUUID()] = process.argv.slice(2);
if (inputText === undefined) {
  console.error("usage: node agent.mjs STATE_DIR TOOL JSON [CALL_ID]");
  process.exit(2);
}
const input = JSON.parse(inputText);
const token = (await readFile(join(state, "tokens", "local"), "utf8")).trim();
const conversation = "node-example";

const show = (what, fields) => console.log(JSON.stringify({ what, ...fields }));

// Section 1. `immediate`: nothing is queued for a connection that is not up, so an attach is always the first frame on it.
const dealer = new Dealer({ immediate: true, linger: 1000, maxMessageSize: 262_144 });

// A ZeroMQ socket takes one send at a time.
let sent = Promise.resolve();
const send = (frame) => (sent = sent.then(() => dealer.send(frame)));

// Section 2: the envelope.
function request(type, body, conversationId) {
  const id = randomUUID();
  const envelope = { v: 1, id, type, sent_at: new Date().toISOString(), body };
  if (conversationId !== undefined) envelope.conversation_id = conversationId;
  return { id, type, frame: encode(envelope, { ignoreUndefined: true }) };
}

// Section 8: what a client keeps.
const unanswered = new Map(); // request id -> request
let handled; // the highest number of a delivery that was dealt with
let attachId;
let heardAt = Date.now();
let revision;
let limit = Date.now() + SPARE_MS;

function ask(made) {
  unanswered.set(made.id, made);
  send(made.frame);
}

function attach() {
  const made = request("lineup.v1.agent.attach", { agent: "local", token, resume_after: handled });
  attachId = made.id; // only the newest one counts
  send(made.frame);
}

function invoke() {
  const body = { call_id: callId, tool_id: toolId, inventory_revision: revision, input };
  ask(request("lineup.v1.tool.invoke", body, conversation));
}

async function finish(code) {
  await sent; // the last acknowledgement is on its way; `linger` gives it a second
  dealer.close();
  process.exit(code);
}

function ended(call) {
  if (!(call.status in EXIT)) return false;
  show("final", { call_id: call.call_id, status: call.status, result: call.result, error_code: call.error_code });
  finish(EXIT[call.status]);
  return true;
}

async function refused({ request_id: id, code, detail, inventory_revision: current }) {
  if (code === "not_attached") return attach(); // whatever is unanswered follows once that is answered
  const made = unanswered.get(id);
  if (id === attachId) attachId = undefined;
  else if (made === undefined) return undefined; // answered already, before it was repeated
  show("refused", { code, detail });
  if (NOT_DONE.has(code)) {
    await delay(RETRY_MS);
    return made === undefined ? attach() : send(made.frame);
  }
  unanswered.delete(id);
  if (code === "inventory_revision_mismatch") {
    revision = current; // a fresh start: the call id is still free
    return invoke();
  }
  return finish(EXIT.rejected);
}

// Section 4.5: at least once, in order. A repeat is known by its number, and acknowledged all the same.
function delivered(type, body) {
  const mine = body.call_id === callId || body.call?.call_id === callId;
  if (handled !== undefined && body.number <= handled) {
    show("repeat", { number: body.number });
  } else {
    handled = body.number;
    if (mine && type === "lineup.v1.tool.progress") show("progress", { number: body.number, ...body.progress });
    if (mine && type === "lineup.v1.tool.result") show("result", { number: body.number, audit: body.audit });
  }
  send(request("lineup.v1.delivery.ack", { numbers: [body.number] }).frame); // after handling, never before
  if (mine && type === "lineup.v1.tool.result") ended(body.call);
}

function received({ type, body }) {
  heardAt = Date.now();
  switch (type) {
    case "lineup.v1.agent.attached":
      if (body.request_id !== attachId) return undefined;
      show("attached", { agent: body.agent, window: body.window });
      for (const made of unanswered.values()) send(made.frame);
      return undefined;
    case "lineup.v1.client.inventory": {
      const first = revision === undefined;
      revision = body.revision;
      show("inventory", { revision, tools: body.tools.map((tool) => tool.id) });
      if (!first) return undefined;
      limit += body.tools.find((tool) => tool.id === toolId)?.timeout_ms ?? 0;
      return invoke();
    }
    case "lineup.v1.tool.state":
      unanswered.delete(body.request_id);
      show("state", { call_id: callId, status: body.call.status, repeated: body.repeated, audit: body.audit });
      return ended(body.call);
    case "lineup.v1.pong":
      return unanswered.delete(body.request_id);
    case "lineup.v1.rejected":
      return refused(body);
    case "lineup.v1.tool.progress":
    case "lineup.v1.tool.result":
      return delivered(type, body);
    default:
      return show("ignored", { type });
  }
}

let wished = false;
process.on("SIGINT", () => {
  if (wished) process.exit(4);
  wished = true;
  ask(request("lineup.v1.tool.cancel", { call_id: callId, reason: "Ctrl-C" }, conversation));
});

// ZeroMQ connects again by itself; each new connection begins with an attach.
dealer.events.on("handshake", attach);
dealer.events.on("disconnect", () => show("disconnected", {}));

// No answer never means not done, and a connection may be quiet because it is gone.
setInterval(() => {
  if (Date.now() > limit) {
    show("gave up waiting", { call_id: callId });
    process.exit(4);
  }
  const quiet = Date.now() - heardAt > QUIET_MS;
  if (quiet && ![...unanswered.values()].some((made) => made.type === "lineup.v1.ping")) {
    ask(request("lineup.v1.ping", {}));
  }
}, RETRY_MS);

dealer.connect(`ipc://${join(state, "run", "agent.sock")}`);
for await (const [frame] of dealer) received(decode(frame));
