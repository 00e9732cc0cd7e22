/** What the server tells as it happens: everything first, then what has changed. A lost socket comes back by itself. */

import { batch, computed, signal } from "../html.js";
import { call, home } from "./call.js";

/** Nothing heard for so long, and what is shown may not be so any more. */
const SILENT_MS = 6_000;
/** Numbers that are older than this are of the past, whoever tells them. */
const OLD_MS = 20_000;
const FIRST_PAUSE_MS = 500;
const LAST_PAUSE_MS = 10_000;
const MAX_EVENTS = 500;
const MAX_POINTS = 60;
const STRETCH_MS = 10_000;

export const stats = signal(null);
/** By node id. */
export const nodes = signal(new Map());
export const nodesTotal = signal(0);
/** The newest first. */
export const events = signal([]);
/** The last ten minutes: `{at_ms, ready_nodes, free_slots, in_flight, p95_dispatch_ms}`; null: there was no such number. */
export const points = signal([]);
/** `connecting`, `live`, `lost`, `away` (the server is there, its engine is not), `full` (too many watch there), `out` (nobody is signed in any more). */
export const link = signal("connecting");
/** The server's time now, and the local time at which something was last heard. */
const ahead = signal(0);
const heardAt = signal(0);
export const now = signal(Date.now());
export const serverNow = computed(() => now.value + ahead.value);

/** How old what is shown is, if that is worth saying; 0: it is as it is. */
export const staleMs = computed(() => {
  if (!stats.value) return 0;
  const age = serverNow.value - stats.value.generated_at_ms;
  const isSilent = now.value - heardAt.value > SILENT_MS;
  return link.value !== "live" || isSilent || age > OLD_MS ? Math.max(age, 1) : 0;
});

let version = "";

export const readyIn = one => (one.nodes.available ?? 0) + (one.nodes.full ?? 0);
const pointOf = one => ({
  at_ms: one.generated_at_ms, ready_nodes: readyIn(one), free_slots: one.slots.free,
  in_flight: one.jobs.in_flight, p95_dispatch_ms: one.dispatch_ms.p95 ?? null,
});

/** A point for each stretch of the last ten minutes, as the server keeps them: a page that slept has some that are older. */
export const addPoint = point => {
  const kept = points.peek().filter(one => Math.floor(one.at_ms / STRETCH_MS) !== Math.floor(point.at_ms / STRETCH_MS));
  const all = [...kept, point].sort((one, other) => one.at_ms - other.at_ms);
  points.value = all.filter(one => all.at(-1).at_ms - one.at_ms < MAX_POINTS * STRETCH_MS);
};

const take = said => batch(() => {
  version = said.version;
  heardAt.value = Date.now();
  now.value = heardAt.value;
  ahead.value = said.now_ms - heardAt.value;
  if (said.type === "snapshot") {
    nodes.value = new Map(said.nodes.map(node => [node.node_id, node]));
    events.value = said.events.toReversed();
  } else {
    if (said.nodes || said.gone) {
      const all = new Map(nodes.peek());
      for (const node of said.nodes ?? []) all.set(node.node_id, node);
      for (const nodeId of said.gone ?? []) all.delete(nodeId);
      nodes.value = all;
    }
    if (said.events) {
      const known = new Set(events.peek().map(one => one.id));
      events.value = [...said.events.filter(one => !known.has(one.id)).reverse(), ...events.peek()].slice(0, MAX_EVENTS);
    }
  }
  if (said.nodes_total !== undefined) nodesTotal.value = said.nodes_total;
  if (said.stats) {
    stats.value = said.stats;
    addPoint(pointOf(said.stats));
  }
});

let historyAgain = 0;

/** What was before this page was opened, or while it could hear nothing. */
const askHistory = async () => {
  clearTimeout(historyAgain);
  try {
    for (const point of (await call("GET", "/api/v1/history")).points.slice(-MAX_POINTS)) addPoint(point);
  } catch (error) {
    // Without a code nobody has refused it, and nobody has heard of it either.
    if (!error.code) historyAgain = setTimeout(askHistory, LAST_PAUSE_MS);
  }
};

let pauseMs = FIRST_PAUSE_MS;
/** What is listened to, if anything; and when it began, or told something last. */
let socket = null;
let toldAt = 0;

/** Begin to listen, and go on for ever. */
export const watch = () => {
  socket = new WebSocket(`${home.replace(/^http/, "ws")}/api/v1/live${version && `?after=${encodeURIComponent(version)}`}`);
  toldAt = Date.now();
  let isWatching = false;
  socket.onmessage = ({ data }) => {
    const said = JSON.parse(data);
    if (!["snapshot", "delta", "still"].includes(said.type)) return;
    pauseMs = FIRST_PAUSE_MS;
    isWatching = true;
    take(said);
    toldAt = heardAt.peek();
    link.value = "live";
    if (said.type === "snapshot") askHistory();
  };
  socket.onclose = ({ code }) => {
    socket = null;
    if (code === 4401 || code === 4403) {
      link.value = "out";
      return;
    }
    // Whoever was told something and could not keep up is sent away with the same code, and comes back.
    link.value = code === 4503 ? "away" : code === 1013 && !isWatching ? "full" : "lost";
    setTimeout(watch, pauseMs * (0.5 + Math.random()));
    pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS);
  };
};

/** A socket on which not even `still` comes is lost, whatever the browser thinks of it: there is another at once. */
const drop = () => {
  socket.onmessage = socket.onclose = null;
  socket.close();
  link.value = "lost";
  watch();
};

setInterval(() => {
  now.value = Date.now();
  if (socket && now.peek() - toldAt > SILENT_MS) drop();
}, 1_000);
