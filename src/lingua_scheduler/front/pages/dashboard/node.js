/** One node: what it works on, what is marked, and what happened to it. */

import { computed, effect, html, signal } from "../html.js";
import { say } from "../i18n.js";
import { inAddress, setAddress } from "../place.js";
import { call, confirmed, me } from "./call.js";
import { Event, eventsAbout } from "./feed.js";
import { lookFor } from "./job.js";
import { asTold, lookedAt, pathOf } from "./others.js";
import { ago, clock, date } from "./times.js";
import { events, nodes, nodesTotal, serverNow } from "./watch.js";

/** A suspect that is tried with a job stands like one that is trusted. */
export const standingOf = node => node.suspect && node.standing === "available" ? "trial" : node.standing;

const SHOWN = 50;
/** Which node is looked at; "": none. */
export const chosenNode = signal(inAddress("node"));
const held = signal(null);
/** The code that was just made, and until when it stands for the node: `{nodeId, code, untilMs}`. It is shown once. */
const paired = signal(null);

export const choose = nodeId => {
  chosenNode.value = chosenNode.value === nodeId ? "" : nodeId;
  paired.value = null;
  setAddress({ node: chosenNode.value });
};

/** What is told of it live; undefined: nothing, it has left, or the fleet is large and it is well. */
const told = computed(() => nodes.value.get(chosenNode.value));
/** Of how many nodes none was this one when it was asked for; null: it is there, or nobody has said that it is not. */
const goneOf = signal(null);

const ask = nodeId => call("GET", pathOf(nodeId)).then(
  node => {
    if (chosenNode.peek() !== nodeId) return;
    held.value = node;
    goneOf.value = null;
  },
  error => {
    if (chosenNode.peek() !== nodeId || !error.code) return;
    held.value = null;
    goneOf.value = error.code === "UNKNOWN_NODE" ? nodesTotal.peek() : null;
  },
);

effect(() => {
  chosenNode.value;
  held.value = null;
  goneOf.value = null;
});
// What it holds is asked for whenever it is told anew; one that is not told, with each look at the fleet.
effect(() => {
  const nodeId = chosenNode.value;
  if (!nodeId) return;
  // One that is gone may come back: then there is one more.
  if (told.value || (lookedAt.value !== undefined && goneOf.peek() !== nodesTotal.value)) ask(nodeId);
});

/** What happened to it before this page was opened is asked for once. */
const before = signal({ nodeId: "", events: [] });
effect(() => {
  const nodeId = chosenNode.value;
  if (!nodeId) return;
  call("GET", `/api/v1/events?limit=${SHOWN}&about=${encodeURIComponent(nodeId)}`).then(
    said => { if (chosenNode.peek() === nodeId) before.value = { nodeId, events: said.events.toReversed() }; },
    () => {},
  );
});

/** The newest first. */
const eventsOf = nodeId => {
  const live = eventsAbout(events.value, nodeId);
  const known = new Set(live.map(event => event.id));
  const older = before.value.nodeId === nodeId ? eventsAbout(before.value.events, nodeId).filter(event => !known.has(event.id)) : [];
  return [...live, ...older].slice(0, SHOWN);
};

const setMax = event => {
  event.preventDefault();
  const node = chosenNode.peek();
  const said = new FormData(event.currentTarget).get("slots");
  const slots = said === "" ? null : Number(said);
  confirmed(
    { title: slots === null ? say("act.own_max", { node }) : say("act.max", { node, slots }), text: say(slots === null ? "sure.own_max" : "sure.max") },
    "POST", `${pathOf(node)}/max`, { max_concurrent_jobs: slots }, () => ask(node),
  );
};

const pair = () => {
  const node = chosenNode.peek();
  confirmed({ title: say("act.pairing", { node }), text: say("sure.pairing") }, "POST", `${pathOf(node)}/pairing`, undefined, said => {
    if (chosenNode.peek() === node) paired.value = { nodeId: node, code: said.pairing_code, untilMs: serverNow.peek() + said.expires_in_ms };
  });
};

const intend = (node, name) => confirmed(
  { title: say(`act.${name}`, { node: node.node_id }), text: say(`sure.${name}`) }, "POST", `${pathOf(node.node_id)}/${name}`,
);

