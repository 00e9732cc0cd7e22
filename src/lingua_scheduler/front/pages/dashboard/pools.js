/** The directed pairs that somebody serves, from where to where, coloured by what is free. */

import { html, signal } from "../html.js";
import { nameOf, number, say } from "../i18n.js";
import { chosenPair, explain } from "./pair.js";
import { stats } from "./watch.js";

const levelOf = pool => {
  if (!pool.free) return "none";
  const share = pool.free / pool.slots;
  return share < 0.25 ? "few" : share < 0.6 ? "some" : "many";
};

/** The square that the keyboard comes to; from there arrows lead to the others. */
const reached = signal("");

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** To the next square in that direction, past those of pairs that nobody serves. */
const turn = event => {
  const [down, right] = STEPS[event.key] ?? [0, 0];
  const cell = event.target.closest("td");
  if (!cell || !(down || right)) return;
  event.preventDefault();
  const rows = [...event.currentTarget.rows];
  for (let row = cell.parentElement.sectionRowIndex + down, column = cell.cellIndex + right; rows[row]?.cells[column]; row += down, column += right) {
    const next = rows[row].cells[column].querySelector("button");
    if (next) return next.focus();
  }
};

const Cell = ({ pool, isReached }) => {
  if (!pool) return html`<td class="nobody"></td>`;
  const words = [
    say("pool.free", { free: number(pool.free), slots: number(pool.slots) }), say("pool.nodes", { nodes: number(pool.nodes) }),
    pool.waiting ? say("pool.waiting", { waiting: number(pool.waiting) }) : "", pool.living === 1 ? say("pool.single") : "",
  ].filter(Boolean).join(", ");
  return html`
    <td class=${`pool ${levelOf(pool)}`} data-pair=${pool.pair} title=${`${pool.pair}: ${words}`}>
      <button class="square" tabindex=${isReached ? 0 : -1} aria-expanded=${chosenPair.value === pool.pair} onFocus=${() => { reached.value = pool.pair; }}
        onClick=${() => explain(chosenPair.peek() === pool.pair ? "" : pool.pair)}>
        <span class="unseen">${pool.pair}: ${words}</span>
        <span aria-hidden="true">${number(pool.free)}${pool.living === 1 && html`<b class="single">!</b>`}${pool.waiting > 0 && html`<small>+${number(pool.waiting)}</small>`}</span>
      </button>
    </td>`;
};

export const Pools = () => {
  const pools = stats.value?.pools ?? [];
  const by = new Map(pools.map(pool => [pool.pair, pool]));
  const sides = at => [...new Set(pools.map(pool => pool.pair.split(":")[at]))].sort();
  const [sources, targets] = [sides(0), sides(1)];
  const first = by.get(sources.flatMap(src => targets.map(tgt => `${src}:${tgt}`)).find(pair => by.has(pair)))?.pair;
  const stop = [reached.value, chosenPair.value].find(pair => by.has(pair)) ?? first;
  const single = pools.filter(pool => pool.living === 1).length;
  return html`
    <section class="card pools" aria-labelledby="pools-title">
      <div class="head"><h2 id="pools-title">${say("pools")}</h2>
        <span class="dim note">${stats.value && say("pools.count", { count: number(pools.length) })}${single > 0 && html` · <b class="single">!</b> ${say("pools.single", { count: number(single) })}`}</span></div>
      ${!stats.value ? null : pools.length === 0 ? html`<p class="dim">${say("pools.none")} <code>lingua demo</code></p>` : html`
      <div class="scroll" tabindex="0" role="region" aria-labelledby="pools-title"><table class="matrix" role="grid" aria-label=${say("pools.caption")}>
        <thead><tr><td></td>${targets.map(tgt => html`<th key=${tgt} scope="col" title=${nameOf(tgt)}>${tgt}</th>`)}</tr></thead>
        <tbody onKeyDown=${turn}>${sources.map(src => html`
          <tr key=${src}><th scope="row" title=${nameOf(src)}>${src}</th>
            ${targets.map(tgt => html`<${Cell} key=${tgt} pool=${by.get(`${src}:${tgt}`)} isReached=${stop === `${src}:${tgt}`} />`)}</tr>`)}</tbody>
      </table></div>
      <p class="legend dim note">${["none", "few", "some", "many"].map(one => html`<span key=${one}><i class=${`pool ${one}`}></i>${say(`pool.${one}`)}</span>`)}</p>`}
    </section>`;
};
