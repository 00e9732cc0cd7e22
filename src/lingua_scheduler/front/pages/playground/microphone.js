/** The microphone: on or off, and how loud it is. */

import { effect, signal } from "../html.js";
import { isOpen, session, trouble } from "./talk.js";

/** `off`, `starting` or `on`. */
export const microphone = signal("off");
/** From 0 to 1. */
export const level = signal(0);
let begun = null;

const measure = media => {
  const context = new AudioContext();
  const analyser = new AnalyserNode(context, { fftSize: 1024 });
  context.createMediaStreamSource(media).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const timer = setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    const power = samples.reduce((sum, one) => sum + one * one, 0) / samples.length;
    level.value = Math.min(1, Math.sqrt(power) * 3);
  }, 60);
  return () => {
    clearInterval(timer);
    level.value = 0;
    context.close();
  };
};

const begin = async () => {
  if (!navigator.mediaDevices) throw { code: "MICROPHONE_INSECURE", detail: location.origin };
  let media;
  try {
    media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  } catch (error) {
    throw { code: "MICROPHONE_REFUSED", detail: error.message, retryable: true };
  }
  const still = measure(media);
  const rest = () => {
    still();
    for (const track of media.getTracks()) track.stop();
  };
  try {
    const ear = await (await session()).listen(media);
    return async () => {
      rest();
      await ear.stop();
    };
  } catch (error) {
    rest();
    throw error;
  }
};

/** Listen from now on. */
export const listen = () => {
  if (begun !== null) return;
  microphone.value = "starting";
  const mine = begun = begin();
  mine.then(() => { if (begun === mine) microphone.value = "on"; }, error => {
    if (begun === mine) {
      begun = null;
      microphone.value = "off";
    }
    // What became of the session is told by whoever hears it.
    if (error?.code?.startsWith("MICROPHONE")) trouble(error);
  });
};

/** What was heard is an utterance. */
export const rest = async () => {
  const mine = begun;
  if (mine === null) return;
  begun = null;
  microphone.value = "off";
  try {
    await (await mine)();
  } catch { /* It is told above, or by the session. */ }
};

// Nobody listens any more: so nothing is recorded either.
effect(() => { if (!isOpen.value && microphone.peek() === "on") rest(); });

export const turn = () => begun === null ? listen() : rest();
