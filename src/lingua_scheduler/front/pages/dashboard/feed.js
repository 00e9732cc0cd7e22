/** What happens, as it happens. */

import { html, signal } from "../html.js";
import { hasWord, number, say } from "../i18n.js";
import { inAddress, setAddress } from "../place.js";
import { inWords } from "./phrases.js";
import { clock, date } from "./times.js";
import { events, stats } from "./watch.js";

const KINDS = ["all", "node", "pair", "instance", "admin"];
const shown = signal(KINDS.includes(inAddress("feed")) ? inAddress("feed") : "all");
const SHOWN = 100;
const BAD = /_(lost|silent|suspect|cut_off|fenced|empty|panic|emptied)$|^mass_silence$|^dead_letter$/;
const GOOD = /_(joined|healed|served|calm|back|came|unmarked)$/;

const isShown = kind => shown.value === "all" || kind.startsWith(`${shown.value}_`) || (shown.value === "instance" && kind.startsWith("engine_"));

export const Event = ({ event }) => html`
  <li data-kind=${event.kind}>
    <time class="number dim" dateTime=${new Date(event.at_ms).toISOString()} title=${date(event.at_ms)}>${clock(event.at_ms)}</time>
    <p><span class=${`dot ${BAD.test(event.kind) ? "bad" : GOOD.test(event.kind) ? "good" : ""}`}></span>
      <b>${hasWord(`event.${event.kind}`) ? say(`event.${event.kind}`) : event.kind}</b> ${event.about} <span class="dim">${inWords(event.detail)}</span>
      ${event.outcome !== undefined && html` <span class="dim">${say("event.by", { who: event.who || say("event.nobody"), where: event.where })}</span>
        <span class=${event.outcome === "ok" ? "good" : "bad"}>${event.outcome}</span>`}</p>
    ${event.each && html`<details><summary>${say("event.each", { count: number(event.each.length) })}</summary>
      <ul>${event.each.map(one => html`<li key=${one.about}>${one.about} <span class="dim">${inWords(one.detail)}</span></li>`)}</ul></details>`}
  </li>`;

/** What happened to one, alone or with others; of these only what is said of it. */
export const eventsAbout = (all, name) => all.flatMap(event => {
  const one = event.each?.find(each => each.about === name);
  return one ? [{ ...event, ...one, each: undefined }] : event.about === name ? [event] : [];
});

export const Feed = () => {
  const found = events.value.filter(event => isShown(event.kind)).slice(0, SHOWN);
  const choose = event => {
    shown.value = event.currentTarget.value;
    setAddress({ feed: shown.value === "all" ? "" : shown.value });
  };
  return html`
    <section class="card feed" aria-labelledby="feed-title">
      <div class="head"><h2 id="feed-title">${say("feed")}</h2>
        <select id="feed" aria-label=${say("feed.kind")} onChange=${choose}>${KINDS.map(name => html`<option key=${name} value=${name} selected=${name === shown.value}>${say(`feed.${name}`)}</option>`)}</select></div>
      <ol class="plain" tabindex="0" aria-labelledby="feed-title">${found.map(event => html`<${Event} key=${event.id} event=${event} />`)}</ol>
      ${stats.value && found.length === 0 && html`<p class="dim">${say("feed.none")}</p>`}
    </section>`;
};
