/** One job: its life, a bar for each attempt with its stages, and, if it did not get through, why. */

import { html, signal } from "../html.js";
import { say } from "../i18n.js";
import { inAddress, setAddress } from "../place.js";
import { call, confirmed, me } from "./call.js";
import { ms } from "./times.js";

const wanted = signal(inAddress("job"));
const found = signal(null);
const refusal = signal("");
const STAGES = ["reserved", "dispatched", "accepted", "started", "ended"];
const ENDS = ["FINISHED", "FAILED", "CANCELLED", "EXPIRED"];

export const look = async () => {
  const jobId = wanted.value.trim();
  setAddress({ job: jobId });
  found.value = null;
  refusal.value = "";
  if (!jobId) return;
  try {
    const path = `/v1/job/${encodeURIComponent(jobId)}`;
    const [job, explained] = await Promise.all([call("GET", path), call("GET", `${path}/explain`)]);
    found.value = { job, explained };
  } catch (error) {
    refusal.value = error.message;
  }
};

/** Look at this one. */
export const lookFor = jobId => {
  wanted.value = jobId;
  document.getElementById("job")?.focus();
  return look();
};

/** What an attempt went through: of the last one each stage is known, of those before it only the whole. */
const stagesOf = (attempt, job, isLast) => {
  const end = attempt.ended_at_ms || job.timings.ended_at_ms || Date.now();
  if (!isLast) return [["attempt", attempt.reserved_at_ms, end]];
  const times = STAGES.map(name => [name, job.timings[`${name}_at_ms`]]).filter(([, at]) => at);
  return times.map(([name, at], place) => [name, at, times[place + 1]?.[1] ?? end]).filter(([name]) => name !== "ended");
};

const Bars = ({ job, explained }) => {
  const start = job.timings.created_at_ms;
  const end = Math.max(start + 1, job.timings.ended_at_ms ?? Date.now());
  const share = at => 100 * (at - start) / (end - start);
  return html`<ol class="life">${explained.attempts.map((attempt, at) => {
    const isLast = at === explained.attempts.length - 1;
    const stages = stagesOf(attempt, job, isLast);
    return html`
      <li key=${attempt.attempt_id}>
        <p><b class="number">${attempt.attempt_id}</b> ${attempt.node_id} <span class="dim">${attempt.reasons.join(", ")}</span> <span class=${attempt.end === "FINISHED" ? "good" : attempt.end ? "bad" : ""}>${attempt.end || say("job.goes_on")}</span></p>
        <div class="bar" aria-hidden="true">${stages.map(([name, from, to]) => html`
          <span key=${name} class=${`stage ${name}`} style=${{ left: `${share(from)}%`, width: `${Math.max(0.5, share(to) - share(from))}%` }} title=${`${say(`stage.${name}`)} ${ms(to - from)}`}></span>`)}</div>
        <p class="legend dim note">${stages.map(([name, from, to]) => html`<span key=${name}><i class=${`stage ${name}`}></i>${say(`stage.${name}`)} ${ms(to - from)}</span>`)}</p>
      </li>`;
  })}</ol>`;
};

const Job = ({ job, explained }) => html`
  <div class="job" data-job=${job.job_id}>
    <p><b>${job.state}</b> · ${job.src_lang} → ${job.tgt_lang} · ${say("job.session", { session: job.session_id, index: job.utterance_index })}
      ${job.timings.ended_at_ms && html` · ${ms(job.timings.ended_at_ms - job.timings.created_at_ms)}`}</p>
    ${(job.error || job.reason) && html`<p class="trouble" role="note"><span class="code">${job.error}</span> ${job.reason}</p>`}
    ${explained.waiting && html`<p class="dim">${say("job.waited", { why: explained.waiting.reasons.join(", ") || "–" })}</p>`}
    <${Bars} job=${job} explained=${explained} />
    ${me.value?.role === "admin" && !ENDS.includes(job.state) && html`<button class="small" data-act="cancel" onClick=${() => confirmed(
      { title: say("act.cancel", { job: job.job_id }), text: say("sure.cancel") }, "POST", "/v1/job/cancel", { job_id: job.job_id, reason: "cancelled by an operator" },
    )}>${say("press.cancel")}</button>`}
  </div>`;

export const Jobs = () => html`
  <section class="card jobs" aria-labelledby="jobs-title">
    <div class="head"><h2 id="jobs-title">${say("jobs")}</h2></div>
    <form class="row" role="search" onSubmit=${event => { event.preventDefault(); look(); }}>
      <input type="search" id="job" value=${wanted.value} onInput=${event => { wanted.value = event.currentTarget.value; }} aria-label=${say("jobs.search")} placeholder=${say("jobs.search")} />
      <button>${say("jobs.look")}</button>
    </form>
    ${refusal.value && html`<p class="bad" role="alert">${refusal.value}</p>`}
    ${found.value ? html`<${Job} ...${found.value} />` : !refusal.value && html`<p class="dim">${say("jobs.none")}</p>`}
  </section>`;
