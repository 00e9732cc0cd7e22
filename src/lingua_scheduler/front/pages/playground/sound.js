/** Plays what came back: 16-bit samples at 16 kHz, or whatever the browser can read. One after the other. */

import { signal } from "../html.js";

const RATE = 16_000;
const RIFF = 0x52494646;

/** What is heard now; "": nothing. */
export const playing = signal("");
let context = null;
let turn = Promise.resolve();
let source = null;

const decode = async (bytes, format) => {
  const isWav = bytes.length > 4 && new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) === RIFF;
  if (isWav || !["", "pcm16"].includes(format)) return context.decodeAudioData(bytes.slice().buffer);
  const samples = new Int16Array(bytes.slice(0, bytes.length & ~1).buffer);
  const buffer = context.createBuffer(1, Math.max(1, samples.length), RATE);
  buffer.getChannelData(0).set(Float32Array.from(samples, one => one / 32_768));
  return buffer;
};

const sound = async (key, bytes, format) => {
  context ??= new AudioContext();
  // Before the visitor has done anything, a browser keeps still.
  if (context.state === "suspended") context.resume();
  let buffer;
  try {
    buffer = await decode(bytes, format);
  } catch {
    return;
  }
  await new Promise(over => {
    source = new AudioBufferSourceNode(context, { buffer });
    source.connect(context.destination);
    source.onended = over;
    playing.value = key;
    source.start();
  });
  playing.value = "";
};

/** When its turn comes. */
export const play = (key, bytes, format) => {
  turn = turn.then(() => sound(key, bytes, format));
  return turn;
};

/** Be silent. */
export const hush = () => source?.stop();
