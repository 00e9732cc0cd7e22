/**
 * A client of Lingua Scheduler for browsers. Plain modules, without dependencies.
 *
 *   import { Client } from "http://127.0.0.1:5010/sdk/lingua.js";
 *   const stream = await new Client().stream({ src: "en", tgt: "zh" });
 *   await stream.listen();                       // the microphone
 *   for await (const said of stream) console.log(said);
 *
 * A lost connection is mended here: every result is handed over once, in order. docs/client-sdk.md tells the rules.
 *
 * @typedef {{type: "partial", utteranceIndex: number, text: string, isFinal: boolean, traceId: string}} Partial
 *   What was understood so far; each replaces the one before.
 * @typedef {{type: "result", utteranceIndex: number, textAsr: string, textTranslated: string, ttsAudio: Uint8Array,
 *   ttsFormat: string, jobId: string, traceId: string, serviceTimings?: object, networkTimings?: object,
 *   extra?: object}} Result   What an utterance means.
 * @typedef {{type: "missing", utteranceIndex: number, reason: string, code: string, detail: string, retryable: boolean,
 *   retryAfterMs: ?number, traceId: string}} Missing   There will be no result, and why.
 * @typedef {{src: string, tgt: string, speak?: boolean, traceparent?: string, options?: object, pipeline?: object}} Wishes
 *   Also any other field of `session_init` or `utterance`, as it is on the wire. `speak`: answer with speech, too.
 *   `traceparent`: the span (W3C trace context) for which this is done.
 * @typedef {{way: "out" | "in", data: string | Uint8Array, atMs: number}} Frame   What went over a socket, and when
 *   (`performance.now()`).
 * @typedef {{name: "connecting" | "open" | "lost" | "closed", sessionId: ?string, isResumed?: boolean, code?: ?number,
 *   againInMs?: number}} State   How a session stands: `lost` comes back by itself, `closed` does not.
 */

import { Conversation, LinguaError } from "./conversation.js";

export { LinguaError };

const RATE = 16_000;
const CHUNK_MS = 100;
const BEAT_MS = 10_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
const MOST_ASKED_MS = 60_000;
const MOST_IDLE = 8;
const IDLE_MS = 60_000;
const LEAVE_MS = 5_000;
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/;

const bytesOf = audio => ArrayBuffer.isView(audio)
  ? new Uint8Array(audio.buffer, audio.byteOffset, audio.byteLength) : new Uint8Array(audio);
const toBase64 = bytes => {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(text);
};
const hex = bytes => Array.from(bytes, one => one.toString(16).padStart(2, "0")).join("");

/** What a function of the app says. What it throws is the app's affair, and stops nothing here. */
const heard = (ask, ...told) => {
  try {
    return ask?.(...told);
  } catch (error) {
    reportError(error);
  }
};

/** The trace that a `traceparent` names, and both as a message has them; nothing if it is none. */
const traced = parent => {
  const trace = TRACEPARENT.exec(parent ?? "")?.[1];
  return trace ? { trace_id: trace, traceparent: parent } : {};
};

/** Audio without a word, for whoever wants to try something. @param {number} ms */
export const silence = ms => new Int16Array(RATE * ms / 1000);

/** Holds a conversation on sockets, one after the other. */
class Link {
  #socket = null; #tries = 0; #waiting = []; #timers = []; #isLeft = false; #isClosed = false; #heardAt = 0; #givesUpAt;

  constructor(client, init) {
    this.client = client;
    this.talk = new Conversation({ type: "session_init", client_version: "lingua.js", platform: "web", ...init });
    this.#givesUpAt = Date.now() + client.connectTimeoutMs;
  }

  #tell(name, more = {}) {
    if (this.#isClosed) return;
    this.#isClosed = name === "closed";
    heard(this.client.onState, { name, sessionId: this.talk.ack?.session_id ?? null, ...more });
  }

