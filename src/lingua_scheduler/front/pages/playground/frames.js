/** Every frame that went over the socket, in words: which way, when, of what kind, how large. Audio and secrets are left out. */

import { signal } from "../html.js";

const MOST_ROWS = 300;
const MOST_PARTS = 200;
const AUDIO = new Set(["audio", "payload", "tts_audio"]);
const SECRET = new Set(["resume_token", "token", "pairing_code"]);
const BINARY = { 0x01: "audio chunk", 0x02: "end of audio", 0x10: "ping", 0x11: "pong" };

/** The rows, oldest first. */
export const rows = signal([]);
/** How many are not shown any more. */
export const dropped = signal(0);
let began = null;
let made = 0;

const sizeOf = text => new TextEncoder().encode(text).length;

/** A message without what nobody wants to read or should see. */
export const elided = value => {
  if (Array.isArray(value)) return value.map(elided);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => {
    if (typeof inner === "string" && inner && AUDIO.has(name)) return [name, `‹${Math.floor(inner.length * 3 / 4)} bytes of audio›`];
    if (typeof inner === "string" && inner && SECRET.has(name)) return [name, "‹hidden›"];
    return [name, elided(inner)];
  }));
};

/** The one thing that tells most of a message. */
const gistOf = said => {
  switch (said.type) {
    case "session_init": return said.resume_token ? `resume after event ${said.last_event_id}` : `${said.src_lang} → ${said.tgt_lang}`;
    case "session_init_ack": return said.session_id;
    case "asr_partial": return said.text;
    case "translation_result": return said.text_translated;
    case "missing_result": return said.reason;
    case "ui_event": return said.elapsed_ms == null ? said.event : `${said.event} ${said.elapsed_ms} ms`;
    case "event_ack": return `event ${said.last_event_id}`;
    case "backpressure": return said.action;
    case "error": return said.error;
    default: return "";
  }
};

const binary = ({ way, data, atMs }) => {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const kind = BINARY[view.getUint8(0)] ?? `0x${view.getUint8(0).toString(16)}`;
  const at = data[0] < 0x10 ? 2 : 1;
  return { way, kind, atMs, size: data.byteLength, seq: view.byteLength >= at + 4 ? view.getUint32(at, true) : null };
};

/** One more. What is binary and comes in a row is one row. @returns the message, if it is one */
export const see = frame => {
  began ??= frame.atMs;
  const atMs = frame.atMs - began;
  const last = rows.value.at(-1);
  if (typeof frame.data !== "string") {
    const part = { ...binary(frame), atMs };
    if (last?.parts) {
      const grown = { ...last, parts: [...last.parts, part].slice(-MOST_PARTS), count: last.count + 1, size: last.size + part.size };
      rows.value = [...rows.value.slice(0, -1), grown];
    } else {
      add({ way: frame.way, atMs, type: "binary", parts: [part], count: 1, size: part.size });
    }
    return null;
  }
  let said;
  try {
    said = JSON.parse(frame.data);
  } catch {
    said = { type: "?" };
  }
  add({ way: frame.way, atMs, type: String(said.type), size: sizeOf(frame.data), gist: String(gistOf(said) ?? ""), body: elided(said) });
  return said;
};

const add = row => {
  const all = [...rows.value, { id: made++, ...row }];
  dropped.value += Math.max(0, all.length - MOST_ROWS);
  rows.value = all.slice(-MOST_ROWS);
};

export const clear = () => {
  rows.value = [];
  dropped.value = 0;
  began = null;
};
