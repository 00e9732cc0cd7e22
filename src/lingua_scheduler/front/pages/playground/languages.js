/** From which language to which: any tag, and those that somebody serves to choose from. */

import { batch, html, signal } from "../html.js";
import { nameOf, number, say } from "../i18n.js";
import { pairs, sources, src, tagIn, targets, tgt } from "./wishes.js";

/** Of more pairs so many are shown, until somebody wants to see them all. */
const MOST_SHOWN = 12;
const isOpen = signal(false);
const USUAL = ["en", "zh", "es", "fr", "de", "ja", "ko", "pt", "it", "ru", "ar", "hi", "yue"];

const Tag = ({ id, label, value, known }) => html`
  <div class="tag">
    <label class="label" for=${id}>${label}</label>
    <input type="text" id=${id} list=${`${id}-known`} value=${value.value} maxlength="35" spellcheck=${false} autocapitalize="off" autocomplete="off"
      aria-describedby=${`${id}-name`} onChange=${event => {
        const tag = tagIn(event.target.value);
        if (tag) value.value = tag;
        event.target.value = value.value;
      }} />
    <datalist id=${`${id}-known`}>
      ${(known.value.length ? known.value : USUAL).map(tag => html`<option value=${tag}>${nameOf(tag)}</option>`)}
    </datalist>
    <span class="dim name" id=${`${id}-name`}>${nameOf(value.value) || "\u00a0"}</span>
  </div>`;

const set = (from, to) => batch(() => {
  src.value = from;
  tgt.value = to;
});

/** How many nodes take jobs for a pair; undefined: nobody serves it. */
const livingIn = (all, from, to) => {
  const found = [`${from}:${to}`, `${from}:*`].filter(pair => all.has(pair)).map(pair => all.get(pair));
  return found.length ? Math.max(...found) : undefined;
};

/** What the fleet can do, as far as we may know. */
const Served = () => {
  const all = pairs.value;
  if (all === null) return null;
  if (all.size === 0) {
    const [before, between, after] = say("nobody", { demo: "\u0000", node: "\u0000" }).split("\u0000");
    return html`<p class="hint">${before}<code>lingua demo</code>${between}<code>lingua new node my_node.py</code>${after}</p>`;
  }
  const choices = [...all.keys()].filter(pair => all.get(pair) && !pair.endsWith(":*"));
  const more = choices.length - MOST_SHOWN;
  const turn = say(isOpen.value ? "served.fewer" : "served.more", { count: number(more) });
  const base = tag => tag.split("-")[0].toLowerCase();
  const living = livingIn(all, base(src.value), base(tgt.value));
  return html`
    ${choices.length > 0 && html`<div class="pairs" role="group" aria-label=${say("served")}>
      <span class="dim">${say("served")}</span>
      ${choices.slice(0, isOpen.value ? choices.length : MOST_SHOWN).map(pair => {
        const [from, to] = pair.split(":");
        return html`<button key=${pair} class="small" aria-pressed=${from === src.value && to === tgt.value} onClick=${() => set(from, to)}
          title=${`${nameOf(from)} → ${nameOf(to)}`}>${from} → ${to}</button>`;
      })}
      ${more > 0 && html`<button class="small" data-more aria-expanded=${isOpen.value} aria-label=${turn} title=${turn}
        onClick=${() => { isOpen.value = !isOpen.value; }}>${isOpen.value ? "−" : `+${number(more)}`}</button>`}
    </div>`}
    ${!living && html`
      <p class="hint warn">${say(living === 0 ? "unserved.now" : "unserved", { pair: `${src.value} → ${tgt.value}` })}</p>`}`;
};

export const Languages = () => html`
  <div class="languages">
    <${Tag} id="src" label=${say("from")} value=${src} known=${sources} />
    <button class="quiet swap" aria-label=${say("swap")} title=${say("swap")} onClick=${() => set(tgt.value, src.value)}><span aria-hidden="true">⇄</span></button>
    <${Tag} id="tgt" label=${say("to")} value=${tgt} known=${targets} />
  </div>
  <${Served} />`;
