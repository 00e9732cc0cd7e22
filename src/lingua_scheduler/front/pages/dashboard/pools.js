/** The directed pairs that somebody serves, from where to where, coloured by what is free. */

import { html } from "../html.js";
import { nameOf, number, say } from "../i18n.js";
import { stats } from "./watch.js";

const levelOf = pool => {
  if (!pool.free) return "none";
  const share = pool.free / pool.slots;
  return share < 0.25 ? "few" : share < 0.6 ? "some" : "many";
};

const Cell = ({ pool }) => {
  if (!pool) return html`<td class="nobody"></td>`;
  const words = [
    say("pool.free", { free: number(pool.free), slots: number(pool.slots) }), say("pool.nodes", { nodes: number(pool.nodes) }),
    pool.waiting ? say("pool.waiting", { waiting: number(pool.waiting) }) : "", pool.living === 1 ? say("pool.single") : "",
  ].filter(Boolean).join(", ");
  return html`
    <td class=${`pool ${levelOf(pool)}`} data-pair=${pool.pair} title=${`${pool.pair}: ${words}`}>
      <span class="unseen">${words}</span>
      <span aria-hidden="true">${number(pool.free)}${pool.living === 1 && html`<b class="single">!</b>`}${pool.waiting > 0 && html`<small>+${number(pool.waiting)}</small>`}</span>
    </td>`;
};

export const Pools = () => {
  const pools = stats.value?.pools ?? [];
  const by = new Map(pools.map(pool => [pool.pair, pool]));
  const sides = at => [...new Set(pools.map(pool => pool.pair.split(":")[at]))].sort();
  const [sources, targets] = [sides(0), sides(1)];
  const single = pools.filter(pool => pool.living === 1).length;
  return html`
    <section class="card pools" aria-labelledby="pools-title">
      <div class="head"><h2 id="pools-title">${say("pools")}</h2>
        <span class="dim note">${stats.value && say("pools.count", { count: number(pools.length) })}${single > 0 && html` · <b class="single">!</b> ${say("pools.single", { count: number(single) })}`}</span></div>
      ${!stats.value ? null : pools.length === 0 ? html`<p class="dim">${say("pools.none")} <code>lingua demo</code></p>` : html`
      <div class="scroll" tabindex="0" role="region" aria-labelledby="pools-title"><table class="matrix">
        <caption class="unseen">${say("pools.caption")}</caption>
        <thead><tr><td></td>${targets.map(tgt => html`<th key=${tgt} scope="col" title=${nameOf(tgt)}>${tgt}</th>`)}</tr></thead>
        <tbody>${sources.map(src => html`
          <tr key=${src}><th scope="row" title=${nameOf(src)}>${src}</th>
            ${targets.map(tgt => html`<${Cell} key=${tgt} pool=${by.get(`${src}:${tgt}`)} />`)}</tr>`)}</tbody>
      </table></div>
      <p class="legend dim note">${["none", "few", "some", "many"].map(one => html`<span key=${one}><i class=${`pool ${one}`}></i>${say(`pool.${one}`)}</span>`)}</p>`}
    </section>`;
};
