/** Where the time of an utterance went: each stage with its milliseconds, as one bar. */

import { html } from "../html.js";
import { number, say } from "../i18n.js";

/** In the order in which they happen: what the result says of them, and which colour they have. */
const STAGES = [
  ["network_timings", "web_to_scheduler_ms", "way"],
  ["network_timings", "scheduler_to_node_ms", "way"],
  ["service_timings", "asr_ms", "asr"],
  ["service_timings", "nmt_ms", "nmt"],
  ["service_timings", "tts_ms", "tts"],
  ["", "rest_ms", "rest"],
  ["network_timings", "node_to_scheduler_ms", "way"],
  ["network_timings", "scheduler_to_web_ms", "way"],
];

const known = value => typeof value === "number" && Number.isFinite(value) && value >= 0;

/** What is known of a result: `[{name, colour, ms}]`. What the node does not account for is its rest. */
export const stagesOf = result => {
  const services = result.serviceTimings ?? {};
  const told = { service_timings: services, network_timings: result.networkTimings ?? {} };
  const each = ["asr_ms", "nmt_ms", "tts_ms"].map(name => services[name]).filter(known).reduce((sum, one) => sum + one, 0);
  told[""] = { rest_ms: known(services.total_ms) && services.total_ms > each ? services.total_ms - each : null };
  return STAGES.map(([where, name, colour]) => ({ name, colour, ms: told[where][name] })).filter(one => known(one.ms));
};

const ms = value => say("ms", { ms: number(Math.round(value)) });

/** When each moment was, from the beginning of the utterance to the last of them. */
const Track = ({ moments }) => {
  const timed = moments.filter(one => known(one.ms));
  const last = Math.max(1, ...timed.map(one => one.ms));
  return timed.length > 0 && html`
    <div class="track" aria-hidden="true">
      ${timed.map((one, at) => html`<i key=${at} style=${{ left: `${100 * one.ms / last}%` }} title=${`${one.event} ${ms(one.ms)}`}></i>`)}
    </div>`;
};

/** @param {{utterance: object}} props */
export const Stages = ({ utterance }) => {
  const { result, moments, endedAtMs, answeredAtMs } = utterance;
  const stages = result ? stagesOf(result) : [];
  const total = stages.reduce((sum, one) => sum + one.ms, 0);
  return html`
    ${stages.length > 0 && html`
      <div class="bar" aria-hidden="true">
        ${stages.filter(one => one.ms > 0).map(one => html`
          <span class=${`stage ${one.colour}`} style=${{ flexGrow: one.ms / total }} title=${`${say(`stage.${one.name}`)} ${ms(one.ms)}`}></span>`)}
      </div>
      <ul class="legend" aria-label=${say("stages")}>
        ${stages.map(one => html`
          <li key=${one.name}><i class=${`stage ${one.colour}`}></i>${say(`stage.${one.name}`)} <b class="number">${ms(one.ms)}</b></li>`)}
      </ul>`}
    ${moments.length > 0 && html`
      <details class="moments">
        <summary>${say("moments")}${known(answeredAtMs - endedAtMs) && html`<span class="dim"> · ${say("answered", { ms: ms(answeredAtMs - endedAtMs) })}</span>`}</summary>
        <${Track} moments=${moments} />
        <ol>${moments.map((one, at) => html`
          <li key=${at}><code>${one.event}</code> <span class="number">${known(one.ms) ? ms(one.ms) : one.ms}</span></li>`)}</ol>
      </details>`}`;
};
