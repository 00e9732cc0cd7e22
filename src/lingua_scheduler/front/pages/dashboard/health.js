/** What is wrong, in words. */

import { Trouble } from "../errors/trouble.js";
import { html } from "../html.js";
import { say } from "../i18n.js";
import { trouble } from "./call.js";
import { inWords } from "./phrases.js";
import { link, staleMs, stats } from "./watch.js";

export const Health = () => {
  const problems = (stats.value?.health.problems ?? []).map(inWords);
  const stale = staleMs.value;
  const state = link.value === "out" ? "out" : stale ? "stale" : !stats.value ? ({ lost: "lost", away: "away", full: "full" }[link.value] ?? "waiting") : problems.length ? "problems" : "well";
  return html`
    <section class=${`health ${state}`} data-state=${state} role="status" aria-label=${say("health")}>
      <p class="state"><span class=${`dot ${{ well: "good", problems: "warn", waiting: "" }[state] ?? "bad"}`}></span>
        <b>${state === "stale" ? say("health.stale", { s: Math.round(stale / 1000) }) : say(`health.${state}`)}</b></p>
      ${state === "out" && html`<a href=${`sign-in?next=${encodeURIComponent(`dashboard${location.search}`)}`}>${say("sign.in")}</a>`}
      ${state === "stale" && link.value === "full" && html`<p>${say("health.full")}</p>`}
      <ul>${problems.map(one => html`<li key=${one}>${one}</li>`)}</ul>
      ${trouble.value && html`<div role="alert"><${Trouble} error=${trouble.value} dismiss=${() => { trouble.value = null; }} /></div>`}
    </section>`;
};
