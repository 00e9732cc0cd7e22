/** What the server says in English, in the language of the page. What is not known here is shown as it is said. */

import { say } from "../i18n.js";

const PHRASES = [
  [/^the state engine does not answer: /, "problem.engine"],
  [/^no node can take a job now: (?<standings>.+)$/, "problem.idle"],
  [/^nobody alive serves (?<pairs>\S+(?:, \S+)*) and (?<count>\d+) more$/, "problem.unserved_many"],
  [/^nobody alive serves (?<pairs>\S+(?:, \S+)*)$/, "problem.unserved"],
  [/^(?<count>\d+) dead letters?: /, "problem.dead"],
  [/^no node has registered$/, "problem.no_nodes"],
  [/^(?<count>\d+) of (?<all>\d+) nodes (?:is|are) lost$/, "problem.lost"],
  [/^(?<count>\d+) of (?<all>\d+) nodes (?:is|are) silent$/, "problem.silent"],
  [/^(?<count>\d+) of (?<all>\d+) nodes (?:is|are) under suspicion$/, "problem.suspect"],
  [/^(?<count>\d+) of (?<all>\d+) nodes (?:has|have) a service that does not work$/, "problem.marked"],
  [/^the auditor found what must never be, (?<count>\d+) times: /, "problem.violated"],
  [/^(?<count>\d+) wait for (?<pair>\S+)$/, "problem.waiting"],
  [/^the service catalog could not be refreshed (?<count>\d+) times/, "problem.catalog"],
  [/^nobody could look at the fleet for a while: /, "problem.old"],
  [/^it serves (?<count>\d+) pairs$/, "detail.serves"],
  [/^it serves (?<count>\d+) pairs again, as a new process$/, "detail.serves_again"],
  [/^(?<count>\d+) of its last (?<all>\d+) jobs failed; the last was (?<job>\S+): (?<cause>\w+)$/, "detail.failed_job"],
  [/^(?<count>\d+) of its last (?<all>\d+) jobs failed; the last was (?<cause>\w+)$/, "detail.failed"],
  [/^for (?<s>[\d.]+) s: (?<rest>it said that it has too much to do|a job could not be sent to it|it comes and goes)$/, "detail.rests"],
  [/^its connection was closed, and it did not come back in time$/, "detail.closed"],
  [/^nothing was heard of it for too long$/, "detail.too_long"],
  [/^it did not confirm that it stopped (?<job>\S+)$/, "detail.unconfirmed"],
  [/^it could not say whether it stopped (?<job>\S+)$/, "detail.unsaid"],
  [/^(?<job>\S+): (?<cause>ack_timeout|unsent|run_timeout)$/, "detail.late"],
  [/^(?<service>.+): MODEL_NOT_AVAILABLE, for (?<s>\d+) s$/s, "detail.marked"],
  [/^its nodes: (?<standings>.+)$/, "detail.stand"],
  [/^its nodes have left$/, "detail.left"],
  [/^(?<count>\d+) of its (?<all>\d+) living nodes are suspect$/, "detail.suspects"],
  [/^(?<count>\d+) of its (?<all>\d+) nodes are given jobs$/, "detail.living"],
  [/^it was (?<was>suspect|resting|silent|lost)$/, "detail.was"],
  [/^it was (?<was>resting|silent|lost), and is still suspect$/, "detail.was_still_suspect"],
  [/^nothing was heard of it for (?<s>[\d.]+) s$/, "detail.unheard"],
  [/^nothing was heard of it any more$/, "detail.unheard_now"],
  [/^it was asked to stop$/, "detail.stopped"],
  [/^(?<count>\d+) of its (?<all>\d+) jobs went to others within (?<ms>\d+) ms$/, "detail.moved"],
  [/^(?<count>\d+) of its (?<all>\d+) jobs went to others$/, "detail.unmoved"],
  [/^at most (?<count>\d+) jobs at once$/, "detail.most"],
  [/^as many jobs at once as it says$/, "detail.own_most"],
  [/^the whole node$/, "detail.whole"],
  [/^(?<count>\d+) nodes are silent at once, and (?<all>\d+) are heard$/, "detail.mass"],
];

/** Words within a sentence that have words of their own: how a node was, and `2 not ready, 1 silent`. */
const PARTS = {
  was: word => say(`was.${word}`),
  cause: word => say(`cause.${word}`),
  rest: words => say(`rest.${{ "it comes and goes": "flapping", "a job could not be sent to it": "undelivered" }[words] ?? "overloaded"}`),
  service: word => word === "the whole node" ? say("detail.whole") : word,
  standings: words => words.replace(/(\d+) ([^,]+)/g, (_, count, word) => say("problem.standing", { count, standing: say(`standing.${standingOf(word)}`) })),
};
const standingOf = word => ({ "silent": "stale", "suspect full": "suspect_full", "not ready": "not_ready", "without a pair": "unpaired" })[word] ?? word;

/** @param {string} said */
export const inWords = said => {
  for (const [pattern, name] of PHRASES) {
    const found = pattern.exec(said);
    if (found) return say(name, Object.fromEntries(Object.entries(found.groups ?? {}).map(([part, words]) => [part, PARTS[part]?.(words) ?? words])));
  }
  return said;
};
