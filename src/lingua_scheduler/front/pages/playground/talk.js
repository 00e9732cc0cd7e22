/** The session of this page: opened when somebody speaks, mended by the client library, and told here utterance by utterance. */

import { Client } from "../../sdk/lingua.js";
import { batch, computed, effect, signal } from "../html.js";
import { see } from "./frames.js";
import { play } from "./sound.js";
import { home, src, tgt, token, withSpeech } from "./wishes.js";

const MOST_KEPT = 50;
const STEP_BYTES = 16_000;

/** How the connection stands: `idle`, or as the client library has it. */
export const state = signal({ name: "idle", sessionId: null });
/** What was said, newest last: `{key, index, src, tgt, partial, result, missing, moments, endedAtMs, answeredAtMs}`. */
export const utterances = signal([]);
/** What went wrong with all of it, newest last. */
export const troubles = signal([]);
/** How often this page's session came back after a loss. */
export const resumed = signal(0);
/** Whether results are played when they come. */
export const playsAloud = signal(true);

let stream = null;
let number = 0;
/** By trace: what an error said of the nodes. */
const breakdowns = new Map();

const update = (session, index, change) => {
  const key = `${session.number}.${index}`;
  const all = utterances.value;
  const known = all.find(one => one.key === key);
  const first = { key, index, src: session.src, tgt: session.tgt, partial: "", moments: [] };
  const next = { ...(known ?? first), ...change(known ?? first) };
  utterances.value = known ? all.map(one => one === known ? next : one) : [...all, next].slice(-MOST_KEPT);
};

const watch = session => frame => {
  const said = see(frame);
  if (said === null) return;
  if (said.type === "ui_event") {
    update(session, said.utterance_index, one => ({
      moments: [...one.moments, { event: said.event, ms: said.elapsed_ms ?? null }],
      ...(said.event === "INPUT_ENDED" ? { endedAtMs: frame.atMs } : {}),
    }));
  }
  if (said.type === "translation_result") update(session, said.utterance_index, () => ({ answeredAtMs: frame.atMs }));
  if (said.type === "error" && said.breakdown) breakdowns.set(said.trace_id, said.breakdown);
};

const stand = session => now => {
  if (session !== current) return;
  batch(() => {
    if (now.name === "open" && now.isResumed) resumed.value += 1;
    if (now.name === "open") troubles.value = [];
    state.value = now;
  });
};
let current = null;

/** Something went wrong: its code, what it said, and whether to try again. */
export const trouble = error => {
  const { code = "INTERNAL", detail = String(error), retryable = false, retryAfterMs = null, traceId = null } = error;
  const one = { key: crypto.randomUUID?.() ?? `${Math.random()}`, code, detail, retryable, retryAfterMs, breakdown: breakdowns.get(traceId) };
  troubles.value = [...troubles.value, one].slice(-5);
};
export const dismiss = key => { troubles.value = troubles.value.filter(one => one.key !== key); };

const hear = async (session, opened) => {
  try {
    for await (const item of opened) {
      if (item.type === "partial") update(session, item.utteranceIndex, () => ({ partial: item.text }));
      if (item.type === "missing") {
        update(session, item.utteranceIndex, () => ({ missing: { ...item, breakdown: breakdowns.get(item.traceId) } }));
      }
      if (item.type === "result") {
        update(session, item.utteranceIndex, () => ({ result: item, partial: "" }));
        if (playsAloud.value && item.ttsAudio.length) play(`${session.number}.${item.utteranceIndex}`, item.ttsAudio, item.ttsFormat);
      }
    }
  } catch (error) {
    trouble(error);
  } finally {
    if (current === session) {
      current = stream = null;
      state.value = { name: "closed", sessionId: state.value.sessionId };
    }
  }
};

/** The open session; a new one if there is none. */
export const session = () => {
  if (stream !== null) return stream;
  const mine = current = { number: number++, src: src.value, tgt: tgt.value };
  const client = new Client(home, { token: token.value || undefined, onFrame: watch(mine), onState: stand(mine) });
  resumed.value = 0;
  stream = client.stream({ src: mine.src, tgt: mine.tgt, speak: withSpeech.value });
  stream.then(opened => hear(mine, opened), error => {
    trouble(error);
    if (current === mine) {
      current = stream = null;
      state.value = { name: "closed", sessionId: null };
    }
  });
  return stream;
};

/** Say something whole. @param {Int16Array} audio */
export const utter = async audio => {
  try {
    const opened = await session();
    const bytes = new Uint8Array(audio.buffer, audio.byteOffset, audio.byteLength);
    for (let at = 0; at < bytes.length; at += STEP_BYTES) await opened.send(bytes.slice(at, at + STEP_BYTES));
    await opened.cut();
  } catch { /* Whoever hears the session has told it. */ }
};

/** Leave, after what is still to come. */
export const leave = async () => {
  const left = stream;
  current = stream = null;
  state.value = { name: "idle", sessionId: null };
  try {
    (await left)?.end();
  } catch { /* It never was open. */ }
};

export const isOpen = computed(() => !["idle", "closed"].includes(state.value.name));

export const forget = () => { utterances.value = []; };

// Other wishes are another session. What is open is still answered.
let wished = "";
effect(() => {
  const now = `${src.value} ${tgt.value} ${withSpeech.value} ${token.value}`;
  if (wished && wished !== now && stream !== null) leave();
  wished = now;
});
