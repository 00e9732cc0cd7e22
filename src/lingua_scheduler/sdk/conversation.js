/**
 * One session as its client sees it: what to send, what to hand to the app, and how to go on after a loss. No sockets.
 *
 * The same rules as in `client_session.py`. Nothing that was said leaves before its end is known, and a new socket begins
 * with all that may have been lost, in order: utterances without their end, and chunks. The scheduler knows utterances
 * that it has heard before by their number, and says of chunks up to which it has them; results are known here, by event.
 */

const PIECE_BYTES = 64 * 1024;
const MAX_UNSURE_BYTES = 1024 * 1024;
/** The first number of audio. Those below it are left for chunks without audio, with which a scheduler that does not say
 * what it has heard begins: so it takes nothing that is said again for the beginning of new numbers. */
const FIRST_SEQ = 64;
/** So much of what was heard is kept for saying it again: whoever heard it may be killed before it is saved. */
const MAX_HEARD_BYTES = 1024 * 1024;
const FINAL = new Set([1007, 1008, 1009, 4400, 4401, 4403]);
const LOST = new Set([4404, 4409]);
const BEGIN_AGAIN = new Set(["INTERNAL", "SESSION_CLOSED"]);
const SAY_AGAIN = new Set(["gap_timeout", "lost", "forgotten", "no_available_node", "rate_limited",
  "scheduler_dependency_down", "outcome_unknown", "shutting_down"]);
const MISSING = { PREFERRED_NODE_UNAVAILABLE: "no_available_node", PREFERRED_NODE_NOT_CAPABLE: "no_capable_node" };
const [AUDIO, END, PING, PONG] = [0x01, 0x02, 0x10, 0x11];

