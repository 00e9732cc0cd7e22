/** What the visitor wants: from which language to which, with speech or not, and who he is. */

import { computed, effect, signal } from "../html.js";
import { inAddress, secret, setAddress } from "../place.js";

const LONGEST_TAG = 35;
/** A connection may be gone without a word: nothing is waited for longer than this. */
const LATE_MS = 10_000;
/** A language tag has letters, digits and hyphens (or `zh_TW`): whatever else an address says is not taken over. */
export const tagIn = text => text.replaceAll("_", "-").replace(/[^A-Za-z0-9-]/g, "").slice(0, LONGEST_TAG);

export const src = signal(tagIn(inAddress("src")) || "en");
export const tgt = signal(tagIn(inAddress("tgt")) || "zh");
export const withSpeech = signal(inAddress("speech") !== "no");
/** In this tab only, and nowhere in the address. */
export const token = signal(secret.get("token"));

/** By pair that somebody serves, like `en:zh`, how many of its nodes are given jobs; null: nobody knows, or nobody tells us. */
export const pairs = signal(null);
const sides = at => computed(() => [...new Set([...pairs.value?.keys() ?? []].map(pair => pair.split(":")[at]))].filter(tag => tag !== "*"));
export const sources = sides(0);
export const targets = sides(1);

/** The scheduler that served this page. */
export const home = new URL("../..", import.meta.url).href.replace(/\/$/, "");

const PAGE = 500;

/** Ask which pairs there are, all of them. Who may not know that writes what he likes. @returns whether to ask again */
export const askPairs = async () => {
  const shown = token.peek();
  const headers = shown ? { authorization: `Bearer ${shown}` } : {};
  const found = new Map();
  try {
    for (let cursor = ""; cursor !== null;) {
      const path = `/v1/pools?${new URLSearchParams({ limit: PAGE, cursor })}`;
      const answer = await fetch(`${home}${path}`, { headers, signal: AbortSignal.timeout(LATE_MS) });
      // Whoever shows another token by now asks himself.
      if (shown !== token.peek()) return false;
      if (answer.status === 401 || answer.status === 403) {
        pairs.value = null;
        return false;
      }
      if (!answer.ok) return true;
      const said = await answer.json();
      for (const pool of said.pools) found.set(pool.pair, pool.living);
      cursor = said.cursor ?? null;
    }
    pairs.value = found;
  } catch { /* Nobody answered: what was known is all that is known. */ }
  return shown === token.peek();
};

effect(() => setAddress({ src: src.value, tgt: tgt.value, speech: withSpeech.value ? "" : "no" }));
effect(() => secret.set("token", token.value));
