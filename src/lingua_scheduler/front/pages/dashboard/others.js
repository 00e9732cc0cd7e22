/** Nodes that are not told live, as those of a very large fleet that are well: whoever names one is shown it all the same. */

import { computed, effect, signal } from "../html.js";
import { call } from "./call.js";
import { nodes, nodesTotal, stats } from "./watch.js";

/** Whoever writes a name is let finish. */
const WRITTEN_MS = 300;
const MOST_ASKED = 3;

export const pathOf = nodeId => `/v1/nodes/${encodeURIComponent(nodeId)}`;

/** Of what is known of a node what is told live of others. */
export const asTold = ({ about, current_load: load, pools, ...node }) =>
  ({ ...node, load, pools: pools.length, version: typeof about?.version === "string" ? about.version : null });

/** When the fleet was looked at last; undefined: it was not yet. */
export const lookedAt = computed(() => stats.value?.generated_at_ms);
/** The words by which the nodes are filtered. Each may be the name of one. */
export const written = signal([]);
/** The nodes that are named by them, and are not told. */
export const others = signal([]);

/** Whether a word is of those that are told: their name, or something that many have. */
const isTold = word => [...nodes.peek().values()].some(one =>
  [one.node_id, one.standing, one.intent, one.instance_id, one.version, ...one.semantic_langs].includes(word));

/** By word of which nobody is called so, of how many nodes that was true. */
let unknown = new Map();
let turn = 0;

/** Whoever asks later is answered, and nobody else. */
const ask = async () => {
  const mine = ++turn;
  const total = nodesTotal.peek();
  const words = nodes.peek().size < total ? written.peek().filter(word => unknown.get(word) !== total && !isTold(word)).slice(0, MOST_ASKED) : [];
  const before = new Map(others.peek().map(node => [node.node_id, node]));
  const found = await Promise.all(words.map(word => call("GET", pathOf(word)).then(asTold, error => {
    // Whatever else was said, the node may be there.
    if (error.code !== "UNKNOWN_NODE" && error.code !== "INVALID_MESSAGE") return before.get(word);
    unknown.set(word, total);
    return undefined;
  })));
  if (mine === turn && (found.length || before.size)) others.value = found.filter(Boolean);
};

let later = 0;
effect(() => {
  written.value;
  unknown = new Map();
  clearTimeout(later);
  later = setTimeout(() => {
    later = 0;
    ask();
  }, WRITTEN_MS);
});
effect(() => {
  lookedAt.value;
  if (!later) ask();
});
