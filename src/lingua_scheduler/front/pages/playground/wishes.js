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

/** The pairs that somebody serves, like `en:zh`; null: nobody knows, or nobody tells us. */
export const pairs = signal(null);
const sides = at => computed(() => [...new Set((pairs.value ?? []).map(pair => pair.split(":")[at]))].filter(tag => tag !== "*"));
export const sources = sides(0);
export const targets = sides(1);

/** The scheduler that served this page. */
export const home = new URL("../..", import.meta.url).href.replace(/\/$/, "");

/** Ask which pairs there are. Who may not know that writes what he likes. */
export const askPairs = async () => {
  const headers = token.peek() ? { authorization: `Bearer ${token.peek()}` } : {};
  try {
    const answer = await fetch(`${home}/v1/pools?limit=500`, { headers, signal: AbortSignal.timeout(LATE_MS) });
    pairs.value = answer.ok ? (await answer.json()).pools.map(pool => pool.pair) : null;
  } catch { /* Nobody answered: what was known is all that is known. */ }
};

effect(() => setAddress({ src: src.value, tgt: tgt.value, speech: withSpeech.value ? "" : "no" }));
effect(() => secret.set("token", token.value));
