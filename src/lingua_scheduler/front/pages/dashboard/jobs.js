/** The jobs: those under way and those that ended a moment ago, or whichever somebody searches for. */

import { Trouble } from "../errors/trouble.js";
import { batch, html, signal } from "../html.js";
import { number, say } from "../i18n.js";
import { inAddress, setAddress } from "../place.js";
import { call, troubleOf } from "./call.js";
import { chosenJob, colourOf, look, lookAgain, lookFor, why } from "./job.js";
import { ago, date, ms } from "./times.js";
import { serverNow } from "./watch.js";

const LOOK_MS = 2_000;
const PAGE = 50;
/** A search looks at some thousand jobs before it asks whether to go on. */
const MOST_PAGES = 10;
const STATES = ["RESERVED", "DISPATCHED", "ACCEPTED", "RUNNING", "WAITING", "RETRYING", "FINISHED", "FAILED", "CANCELLED", "EXPIRED"];
const HEADS = ["job", "state", "pair", "session", "node", "attempts", "age", "took", "why"];

const wanted = signal(inAddress("jobs"));
/** What the list is of. */
let words = wanted.peek().trim();
/** By id, in their order; null: nobody has looked yet. */
const found = signal(null);
/** Where the next page begins; "": there is none. */
const cursor = signal("");
const refusal = signal(null);
const isBusy = signal(false);
let isLong = false;
let turn = 0;

/** A state by the name that it has on this page is that state. */
const inCodes = said => said.split(/\s+/).map(word => STATES.find(state => say(`state.${state}`) === word) ?? word).join(" ");

/** The list from its beginning, or what comes after it. Whoever asks later is answered, and nobody else. */
const ask = async isMore => {
  const mine = ++turn;
  const jobs = new Map(isMore ? found.peek() : []);
  const least = jobs.size + PAGE;
  let next = isMore ? cursor.peek() : "";
  isBusy.value = true;
  try {
    for (let page = 0; page < MOST_PAGES && jobs.size < least && (next || page === 0); page += 1) {
      const said = await call("GET", `/v1/jobs?${new URLSearchParams({ q: inCodes(words), limit: PAGE, cursor: next })}`);
      if (mine !== turn) return;
      for (const job of said.jobs) jobs.set(job.job_id, job);
      next = said.cursor ?? "";
    }
    batch(() => {
      found.value = jobs;
      cursor.value = next;
      refusal.value = null;
    });
  } catch (error) {
    // Without a code nobody has refused anything: the strip above says that nothing is heard.
    if (mine === turn && error.code) refusal.value = troubleOf(error);
  } finally {
    if (mine === turn) isBusy.value = false;
  }
};

const search = async event => {
  event.preventDefault();
  words = wanted.peek().trim();
  isLong = false;
  setAddress({ jobs: words });
  await ask(false);
  if (found.peek()?.size === 1 && found.peek().has(words) && chosenJob.peek() !== words) lookFor(words);
};

const showMore = () => {
  isLong = true;
  return ask(true);
};

/** Look now and then: at what is chosen, and at the newest. What was searched for stays until somebody searches again. */
const lookOften = () => {
  setTimeout(async () => {
    if (!document.hidden) await Promise.all([lookAgain(), words || isLong || isBusy.peek() ? undefined : ask(false)]);
    lookOften();
  }, LOOK_MS);
};

export const lookAtJobs = () => {
  look();
  ask(false);
  lookOften();
};

const Row = ({ job }) => {
  const colour = colourOf(job.state);
  return html`
    <tr data-row=${job.job_id}>
      <th scope="row"><button class="name" aria-expanded=${chosenJob.value === job.job_id} onClick=${() => lookFor(chosenJob.peek() === job.job_id ? "" : job.job_id)}>${job.job_id}</button></th>
      <td><span class=${`dot ${colour}`}></span> <span class=${colour}>${say(`state.${job.state}`)}</span></td>
      <td>${job.src_lang} → ${job.tgt_lang}</td>
      <td class="session" title=${job.session_id}>${job.session_id}</td>
      <td>${job.node_id ?? ""}</td>
      <td class="number">${number(job.attempts)}</td>
      <td class="number" title=${date(job.created_at_ms)}>${ago(serverNow.value - job.created_at_ms)}</td>
      <td class="number">${job.ended_at_ms ? ms(job.ended_at_ms - job.created_at_ms) : ""}</td>
      <td class="why">${job.reason ? why(job.reason) : ""}</td>
    </tr>`;
};

export const Jobs = () => {
  const jobs = [...found.value?.values() ?? []];
  return html`
    <section class="card jobs" aria-labelledby="jobs-title" aria-busy=${isBusy.value}>
      <div class="head"><h2 id="jobs-title">${say("jobs")}</h2>
        <span class="dim note" role="status">${isBusy.value && words ? say("jobs.busy") : found.value ? say(cursor.value ? "jobs.some" : "jobs.all", { count: number(jobs.length) }) : ""}</span>
        <form class="row" role="search" onSubmit=${search}>
          <input type="search" id="jobs" value=${wanted.value} onInput=${event => { wanted.value = event.currentTarget.value; }} aria-label=${say("jobs.search")} placeholder=${say("jobs.search")} />
          <button class="small">${say("jobs.look")}</button>
        </form></div>
      ${refusal.value && html`<div role="alert"><${Trouble} error=${refusal.value} /></div>`}
      ${found.value && jobs.length === 0 && html`<p class="dim">${say(words ? "jobs.unknown" : "jobs.none")}</p>`}
      ${jobs.length > 0 && html`
      <div class="scroll tall" tabindex="0" role="region" aria-labelledby="jobs-title"><table>
        <thead><tr>${HEADS.map(name => html`<th key=${name} scope="col">${say(`head.${name}`)}</th>`)}</tr></thead>
        <tbody>${jobs.map(job => html`<${Row} key=${job.job_id} job=${job} />`)}</tbody>
      </table></div>`}
      ${cursor.value && html`<p class="after"><button class="small" data-more disabled=${isBusy.value} onClick=${showMore}>${say("jobs.more")}</button></p>`}
    </section>`;
};
