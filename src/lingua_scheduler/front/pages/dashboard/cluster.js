/** The schedulers with their inboxes, and the letters between them that nobody could use. */

import { html, signal } from "../html.js";
import { number, say } from "../i18n.js";
import { call, confirmed, me } from "./call.js";
import { ago } from "./times.js";

const LOOK_MS = 5_000;
const cluster = signal(null);
const letters = signal([]);

/** Look now and then, while somebody looks at the page. */
export const lookAround = async () => {
  try {
    if (!document.hidden) {
      cluster.value = await call("GET", "/api/v1/cluster");
      letters.value = cluster.value.dead_letters ? (await call("GET", "/v1/dlq?limit=100")).letters : [];
    }
  } catch { /* The strip above says that nothing is heard. */ }
  setTimeout(lookAround, LOOK_MS);
};

export const Instances = () => html`
  <section class="card instances" aria-labelledby="instances-title">
    <div class="head"><h2 id="instances-title">${say("instances")}</h2></div>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="instances-title"><table>
      <thead><tr>${["instance", "is", "up", "nodes", "sessions", "inbox"].map(name => html`<th key=${name} scope="col">${say(`head.${name}`)}</th>`)}</tr></thead>
      <tbody>${(cluster.value?.instances ?? []).map(one => html`
        <tr key=${one.instance_id} data-instance=${one.instance_id}>
          <th scope="row"><span class=${`dot ${one.alive ? one.draining ? "warn" : "good" : "bad"}`}></span>${one.instance_id}</th>
          <td>${say(one.alive ? one.draining ? "instance.draining" : "instance.serving" : "instance.gone")}</td>
          <td class="number">${one.uptime_ms === undefined ? "" : ago(one.uptime_ms)}</td>
          <td class="number">${one.nodes ?? ""}</td><td class="number">${one.sessions ?? ""}</td>
          <td class="number">${number(one.inbox.letters)}</td>
        </tr>`)}</tbody>
    </table></div>
  </section>`;

const act = (letter, name, method, path) => confirmed(
  { title: say(`act.${name}`, { letter: letter.id }), text: say(`sure.${name}`) }, method, `/v1/dlq/${encodeURIComponent(letter.id)}${path}`,
);

export const Letters = () => html`
  <section class="card letters" aria-labelledby="letters-title">
    <div class="head"><h2 id="letters-title">${say("letters")}</h2><span class="dim note">${number(cluster.value?.dead_letters ?? 0)}</span></div>
    ${letters.value.length === 0 ? html`<p class="dim">${say("letters.none")}</p>` : html`<ul class="plain">${letters.value.map(one => html`
      <li key=${one.id} data-letter=${one.id}>
        <p><b>${one.kind}</b> ${one.job_id || one.node_id || one.session_id} <span class="dim">${one.id}</span></p>
        <p>${one.reason}</p>
        ${me.value?.role === "admin" && html`<div class="acts">
          <button class="small" data-act="replay" onClick=${() => act(one, "replay", "POST", "/replay")}>${say("press.replay")}</button>
          <button class="small" data-act="delete" onClick=${() => act(one, "delete", "DELETE", "")}>${say("press.delete")}</button></div>`}
      </li>`)}</ul>`}
  </section>`;
