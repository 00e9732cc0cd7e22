/** One pair: who could take a job for it now, and why each of the others could not. */

import { Trouble } from "../errors/trouble.js";
import { effect, html, signal, useEffect, useRef } from "../html.js";
import { hasWord, nameOf, number, say } from "../i18n.js";
import { inAddress, setAddress } from "../place.js";
import { call, troubleOf } from "./call.js";
import { choose, chosenNode } from "./node.js";
import { lookedAt } from "./others.js";

/** Which pair is looked at, like `en:zh`; "": none. `en:*` is every target, and one of them is to be named. */
export const chosenPair = signal(inAddress("pair"));
const found = signal(null);
const refusal = signal(null);
const isBusy = signal(false);
/** Whether whoever chose it is to be led there. */
let leads = false;
let turn = 0;
const PAGE = 1_000;
/** Of a larger fleet it is asked for only when somebody wants to know. */
let isLarge = false;
/** So many nodes are listed: those that could, and of the others those that serve the pair, come first. */
const MOST_LISTED = 200;

const isNamed = pair => pair !== "" && !pair.endsWith(":*");

/** Look at the whole fleet, page by page. Whoever asks later is answered, and nobody else. */
const look = async () => {
  const mine = ++turn;
  const pair = chosenPair.peek();
  if (!isNamed(pair)) return;
  const [src, tgt = ""] = pair.split(":");
  const verdicts = [];
  isBusy.value = true;
  try {
    let cursor = "";
    do {
      const said = await call("GET", `/v1/explain?${new URLSearchParams({ src, tgt, limit: PAGE, cursor })}`);
      if (mine !== turn) return;
      verdicts.push(...said.nodes);
      cursor = said.cursor;
      isLarge = cursor !== "" || verdicts.length > PAGE;
    } while (cursor);
    found.value = verdicts;
    refusal.value = null;
  } catch (error) {
    // Without a code nobody has refused anything: the strip above says that nothing is heard.
    if (mine === turn && error.code) refusal.value = troubleOf(error);
  } finally {
    if (mine === turn) isBusy.value = false;
  }
};

// What has changed is seen with the next look at the fleet.
effect(() => {
  if (lookedAt.value !== undefined && !isLarge && !document.hidden) look();
});

/** Look at this one; "": at none. */
export const explain = pair => {
  turn += 1;
  chosenPair.value = pair;
  found.value = refusal.value = null;
  isLarge = isBusy.value = false;
  leads = true;
  setAddress({ pair });
  return look();
};

/** Those that could, then those that serve the pair, then the others. */
const rankOf = one => !one.reason ? 0 : ["no_pool", "unknown"].includes(one.reason) ? 2 : 1;
const sorted = verdicts => verdicts.toSorted((one, other) => rankOf(one) - rankOf(other) || one.reason.localeCompare(other.reason)
  || one.node_id.localeCompare(other.node_id, "en", { numeric: true }));

const against = reason => hasWord(`against.${reason}`) ? say(`against.${reason}`) : reason;

const Row = ({ one }) => html`
  <tr data-verdict=${one.node_id} data-reason=${one.reason}>
    <th scope="row"><span class=${`dot ${one.reason ? "" : "good"}`}></span><button class="name" aria-expanded=${chosenNode.value === one.node_id} onClick=${() => choose(one.node_id)}>${one.node_id}</button></th>
    <td class=${one.reason ? "" : "good"}>${one.reason ? against(one.reason) : say("pair.could")}</td>
    <td class="number">${number(one.used)}/${number(one.max)}</td>
    <td class="number">${number(one.health)}</td>
    <td class="warn">${["suspect", "seen"].filter(word => one[word]).map(word => say(`last.${word}`)).join(", ")}</td>
  </tr>`;

const HEADS = ["node", "could", "slots", "health", "last"];

const Verdicts = ({ verdicts }) => {
  const free = verdicts.filter(one => !one.reason).length;
  return html`
    <p role="status"><b class=${free ? "good" : "bad"}>${say("pair.free", { free: number(free), all: number(verdicts.length) })}</b></p>
    ${verdicts.length > 0 && html`<div class="scroll tall" tabindex="0" role="region" aria-labelledby="pair-title"><table>
      <thead><tr>${HEADS.map(name => html`<th key=${name} scope="col">${say(`head.${name}`)}</th>`)}</tr></thead>
      <tbody>${sorted(verdicts).slice(0, MOST_LISTED).map(one => html`<${Row} key=${one.node_id} one=${one} />`)}</tbody>
    </table></div>`}
    ${verdicts.length > MOST_LISTED && html`<p class="dim note">${say("pair.more", { count: number(verdicts.length - MOST_LISTED) })}</p>`}
    ${isLarge && html`<p><button class="small" data-again disabled=${isBusy.value} onClick=${look}>${say("pair.again")}</button></p>`}`;
};

/** Of a source that is translated to every target: which one? */
const Target = ({ src }) => {
  const name = event => {
    event.preventDefault();
    const tgt = new FormData(event.currentTarget).get("tgt").trim();
    if (tgt) explain(`${src}:${tgt}`);
  };
  return html`
    <form class="row" onSubmit=${name}><label for="pair-tgt">${say("pair.every", { src })}</label>
      <input type="text" id="pair-tgt" name="tgt" maxlength="35" autocomplete="off" spellcheck=${false} /><button class="small">${say("pair.look")}</button></form>`;
};

export const PairPage = () => {
  const title = useRef(null);
  const pair = chosenPair.value;
  useEffect(() => {
    if (leads) title.current?.focus();
    leads = false;
  }, [pair]);
  if (!pair) return null;
  const [src, tgt = ""] = pair.split(":");
  return html`
    <section class="card pair" data-explained=${pair} aria-labelledby="pair-title" aria-busy=${isBusy.value}>
      <div class="head"><h2 id="pair-title" ref=${title} tabindex="-1">${src} → ${tgt}</h2><span class="dim note">${[src, tgt].map(nameOf).filter(Boolean).join(" → ")}</span>
        <button class="small close" onClick=${() => explain("")}>${say("close")}</button></div>
      ${!isNamed(pair) && html`<${Target} src=${src} />`}
      ${refusal.value && html`<div role="alert"><${Trouble} error=${refusal.value} /></div>`}
      ${found.value && html`<${Verdicts} verdicts=${found.value} />`}
    </section>`;
};
