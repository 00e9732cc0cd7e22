/** One job: its life, a bar for each attempt with its stages, and, if it did not get through, why. */

import { Trouble } from "../errors/trouble.js";
import { html, signal, useEffect, useRef } from "../html.js";
import { hasWord, say } from "../i18n.js";
import { inAddress, setAddress } from "../place.js";
import { call, confirmed, me, troubleOf } from "./call.js";
import { ms } from "./times.js";
import { serverNow } from "./watch.js";

/** Which job is looked at; "": none. */
export const chosenJob = signal(inAddress("job"));
const found = signal(null);
const refusal = signal(null);
/** Whether whoever chose it is to be led there. */
let leads = false;
const STAGES = ["reserved", "dispatched", "accepted", "started"];
const ENDS = { FINISHED: "good", FAILED: "bad", EXPIRED: "bad", CANCELLED: "warn" };
export const colourOf = state => ENDS[state] ?? (state === "WAITING" || state === "RETRYING" ? "warn" : "");

/** Look at it, now and whenever it may have changed. */
export const look = async () => {
  const jobId = chosenJob.peek();
  if (!jobId) return;
  try {
    const path = `/v1/job/${encodeURIComponent(jobId)}`;
    const [job, explained] = await Promise.all([call("GET", path), call("GET", `${path}/explain`)]);
    if (chosenJob.peek() !== jobId) return;
    found.value = { job, explained };
    refusal.value = null;
  } catch (error) {
    if (chosenJob.peek() === jobId && error.code) refusal.value = troubleOf(error);
  }
};

/** While it goes on. */
export const lookAgain = () => found.peek() && !(found.peek().job.state in ENDS) ? look() : undefined;

/** Look at this one; "": at none. */
export const lookFor = jobId => {
  chosenJob.value = jobId;
  found.value = null;
  refusal.value = null;
  leads = true;
  setAddress({ job: jobId });
  return look();
};

/** What the server calls why something ended, in the language of the page. Words of others are shown as they are. */
export const why = cause => hasWord(`cause.${cause}`) ? say(`cause.${cause}`) : cause;

/** Why it went where it went. What stood against a wish is told in the words of docs/reasons.md. */
const because = reason => {
  const [, cell] = /^guest (.+)$/.exec(reason) ?? [];
  return cell ? say("reason.guest", { cell }) : hasWord(`reason.${reason}`) ? say(`reason.${reason}`) : reason;
};

/** What an attempt went through, the wait before it first: each stage that it came to. */
const spansOf = (attempt, job) => {
  const end = attempt.ended_at_ms || job.timings.ended_at_ms || serverNow.value;
  const times = STAGES.map(name => [name, attempt[`${name}_at_ms`]]).filter(([, at]) => at);
  const spans = times.map(([name, at], place) => [name, at, times[place + 1]?.[1] ?? end]);
  return attempt.wait ? [["waiting", attempt.wait.since_ms, attempt.wait.until_ms], ...spans] : spans;
};

const Line = ({ spans, share, children }) => html`
  <li>
    <p>${children}</p>
    <div class="bar" aria-hidden="true">${spans.map(([name, from, to]) => html`
      <span key=${name} class=${`stage ${name}`} style=${{ left: `${share(from)}%`, width: `${Math.max(0.5, share(to) - share(from))}%` }} title=${`${say(`stage.${name}`)} ${ms(to - from)}`}></span>`)}</div>
    <p class="legend dim note">${spans.map(([name, from, to]) => html`<span key=${name}><i class=${`stage ${name}`}></i>${say(`stage.${name}`)} ${ms(to - from)}</span>`)}</p>
  </li>`;

const Bars = ({ job, explained }) => {
  const start = job.timings.created_at_ms;
  const end = Math.max(start + 1, job.timings.ended_at_ms ?? serverNow.value);
  const share = at => 100 * (Math.min(Math.max(at, start), end) - start) / (end - start);
  const waiting = explained.waiting;
  return html`<ol class="life">
    ${explained.attempts.map(attempt => html`
      <${Line} key=${attempt.attempt_id} spans=${spansOf(attempt, job)} share=${share}>
        <b class="number">${attempt.attempt_id}</b> ${attempt.node_id} <span class="dim">${attempt.reasons.map(because).join(", ")}</span> <span class=${attempt.end === "FINISHED" ? "good" : attempt.end ? "bad" : ""}>${attempt.end === "FINISHED" ? say("state.FINISHED") : attempt.end ? why(attempt.end) : say("job.goes_on")}</span>
      <//>`)}
    ${waiting && html`<${Line} key="waiting" spans=${[["waiting", waiting.since_ms, Math.min(waiting.until_ms, end)]]} share=${share}>${say("job.waited", { why: waiting.reasons.map(because).join(", ") || say("job.no_room") })}<//>`}
  </ol>`;
};

const Job = ({ job, explained }) => html`
  <p><b class=${colourOf(job.state)}>${say(`state.${job.state}`)}</b> · ${job.src_lang} → ${job.tgt_lang} · ${say("job.session", { session: job.session_id, index: job.utterance_index })}
    ${job.timings.ended_at_ms && html` · ${ms(job.timings.ended_at_ms - job.timings.created_at_ms)}`}</p>
  ${(job.error || job.reason) && html`<p class="trouble" role="note"><span class="code">${job.error}</span> ${why(job.reason)}</p>`}
  <${Bars} job=${job} explained=${explained} />
  ${me.value?.role === "admin" && !(job.state in ENDS) && html`<div class="acts"><button class="small" data-act="cancel" onClick=${() => confirmed(
    { title: say("act.cancel", { job: job.job_id }), text: say("sure.cancel") }, "POST", "/v1/job/cancel", { job_id: job.job_id, reason: "cancelled by an operator" }, look,
  )}>${say("press.cancel")}</button></div>`}`;

export const JobPage = () => {
  const title = useRef(null);
  const jobId = chosenJob.value;
  useEffect(() => {
    if (leads) title.current?.focus();
    leads = false;
  }, [jobId]);
  if (!jobId) return null;
  return html`
    <section class="card job" data-job=${jobId} aria-labelledby="job-title">
      <div class="head"><h2 id="job-title" ref=${title} tabindex="-1">${jobId}</h2>
        <button class="small close" onClick=${() => lookFor("")}>${say("close")}</button></div>
      ${refusal.value && html`<div role="alert"><${Trouble} error=${refusal.value} /></div>`}
      ${found.value && html`<${Job} ...${found.value} />`}
    </section>`;
};
