/** The playground: speak, see and hear what it means, and watch it happen. */

import { effect, html, render } from "../html.js";
import { learn, say } from "../i18n.js";
import { Top } from "../shell.js";
import { Captions } from "./captions.js";
import { Code } from "./code.js";
import { Connection } from "./connection.js";
import { Frames } from "./frame_list.js";
import { Languages } from "./languages.js";
import { listen, rest } from "./microphone.js";
import { Say } from "./say.js";
import { Troubles } from "./trouble.js";
import { askPairs, pairs, token } from "./wishes.js";
import words from "./words.js";

learn(words);

/** How often to ask which pairs there are; more often while there are none. */
const PAIRS_MS = 15_000;
const NO_PAIRS_MS = 2_000;

const Playground = () => html`
  <${Top} here="playground" />
  <main id="content">
    <div class="title"><h1>${say("title")}</h1><p class="dim">${say("lead")}</p></div>
    <div class="columns">
      <div class="column">
        <section class="card say" aria-label=${say("talk")}><${Languages} /><${Say} /><${Connection} /><${Troubles} /></section>
        <${Code} />
      </div>
      <div class="column"><${Captions} /><${Frames} /></div>
    </div>
  </main>`;

/** Whether a key is somebody's who writes or presses something: then it is not for the microphone. */
const isTaken = ({ target }) => target.closest?.("input, textarea, select, button, a, summary, [role=tab]") && !target.closest(".talk");

let isHeld = false;
addEventListener("keydown", event => {
  if (event.code !== "Space" || isTaken(event)) return;
  event.preventDefault();
  if (event.repeat || isHeld) return;
  isHeld = true;
  listen();
});
addEventListener("keyup", event => {
  if (event.code !== "Space" || !isHeld) return;
  event.preventDefault();
  isHeld = false;
  rest();
});
// Whoever lets the key go elsewhere does not speak on without knowing.
addEventListener("blur", () => {
  if (isHeld) rest();
  isHeld = false;
});

effect(() => { document.title = `${say("title")} · Lingua Scheduler`; });
let next = 0;
const ask = async () => {
  clearTimeout(next);
  if (document.hidden || await askPairs()) next = setTimeout(ask, pairs.peek()?.size ? PAIRS_MS : NO_PAIRS_MS);
};
effect(() => {
  token.value;
  ask();
});
render(html`<${Playground} />`, document.body);
