/** Four numbers, each with its last ten minutes. */

import { html } from "../html.js";
import { number, say } from "../i18n.js";
import { points, readyIn, stats } from "./watch.js";

const WIDTH = 240;
const HEIGHT = 44;
const WINDOW_MS = 600_000;

/** What has a number, in pieces: between two of them there was none. */
const piecesOf = (all, name) => all.reduce((pieces, one, at) => {
  if (one[name] === null) return pieces;
  if (at && all[at - 1][name] !== null) pieces.at(-1).push(one);
  else pieces.push([one]);
  return pieces;
}, []);

/** A curve as wide as ten minutes. Where nobody looked there is none. */
const Curve = ({ name }) => {
  const all = points.value;
  const pieces = piecesOf(all, name);
  if (all.length < 2 || pieces.length === 0) return html`<svg class="curve" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true"></svg>`;
  const end = all.at(-1).at_ms;
  const most = Math.max(1e-9, ...pieces.flat().map(one => one[name]));
  const place = one => [WIDTH - (end - one.at_ms) / WINDOW_MS * WIDTH, HEIGHT - 3 - one[name] / most * (HEIGHT - 6)];
  const lines = pieces.map(piece => piece.map((one, at) => `${at ? "L" : "M"}${place(one).map(value => value.toFixed(1)).join(" ")}`).join(""));
  const across = piece => place(piece)[0].toFixed(1);
  const areas = pieces.map((piece, at) => `${lines[at]}L${across(piece.at(-1))} ${HEIGHT}L${across(piece[0])} ${HEIGHT}Z`);
  return html`
    <svg class="curve" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="under" d=${areas.join("")} /><path class="line" d=${lines.map((line, at) => pieces[at].length > 1 ? line : `${line}h0`).join("")} />
    </svg>`;
};

const One = ({ name, value, of, unit = "" }) => {
  const all = points.value.map(one => one[name]).filter(value => value !== null);
  const range = all.length > 1 ? say("number.range", { least: number(round(Math.min(...all))), most: number(round(Math.max(...all))) }) : "";
  return html`
    <div class="card one" data-number=${name}>
      <h2>${say(`number.${name}`)}</h2>
      <p class="big number"><span data-value>${value === null ? "–" : number(round(value))}</span>${unit && html`<small> ${unit}</small>`}${of !== undefined && html`<small> / ${number(of)}</small>`}</p>
      <${Curve} name=${name} />
      <p class="dim note number">${range}</p>
    </div>`;
};
const round = value => value < 10 ? Math.round(value * 10) / 10 : Math.round(value);

export const Numbers = () => {
  const one = stats.value;
  const total = one ? Object.values(one.nodes).reduce((sum, count) => sum + count, 0) : undefined;
  return html`
    <section class="numbers" aria-label=${say("numbers")}>
      <${One} name="ready_nodes" value=${one ? readyIn(one) : null} of=${total} />
      <${One} name="free_slots" value=${one ? one.slots.free : null} of=${one ? one.slots.total : undefined} />
      <${One} name="in_flight" value=${one ? one.jobs.in_flight : null} />
      <${One} name="p95_dispatch_ms" value=${one ? one.dispatch_ms.p95 : null} unit="ms" />
    </section>`;
};
