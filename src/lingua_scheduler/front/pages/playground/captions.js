/** What was said and what it means, utterance by utterance. */

import { Trouble } from "../errors/trouble.js";
import { html } from "../html.js";
import { say } from "../i18n.js";
import { hush, play, playing } from "./sound.js";
import { Stages } from "./stages.js";
import { forget, utterances } from "./talk.js";

const Speech = ({ utterance }) => {
  const { key, result } = utterance;
  if (!result) return null;
  if (!result.ttsAudio.length) return html`<span class="dim note">${say("no.speech")}</span>`;
  return playing.value === key
    ? html`<button class="small" onClick=${hush} aria-label=${say("hush")}><span aria-hidden="true">■</span></button>`
    : html`<button class="small" onClick=${() => play(key, result.ttsAudio, result.ttsFormat)}><span aria-hidden="true">▶</span> ${say("play")}</button>`;
};

const Utterance = ({ utterance }) => {
  const { index, src, tgt, partial, result, missing } = utterance;
  return html`
    <li class="utterance" data-index=${index} data-end=${result ? "result" : missing ? "missing" : ""}>
      <div class="head" aria-live="off"><span><b class="number">${index + 1}</b> ${src} → ${tgt}</span><${Speech} utterance=${utterance} /></div>
      ${result
        ? html`<p class="heard" lang=${src}>${result.textAsr}</p><p class="meant" lang=${tgt}>${result.textTranslated}</p>
          ${result.extra?.simulated === true && html`<p class="dim note" data-simulated>${say("simulated")}</p>`}`
        : !missing && html`<p class="heard open" lang=${partial ? src : undefined}>${partial || say("listening")}</p>`}
      ${missing && html`<${Trouble} error=${missing} />`}
      <div class="times" aria-live="off"><${Stages} utterance=${utterance} /></div>
    </li>`;
};

export const Captions = () => html`
  <section class="card captions" aria-labelledby="captions-title">
    <div class="head"><h2 id="captions-title">${say("captions")}</h2>
      ${utterances.value.length > 0 && html`<button class="small" onClick=${forget} aria-label=${`${say("captions.clear")}: ${say("captions")}`}>${say("captions.clear")}</button>`}
    </div>
    <ol class="utterances" reversed tabindex=${utterances.value.length ? 0 : undefined} aria-labelledby="captions-title" aria-live="polite" aria-relevant="additions text">
      ${utterances.value.toReversed().map(one => html`<${Utterance} key=${one.key} utterance=${one} />`)}
    </ol>
    ${utterances.value.length === 0 && html`<p class="dim">${say("captions.none")}</p>`}
  </section>`;