  #send(frame) {
    heard(this.client.onFrame, { way: "out", data: frame, atMs: performance.now() });
    this.#socket.send(frame);
  }

  async open() {
    this.#connect();
    await this.until(() => this.talk.ack !== null);
    return this;
  }

  async until(isSo) {
    while (!isSo()) {
      if (this.talk.failure) throw this.talk.failure;
      if (this.#isLeft) throw new LinguaError("SESSION_CLOSED", "this connection was closed here");
      await new Promise(again => this.#waiting.push(again));
    }
  }

  async next() {
    let item;
    await this.until(() => (item = this.talk.take()) !== null || this.talk.isOver);
    this.ring();
    return item;
  }

  async maySend() {
    if (this.talk.failure) throw this.talk.failure;
    await this.until(() => this.talk.maySend);
    for (let left; (left = this.talk.slowUntil - Date.now()) > 0;) await new Promise(again => setTimeout(again, left));
  }

  /** Something has changed: write what is to be written, and let everybody who waits look again. */
  ring() {
    if (this.#socket?.readyState === WebSocket.OPEN) {
      for (const frame of this.talk.outbox.splice(0)) this.#send(frame);
    }
    for (const again of this.#waiting.splice(0)) again();
  }

  hangUp() {
    this.#isLeft = true;
    this.#tell("closed");
    this.#drop();
    this.ring();
  }

  /** That it was all. A socket that is closed before the scheduler has said the same leaves the session there. */
  async sayGoodbye() {
    if (!this.talk.isOpen) return this.hangUp();
    this.talk.close();
    this.ring();
    // Not one of the timers of a socket: it may be lost meanwhile.
    const late = setTimeout(() => this.hangUp(), LEAVE_MS);
    await this.until(() => this.talk.isOver).catch(() => {});
    clearTimeout(late);
    this.hangUp();
  }

  #drop() {
    for (const timer of this.#timers.splice(0)) clearTimeout(timer);
    const socket = this.#socket;
    this.#socket = null;
    if (socket) socket.onopen = socket.onmessage = socket.onclose = null;
    socket?.close();
  }

  #connect() {
    this.#tell("connecting");
    const { url, token } = this.client;
    const socket = this.#socket = token ? new WebSocket(url, ["lingua.v1", `token.${token}`]) : new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const isResumed = this.talk.ack !== null;
    socket.onopen = () => this.#send(this.talk.hello());
    socket.onmessage = ({ data }) => {
      this.#heardAt = Date.now();
      const wasOpen = this.talk.isOpen;
      const frame = typeof data === "string" ? data : new Uint8Array(data);
      heard(this.client.onFrame, { way: "in", data: frame, atMs: performance.now() });
      this.talk.hear(data);
      if (this.talk.isOpen && !wasOpen) this.#tell("open", { isResumed });
      if (this.talk.refused || this.talk.failure) this.#lose(null);
      else this.ring();
    };
    socket.onclose = ({ code }) => this.#lose(code);
    this.#heardAt = Date.now();
    this.#timers.push(setInterval(() => this.#beat(), BEAT_MS));
    this.#timers.push(setTimeout(() => { if (!this.talk.isOpen) this.#lose(null); }, this.client.connectTimeoutMs));
  }

  /** A socket that answers nothing for two beats is lost, whatever the browser thinks of it. */
  #beat() {
    if (Date.now() - this.#heardAt > 2 * BEAT_MS) return this.#lose(null);
    this.talk.beat();
    this.ring();
  }

  #lose(code) {
    this.#drop();
    if (this.talk.isOpen) {
      this.#tries = 0;
      this.#givesUpAt = Date.now() + this.client.resumeForMs;
    }
    this.talk.lost(code);
    const asked = Math.min(this.talk.againAfterMs, MOST_ASKED_MS);
    const pause = asked + Math.random() * Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#tries++);
    if (Date.now() + pause > this.#givesUpAt) {
      const silent = new LinguaError("UNREACHABLE", `${this.client.url} does not answer`, { retryable: true });
      this.talk.fail(this.talk.refused ?? silent);
    }
    if (!this.talk.isDone) {
      this.#tell("lost", { code, againInMs: pause });
      this.#timers.push(setTimeout(() => this.#connect(), pause));
    } else {
      this.#tell("closed", { code });
    }
    this.ring();
  }
}