/** Whether it is to have jobs. */
export const Intents = ({ node }) => {
  if (me.value?.role !== "admin") return null;
  const names = node.intent === "active" ? ["drain", "evict"] : node.intent === "draining" ? ["resume", "evict"] : ["resume"];
  return html`<div class="acts">${names.map(name => html`
    <button key=${name} type="button" class="small" data-act=${name} onClick=${() => intend(node, name)} aria-label=${say(`act.${name}`, { node: node.node_id })}>${say(`press.${name}`)}</button>`)}</div>`;
};

/** What an operator may do with it beside that. */
const Acts = ({ node }) => {
  if (me.value?.role !== "admin") return null;
  const code = paired.value?.nodeId === node.node_id && paired.value.untilMs > serverNow.value ? paired.value : null;
  return html`
    <form class="row acts" onSubmit=${setMax}>
      <label for="slots">${say("node.slots")}</label>
      <input type="number" id="slots" name="slots" key=${node.max_override ?? 0} min="1" max="1024" step="1" defaultValue=${node.max_override ?? ""} placeholder=${say("node.own_slots")} />
      <button class="small" data-act="max">${say("press.max")}</button>
      <button class="small" type="button" data-act="pairing" onClick=${pair}>${say("press.pairing")}</button>
    </form>
    <div role="status">${code && html`<p class="paired"><span class="digits" data-code>${code.code}</span> ${say("node.code", { until: clock(code.untilMs) })}
      <button class="small" onClick=${() => { paired.value = null; }}>${say("node.hide")}</button></p>`}</div>`;
};

const Leases = ({ leases }) => leases.length === 0 ? html`<p class="dim">${say("node.idle")}</p>` : html`
  <ul class="plain">${leases.map(one => html`
    <li key=${`${one.job_id}:${one.attempt_id}`}><button class="small" onClick=${() => lookFor(one.job_id)}>${one.job_id}</button>
      ${one.fenced_at_ms && html` <span class="dim">${say("node.fenced", { ago: ago(serverNow.value - one.fenced_at_ms) })}</span>`}</li>`)}</ul>`;

/** What it has installed, beside what the catalog lists. */
const Installed = ({ installed }) => installed.length > 0 && html`
  <h3>${say("node.installed")}</h3>
  <ul class="plain">${installed.map(one => html`
    <li key=${one.service_id} data-service=${one.service_id} data-status=${one.status}>${one.service_id} ${one.version} <span class=${one.status === "outdated" ? "warn" : "dim"}>${say(`installed.${one.status}`, { latest: one.latest })}</span></li>`)}</ul>`;

export const NodePage = () => {
  const nodeId = chosenNode.value;
  if (!nodeId) return null;
  const more = held.value?.node_id === nodeId ? held.value : null;
  const node = told.value ?? (more && asTold(more));
  const lived = eventsOf(nodeId);
  return html`
    <section class="card node" data-page=${nodeId} aria-labelledby="node-title">
      <div class="head"><h2 id="node-title">${nodeId}</h2>
        <button class="small close" onClick=${() => choose(nodeId)}>${say("close")}</button></div>
      ${!node && goneOf.value !== null && html`<p class="dim" role="status">${say("node.gone")}</p>`}
      ${node && html`<p>${say(`standing.${standingOf(node)}`)} · ${say("node.since", { date: date(node.registered_at_ms) })}${Object.entries(more?.labels ?? {}).map(([name, value]) => ` · ${name}=${value}`)}</p>`}
      ${node && node.marks.length > 0 && html`<ul>${node.marks.map(mark => html`<li key=${mark.service}>${say("node.mark", { service: mark.service || say("mark.all"), s: Math.max(0, Math.round((mark.until_ms - serverNow.value) / 1000)) })}</li>`)}</ul>`}
      ${node && html`<${Intents} node=${node} />`}
      ${node && more && html`<${Acts} node=${more} />`}
      <div class="columns">
        <div><h3>${say("node.work")}</h3>${more && html`<${Leases} leases=${more.leases} /><${Installed} installed=${more.installed} />`}</div>
        <div class="feed"><h3>${say("node.events")}</h3>
          <ol class="plain" tabindex="0" aria-label=${say("node.events")}>${lived.map(event => html`<${Event} key=${event.id} event=${event} />`)}</ol>
          ${lived.length === 0 && html`<p class="dim">${say("feed.none")}</p>`}</div>
      </div>
    </section>`;
};
