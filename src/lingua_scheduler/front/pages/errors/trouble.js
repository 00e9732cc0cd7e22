/** What went wrong, in words: its code, what it means, what was said of it, and whether to try again. */

import { html } from "../html.js";
import { hasWord, learn, number, say } from "../i18n.js";
import words from "./words.js";

learn(words);

const againOf = ({ retryable, retryAfterMs }) => {
  if (!retryable) return say("retry.no");
  return retryAfterMs ? say("retry.after", { s: number(Math.ceil(retryAfterMs / 100) / 10) }) : say("retry.yes");
};

const nodesIn = breakdown => Object.entries(breakdown)
  .filter(([name, n]) => n > 0 && hasWord(`breakdown.${name}`))
  .map(([name, n]) => say(`breakdown.${name}`, { n: number(n) })).join(", ");

/** @param {{error: {code: string, detail: string, retryable: boolean, retryAfterMs: ?number, breakdown?: object}, dismiss?: function}} props */
export const Trouble = ({ error, dismiss }) => html`
  <div class="trouble">
    <p><strong>${say(hasWord(`error.${error.code}`) ? `error.${error.code}` : "error.other")}</strong> ${againOf(error)}</p>
    <p class="dim"><span class="code">${error.code}</span> ${error.detail}</p>
    ${error.breakdown && html`<p class="dim">${say("breakdown", { nodes: nodesIn(error.breakdown) })}</p>`}
    ${dismiss && html`<button class="small" onClick=${dismiss}>${say("dismiss")}</button>`}
  </div>`;
