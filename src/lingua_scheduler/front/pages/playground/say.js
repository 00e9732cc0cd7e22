/** Three ways to say something: the microphone, a sentence, a file. */

import { computed, html, signal } from "../html.js";
import { say } from "../i18n.js";
import { level, microphone, turn } from "./microphone.js";
import { playsAloud, trouble, utter } from "./talk.js";
import { SENTENCES, hum, read } from "./voice.js";
import { src, withSpeech } from "./wishes.js";

const written = signal(null);
const sentence = computed(() => written.value ?? SENTENCES[src.value.split("-")[0].toLowerCase()] ?? SENTENCES.en);

const Talk = () => {
  const [before, after] = say("talk.keys", { space: "\u0000" }).split("\u0000");
  const word = { off: "talk", starting: "talk.starting", on: "talk.stop" }[microphone.value];
  return html`
    <div class="voice">
      <button class=${`main talk ${microphone.value}`} aria-describedby="talk-keys" onClick=${turn}>
        <${Level} /><span>${say(word)}</span>
      </button>
      <p id="talk-keys" class="dim">${before}<kbd>${say("space")}</kbd>${after}</p>
    </div>`;
};

/** How loud it is, in five strokes. */
const Level = () => html`
  <svg class="level" viewBox="0 0 30 24" aria-hidden="true">
    ${[0.45, 0.8, 1, 0.7, 0.4].map((most, at) => {
      const half = 2 + 9 * most * (microphone.value === "on" ? level.value : 0.35);
      return html`<line x1=${3 + at * 6} x2=${3 + at * 6} y1=${12 - half} y2=${12 + half} />`;
    })}
  </svg>`;

const open = async event => {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  let audio;
  try {
    audio = await read(file);
  } catch {
    trouble({ code: "FILE_UNREADABLE", detail: file.name });
    return;
  }
  await utter(audio);
};

const Check = ({ label, value }) => html`
  <label class="check"><input type="checkbox" checked=${value.value} onChange=${event => { value.value = event.target.checked; }} />${label}</label>`;

export const Say = () => html`
  <${Talk} />
  <div class="sentence">
    <label class="label" for="sentence">${say("sentence")}</label>
    <form class="row" onSubmit=${event => {
      event.preventDefault();
      utter(hum(sentence.value));
    }}>
      <input type="text" id="sentence" value=${sentence.value} maxlength="200" aria-describedby="sentence-note" autocomplete="off"
        onInput=${event => { written.value = event.target.value || null; }} />
      <button>${say("sentence.say")}</button>
    </form>
    <p id="sentence-note" class="dim note">${say("sentence.note")}</p>
  </div>
  <div class="row choices">
    <${Check} label=${say("speech")} value=${withSpeech} />
    <${Check} label=${say("aloud")} value=${playsAloud} />
    <label class="button">${say("file")}<input class="unseen" type="file" accept="audio/*,.wav" onChange=${open} /></label>
  </div>`;