/** Somebody who speaks. Iterate it: partials, and for every utterance, in order, one result or one missing. */
export class Stream {
  #link; #microphones = new Set();
  constructor(link) { this.#link = link; }
  get sessionId() { return this.#link.talk.ack.session_id; }

  /** More audio: 16-bit samples at 16 kHz, mono. @param {ArrayBuffer | ArrayBufferView} audio */
  async send(audio) {
    await this.#maySend();
    this.#link.talk.stream(bytesOf(audio));
    this.#link.ring();
  }

  /** What was sent so far is an utterance: do not wait for a pause. */
  async cut() {
    await this.#maySend();
    this.#link.talk.cut();
    this.#link.ring();
  }

  /** Behind the end nobody would hear it, and nobody would say so. */
  async #maySend() {
    if (this.#link.talk.failure || !this.#link.talk.isClosing) await this.#link.maySend();
    this.#mustBeOpen();
  }

  #mustBeOpen() {
    if (this.#link.talk.isClosing) throw new LinguaError("STREAM_ENDED", "nothing can be sent after the end of a stream");
  }

  /** Nothing more will be sent, also by no microphone; the iteration ends when everything is answered. */
  end() {
    this.#link.talk.close();
    this.#link.ring();
    this.#hush();
  }

  #hush() {
    for (const stop of this.#microphones) stop();
  }

  /** Send what a microphone hears, until `stop`. @param {MediaStream} [media] @returns {Promise<{stop(): Promise<void>}>} */
  async listen(media) {
    this.#mustBeOpen();
    const heard = media ?? await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    const context = new AudioContext();
    await context.audioWorklet.addModule(import.meta.url);
    const ear = new AudioWorkletNode(context, "lingua-ear", { numberOfOutputs: 0 });
    ear.port.onmessage = ({ data }) => {
      // What is said while nobody can hear it for long is not kept for ever.
      if (this.#link.talk.maySend && !this.#link.talk.isDone) this.send(data).catch(() => {});
    };
    context.createMediaStreamSource(heard).connect(ear);
    const stop = async () => {
      if (!this.#microphones.delete(stop)) return;
      await context.close();
      // What is still on its way from the audio thread would begin another utterance behind the cut.
      ear.port.onmessage = null;
      if (!media) for (const track of heard.getTracks()) track.stop();
      if (!this.#link.talk.isClosing && !this.#link.talk.isDone) await this.cut();
    };
    this.#microphones.add(stop);
    if (this.#link.talk.isClosing) await stop();
    this.#mustBeOpen();
    await context.resume();
    return { stop };
  }

  /** @returns {AsyncGenerator<Partial | Result | Missing>} */
  async *[Symbol.asyncIterator]() {
    for (let item; (item = await this.#link.next()) !== null;) yield item;
    this.#link.hangUp();
  }

  /** Leave, whatever is open. */
  close() {
    this.#link.talk.close();
    this.#link.hangUp();
    this.#hush();
  }
}

/** One scheduler, as a page sees it; by default the one that this module came from. */
export class Client {
  #idle = new Map();

  /** @param {string} [url] @param {{token?: string, connectTimeoutMs?: number, resumeForMs?: number,
   *  onFrame?: function(Frame): void, onState?: function(State): void, traceparent?: function(): ?string}} [settings]
   *  `traceparent` gives the span of the app in which an utterance is said or a stream is opened, if there is one. */
  constructor(url = new URL("..", import.meta.url).href, settings = {}) {
    const { token = null, connectTimeoutMs = 5_000, resumeForMs = 120_000, onFrame, onState, traceparent } = settings;
    const socket = new URL("ws/session", url.endsWith("/") ? url : `${url}/`);
    socket.protocol = socket.protocol.replace("http", "ws");
    Object.assign(this, { url: socket.href, token, connectTimeoutMs, resumeForMs, onFrame, onState, traceparent });
  }

  /** One utterance: partials, and at last its result, or an error. @param {ArrayBuffer | ArrayBufferView} audio
   *  @param {Wishes & {audioFormat?: string, sampleRate?: number}} wishes @returns {AsyncGenerator<Partial | Result>} */
  async *translate(audio, { src, tgt, audioFormat = "pcm16", sampleRate = RATE, speak = false,
    traceparent = heard(this.traceparent), ...wishes }) {
    const said = { type: "utterance", manual_cut: true, src_lang: src, tgt_lang: tgt, audio_format: audioFormat,
      sample_rate: sampleRate, trace_id: hex(crypto.getRandomValues(new Uint8Array(16))), ...traced(traceparent),
      ...wished(wishes, speak) };
    try {
      yield* this.#translate(bytesOf(audio), said);
    } catch (error) {
      // A session that was lost while it had nothing to do costs nobody anything: there is a new one.
      if (error.code !== "SESSION_LOST") throw error;
      yield* this.#translate(bytesOf(audio), said);
    }
  }

  async *#translate(audio, said) {
    const link = await this.#borrow();
    let isFree = false;
    try {
      await link.maySend();
      const most = link.talk.ack.limits.max_utterance_bytes;
      if (audio.length > most) throw new LinguaError("PAYLOAD_TOO_LARGE", `An utterance has at most ${most} bytes.`);
      const index = link.talk.say({ ...said, audio: toBase64(audio) });
      link.ring();
      for (let item; !isFree && (item = await link.next()) !== null;) {
        if (item.utteranceIndex !== index) continue;
        if (item.type === "missing") throw new LinguaError(item.code, item.detail, item);
        isFree = item.type === "result";
        if (isFree) this.#rest(link);
        yield item;
      }
    } finally {
      if (!isFree) link.hangUp();
    }
  }

  /** A session that nobody uses: each translation has one to itself, so that none waits for another. */
  async #borrow() {
    for (const link of [...this.#idle.keys()].reverse()) {
      if (!link.talk.isDone) return this.#take(link);
      this.#take(link).hangUp();
    }
    return await new Link(this, {}).open();
  }

  /** What is more than a few, or has nothing to do for long, is given back; but one stays for who comes next. */
  #rest(link) {
    this.#idle.set(link, setTimeout(() => this.#giveBack(link), IDLE_MS));
    if (this.#idle.size > MOST_IDLE) this.#giveBack(this.#idle.keys().next().value);
  }

  #giveBack(link) { if (this.#idle.size > 1) this.#take(link).sayGoodbye(); }

  #take(link) {
    clearTimeout(this.#idle.get(link));
    this.#idle.delete(link);
    return link;
  }

  /** Somebody who speaks. @param {Wishes} wishes @returns {Promise<Stream>} */
  async stream({ src, tgt, speak = false, traceparent = heard(this.traceparent), ...wishes }) {
    const init = { src_lang: src, tgt_lang: tgt, preferred_codec: "pcm16", supports_binary_frame: true,
      ...traced(traceparent), ...wished(wishes, speak) };
    return new Stream(await new Link(this, init).open());
  }

  /** Leave all sessions that nobody uses. */
  close() {
    for (const link of [...this.#idle.keys()]) this.#take(link).sayGoodbye();
  }
}

const wished = (wishes, speak) => speak ? { ...wishes, options: { ...wishes.options, require_tts: true } } : wishes;

// The same file is the module of the audio thread: it makes 16-bit samples at 16 kHz of what the microphone gives.
if (typeof registerProcessor === "function") {
  registerProcessor("lingua-ear", class extends AudioWorkletProcessor {
    #out = new Int16Array(RATE * CHUNK_MS / 1000); #filled = 0; #sum = 0; #count = 0; #phase = 0; #last = 0;
    process([[samples]]) {
      for (const sample of samples ?? []) {
        this.#sum += sample;
        this.#count += 1;
        for (this.#phase += RATE; this.#phase >= sampleRate; this.#phase -= sampleRate) this.#put();
      }
      return true;
    }
    /** The mean of what came since the last one. */
    #put() {
      if (this.#count) this.#last = Math.max(-1, Math.min(1, this.#sum / this.#count));
      this.#sum = this.#count = 0;
      this.#out[this.#filled++] = this.#last * 32_767;
      if (this.#filled < this.#out.length) return;
      this.port.postMessage(this.#out.buffer, [this.#out.buffer]);
      this.#out = new Int16Array(RATE * CHUNK_MS / 1000);
      this.#filled = 0;
    }
  });
}