const reasonOf = error => MISSING[error.error] ?? error.error.toLowerCase();
const fromBase64 = text => {
  try {
    return Uint8Array.from(atob(text), one => one.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
};

/** Whatever goes wrong: its code, and whether the same may succeed later. */
export class LinguaError extends Error {
  constructor(code, detail, { retryable = false, retryAfterMs = null, traceId = null, reason = null } = {}) {
    super(`${code}: ${detail}`);
    Object.assign(this, { name: "LinguaError", code, detail, retryable, retryAfterMs, traceId, reason });
  }
}

const refusedBy = error => new LinguaError(error.error, error.detail, {
  retryable: error.retryable, retryAfterMs: error.retry_after_ms ?? null, traceId: error.trace_id });

/** From the first `session_init` to the end, over as many sockets as it takes. */
export class Conversation {
  ack = null;
  isOpen = false;
  isOver = false;
  isClosing = false;
  failure = null;
  refused = null;
  againAfterMs = 0;
  slowUntil = 0;
  outbox = [];
  #init; #said = new Map(); #nextIndex = 0; #held = new Map(); #lastEvent = 0; #taken = 0;
  /** Chunks without their pong, and the last of those that had theirs. */
  #unsure = []; #unsureBytes = 0; #heard = []; #heardBytes = 0; #seq = FIRST_SEQ - 1; #nextBeginning = FIRST_SEQ - 1;
  #causes = new Map(); #lastError = null;

  constructor(init) { this.#init = init; }

  get isDone() { return this.isOver || this.failure !== null; }
  get maySend() { return this.#unsureBytes < MAX_UNSURE_BYTES; }

  hello() {
    this.refused = this.#lastError = null;
    if (this.ack === null) return JSON.stringify(this.#init);
    const { type, client_version, platform } = this.#init;
    const { resume_token } = this.ack;
    return JSON.stringify({ type, client_version, platform, resume_token, last_event_id: this.#lastEvent });
  }

  lost(code) {
    const error = this.#lastError, wasOpen = this.isOpen;
    this.#leave();
    this.againAfterMs = error !== null && error.retryable && (this.refused || code > 1000) ? error.retry_after_ms ?? 0 : 0;
    const detail = error?.detail ?? `closed with ${code}`;
    // A connection that is not the latest is refused: the next one is.
    if (code === 4409 && !wasOpen) return;
    if (LOST.has(code)) this.fail(new LinguaError("SESSION_LOST", detail, { retryable: code === 4404 }));
    else if (FINAL.has(code)) this.fail(new LinguaError(error?.error ?? "FORBIDDEN", detail));
  }

  fail(failure) {
    if (!this.isDone) this.failure = failure;
    this.#leave();
  }

  #leave() {
    this.isOpen = false;
    this.outbox.length = 0;
  }

  say(utterance) {
    const index = this.#nextIndex++;
    const frame = JSON.stringify({ ...utterance, utterance_index: index, session_id: this.ack.session_id });
    const said = { frame, times: 0 };
    this.#said.set(index, said);
    if (this.isOpen) this.#utter(said);
    return index;
  }

  #utter(said) {
    said.times += 1;
    this.outbox.push(said.frame);
  }

  stream(audio) {
    for (let at = 0; at < audio.length; at += PIECE_BYTES) {
      this.#add(this.#frame(AUDIO, this.#seq + 1, audio.slice(at, at + PIECE_BYTES)));
    }
  }

  cut() { this.#add(this.#frame(END, this.#seq + 1)); }

  #add(frame) {
    this.#seq += 1;
    this.#unsure.push({ seq: this.#seq, frame });
    this.#unsureBytes += frame.length;
    if (!this.isOpen) return;
    if (this.#seq === FIRST_SEQ) this.#begin();
    this.outbox.push(frame, this.#ping(this.#seq));
  }

  #begin() {
    this.outbox.push(this.#frame(AUDIO, this.#nextBeginning));
    this.#nextBeginning = Math.max(0, this.#nextBeginning - 1);
  }

  #frame(kind, seq, audio = new Uint8Array()) {
    const name = new TextEncoder().encode(this.ack.session_id);
    const head = kind === AUDIO ? 12 : 10;
    const frame = new Uint8Array(head + name.length + audio.length);
    const view = new DataView(frame.buffer);
    view.setUint8(0, kind);
    view.setUint8(1, name.length);
    view.setUint32(2, seq, true);
    view.setUint32(6, Date.now() % 2 ** 32, true);
    frame.set(name, head);
    frame.set(audio, head + name.length);
    return frame;
  }

  /** Its pong says that everything up to here was heard. */
  #ping(seq) {
    const frame = new Uint8Array(5);
    frame[0] = PING;
    new DataView(frame.buffer).setUint32(1, seq, true);
    return frame;
  }

  beat() {
    if (!this.isOpen) return;
    const { session_id } = this.ack;
    this.outbox.push(JSON.stringify({ type: "client_heartbeat", session_id, last_event_id: this.#taken }));
    if (this.#unsure.length) this.outbox.push(this.#ping(this.#seq));
  }

  close() {
    if (this.isClosing) return;
    this.isClosing = true;
    if (this.isOpen) this.#sayGoodbye();
  }

  #sayGoodbye() {
    const { session_id } = this.ack;
    this.outbox.push(JSON.stringify({ type: "session_close", session_id, reason: "done" }));
  }

  hear(data) {
    if (typeof data !== "string") {
      const frame = new DataView(data);
      if (frame.byteLength === 5 && frame.getUint8(0) === PONG) this.#heardUpTo(frame.getUint32(1, true));
      return;
    }
    const said = JSON.parse(data);
    switch (said.type) {
      case "session_init_ack": return this.#agree(said);
      case "translation_result": return this.#end(said, resultOf(said));
      case "missing_result": return this.#miss(said);
      case "asr_partial":
        this.#held.set(`partial ${said.utterance_index}`, { item: { type: "partial", utteranceIndex: said.utterance_index,
          text: said.text, isFinal: said.is_final, traceId: said.trace_id } });
        return;
      case "backpressure": this.slowUntil = Math.max(this.slowUntil, Date.now() + (said.resume_after_ms ?? 1000)); return;
      case "error": return this.#hearError(said);
      case "session_close_ack": this.isOver = true;
    }
  }

  /** The session is open, or goes on: everything that may have been lost is said again, in order. */
  #agree(ack) {
    this.ack = ack;
    this.isOpen = true;
    for (const said of this.#said.values()) this.#utter(said);
    if (typeof ack.heard_seq === "number") this.#goOn(ack.heard_seq);
    if (this.#unsure.length && !(ack.heard_seq >= 0)) this.#begin();
    if (this.#unsure.length) this.outbox.push(...this.#unsure.map(chunk => chunk.frame), this.#ping(this.#seq));
    if (this.isClosing) this.#sayGoodbye();
  }

  /** The scheduler has this and what is below, and nothing above, whatever another has heard. */
  #goOn(seq) {
    while (this.#heard.length && this.#heard.at(-1).seq > seq) {
      const chunk = this.#heard.pop();
      this.#heardBytes -= chunk.frame.length;
      this.#unsure.unshift(chunk);
      this.#unsureBytes += chunk.frame.length;
    }
    this.#heardUpTo(seq);
  }

  #heardUpTo(seq) {
    while (this.#unsure.length && this.#unsure[0].seq <= seq) {
      const chunk = this.#unsure.shift();
      this.#unsureBytes -= chunk.frame.length;
      this.#heard.push(chunk);
      this.#heardBytes += chunk.frame.length;
    }
    while (this.#heardBytes > MAX_HEARD_BYTES) this.#heardBytes -= this.#heard.shift().frame.length;
  }

  #hearError(error) {
    this.#lastError = error;
    if (this.isOpen) {
      this.#causes.set(`${error.trace_id} ${reasonOf(error)}`, error);
      if (this.#causes.size > 64) this.#causes.delete(this.#causes.keys().next().value);
    } else if (error.error === "INVALID_SESSION") {
      this.fail(new LinguaError("SESSION_LOST", error.detail, { retryable: true }));
    } else {
      this.refused = refusedBy(error);
      if (!error.retryable && !BEGIN_AGAIN.has(error.error)) this.fail(this.refused);
    }
  }

  #miss(said) {
    const resent = (this.#said.get(said.utterance_index)?.times ?? 0) > 1;
    const reason = resent && said.reason === "invalid_message" ? "lost" : said.reason;
    const key = `${said.trace_id} ${reason}`;
    const cause = this.#causes.get(key);
    this.#causes.delete(key);
    this.#end(said, {
      type: "missing", utteranceIndex: said.utterance_index, reason, traceId: said.trace_id,
      code: cause?.error ?? reason.toUpperCase(), detail: cause?.detail ?? `there is no result: ${reason}`,
      retryable: cause?.retryable ?? SAY_AGAIN.has(reason), retryAfterMs: cause?.retry_after_ms ?? null,
    });
  }

  /** The one end of an utterance. What we have had, we have had. */
  #end(said, item) {
    if (said.event_id <= this.#lastEvent) return;
    this.#lastEvent = said.event_id;
    this.#said.delete(said.utterance_index);
    this.#held.set(`end ${said.utterance_index}`, { item, eventId: said.event_id });
  }

  /** The next for the app, which has it then. */
  take() {
    const [key, held] = this.#held.entries().next().value ?? [];
    if (held === undefined) return null;
    this.#held.delete(key);
    if (held.eventId) {
      this.#taken = held.eventId;
      if (this.isOpen) this.outbox.push(JSON.stringify({ type: "event_ack", last_event_id: held.eventId }));
    }
    return held.item;
  }
}

const resultOf = said => ({ type: "result", utteranceIndex: said.utterance_index, textAsr: said.text_asr,
  textTranslated: said.text_translated, ttsAudio: fromBase64(said.tts_audio), ttsFormat: said.tts_format, jobId: said.job_id,
  traceId: said.trace_id, serviceTimings: said.service_timings, networkTimings: said.network_timings, extra: said.extra });
