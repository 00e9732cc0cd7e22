/** The nodes: how each stands, what it has and can, how it did; and what an operator may do with it. */

import { html, signal } from "../html.js";
import { number, say } from "../i18n.js";
import { inAddress, setAddress } from "../place.js";
import { Intents, choose, chosenNode, standingOf } from "./node.js";
import { others, written } from "./others.js";
import { ago } from "./times.js";
import { nodes, nodesTotal, serverNow, stats } from "./watch.js";

const wanted = signal(inAddress("q"));
const wordsIn = said => said.split(/\s+/).filter(Boolean);
written.value = wordsIn(wanted.peek());
const COLOURS = { available: "good", full: "good", suspect: "warn", suspect_full: "warn", trial: "warn", resting: "warn", not_ready: "warn", draining: "warn" };
const colourOf = node => COLOURS[standingOf(node)] ?? "bad";
const RANKS = { bad: 0, warn: 1, good: 2 };

const fits = (node, words) => {
  const text = [node.node_id, node.standing, node.suspect ? "suspect" : "", node.intent, node.instance_id ?? "", node.version ?? "", ...node.semantic_langs].join(" ").toLowerCase();
  return words.every(word => text.includes(word));
};

const percent = share => `${Math.round(100 * share)} %`;

const Row = ({ node }) => {
  const colour = colourOf(node);
  const services = Object.entries(node.services).map(([name, ready]) => ready ? name : say("service.off", { name }));
  return html`
    <tr data-node=${node.node_id} data-colour=${colour}>
      <th scope="row"><span class=${`dot ${colour}`}></span><button class="name" aria-expanded=${chosenNode.value === node.node_id} onClick=${() => choose(node.node_id)}>${node.node_id}</button></th>
      <td><span class=${`standing ${colour}`}>${say(`standing.${standingOf(node)}`)}</span>${node.intent === "evicted" && html` <span class="dim">${say("evicted")}</span>`}</td>
      <td class="number">${number(node.used)}/${number(node.max)}${node.limbo > 0 && html` <span class="dim" title=${say("limbo.title")}>${say("limbo", { count: number(node.limbo) })}</span>`}</td>
      <td class="number">${number(node.health)}</td>
      <td>${node.semantic_langs.join(" ")} <span class="dim">· ${say("node.pools", { count: number(node.pools) })}</span></td>
      <td>${services.join(" ")}${node.marks.map(mark => html` <span class="mark" key=${mark.service}>${mark.service || say("mark.all")}</span>`)}</td>
      <td class="number">${Object.entries(node.load).map(([name, share]) => `${name} ${percent(share)}`).join(" ")}</td>
      <td>${node.version ?? ""}</td>
      <td>${node.instance_id ?? html`<span class="dim">HTTP</span>`}</td>
      <td class="number">${ago(serverNow.value - node.seen_at_ms)}</td>
      <td class="number">${node.failures}/5</td>
      <td><${Intents} node=${node} /></td>
    </tr>`;
};

const HEADS = ["node", "standing", "slots", "health", "languages", "services", "load", "version", "instance", "seen", "failures", "acts"];

export const Nodes = () => {
  const words = wordsIn(wanted.value.toLowerCase());
  const there = [...nodes.value.values(), ...others.value.filter(node => !nodes.value.has(node.node_id))];
  const shown = there.filter(node => fits(node, words)).sort((one, other) =>
    RANKS[colourOf(one)] - RANKS[colourOf(other)] || one.node_id.localeCompare(other.node_id, "en", { numeric: true }));
  const search = event => {
    wanted.value = event.currentTarget.value;
    written.value = wordsIn(wanted.peek());
    setAddress({ q: wanted.value });
  };
  return html`
    <section class="card nodes" aria-labelledby="nodes-title">
      <div class="head"><h2 id="nodes-title">${say("nodes")}</h2>
        <span class="dim note">${stats.value && say("nodes.count", { shown: number(shown.length), all: number(nodesTotal.value) })}</span>
        <input type="search" id="q" value=${wanted.value} onInput=${search} aria-label=${say("nodes.search")} placeholder=${say("nodes.search")} /></div>
      ${!stats.value ? null : nodesTotal.value === 0 ? html`<p class="dim">${say("nodes.none")} <code>lingua new node my_node.py</code></p>` : html`
      <div class="scroll" tabindex="0" role="region" aria-labelledby="nodes-title"><table>
        <thead><tr>${HEADS.map(name => html`<th key=${name} scope="col">${say(`head.${name}`)}</th>`)}</tr></thead>
        <tbody>${shown.map(node => html`<${Row} key=${node.node_id} node=${node} />`)}</tbody>
      </table></div>`}
    </section>`;
};
