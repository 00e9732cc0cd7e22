/** Every frame, newest last, each to be opened. */

import { html, useLayoutEffect, useRef } from "../html.js";
import { number, say } from "../i18n.js";
import { clear, dropped, rows } from "./frames.js";

const NEAR_PX = 40;
const seconds = atMs => (atMs / 1000).toFixed(3);
const arrow = way => html`<span class=${`way ${way}`} title=${say(`frame.${way}`)}><span aria-hidden="true">${way === "out" ? "↑" : "↓"}</span><span class="unseen">${say(`frame.${way}`)}</span></span>`;

const Row = ({ row }) => html`
  <li class="frame">
    <details>
      <summary>
        ${arrow(row.way)}<span class="dim number">${seconds(row.atMs)}</span>
        <b>${row.parts ? say("frame.binary", { count: number(row.count) }) : row.type}</b>
        <span class="gist">${row.gist ?? ""}</span>
        <span class="dim number size">${say("frame.bytes", { bytes: number(row.size) })}</span>
      </summary>
      ${row.parts
        ? html`<ol class="parts">${row.parts.map((one, at) => html`<li key=${at}>${arrow(one.way)} <span class="number">${seconds(one.atMs)}</span> ${one.kind}${one.seq === null ? "" : ` #${one.seq}`} <span class="dim">${say("frame.bytes", { bytes: number(one.size) })}</span></li>`)}</ol>`
        : html`<pre>${JSON.stringify(row.body, null, 2)}</pre>`}
    </details>
  </li>`;

export const Frames = () => {
  const list = useRef(null);
  const isAtEnd = useRef(true);
  const all = rows.value;
  // Whoever reads further up stays there.
  useLayoutEffect(() => { if (isAtEnd.current && list.current) list.current.scrollTop = list.current.scrollHeight; }, [all]);
  const look = ({ target }) => { isAtEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < NEAR_PX; };
  return html`
    <section class="card frames" aria-labelledby="frames-title">
      <div class="head"><h2 id="frames-title">${say("frames")}</h2>
        ${all.length > 0 && html`<button class="small" onClick=${clear} aria-label=${`${say("frames.clear")}: ${say("frames")}`}>${say("frames.clear")}</button>`}
      </div>
      ${dropped.value > 0 && html`<p class="dim note">${say("frames.dropped", { count: number(dropped.value) })}</p>`}
      ${all.length === 0
        ? html`<p class="dim">${say("frames.none")}</p>`
        : html`<ol ref=${list} onScroll=${look} tabindex="0" aria-label=${say("frames")}>${all.map(row => html`<${Row} key=${row.id} row=${row} />`)}</ol>`}
    </section>`;
};
