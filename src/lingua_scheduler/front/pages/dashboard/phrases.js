/** What the server says in English, in the language of the page. What is not known here is shown as it is said. */

import { say } from "../i18n.js";

const PHRASES = [
  [/^(?<count>\d+) dead letters?: /, "problem.dead"],
  [/^no node has registered$/, "problem.no_nodes"],
  [/^(?<count>\d+) of (?<all>\d+) nodes (?:is|are) lost$/, "problem.lost"],
  [/^(?<count>\d+) of (?<all>\d+) nodes (?:is|are) silent$/, "problem.silent"],
  [/^(?<count>\d+) of (?<all>\d+) nodes (?:is|are) under suspicion$/, "problem.suspect"],
  [/^(?<count>\d+) wait for (?<pair>\S+)$/, "problem.waiting"],
  [/^the service catalog could not be refreshed (?<count>\d+) times/, "problem.catalog"],
  [/^nobody could look at the fleet for (?<s>\d+) s: /, "problem.old"],
  [/^it serves (?<count>\d+) pairs$/, "detail.serves"],
  [/^it serves (?<count>\d+) pairs again, as a new process$/, "detail.serves_again"],
  [/^(?<count>\d+) of its last (?<all>\d+) jobs failed$/, "detail.failed"],
  [/^for (?<s>[\d.]+) s$/, "detail.for"],
  [/^it was (?<was>suspect|resting|silent|lost)$/, "detail.was"],
  [/^nothing was heard of it for (?<s>[\d.]+) s$/, "detail.unheard"],
  [/^nothing was heard of it any more$/, "detail.unheard_now"],
  [/^it was asked to stop$/, "detail.stopped"],
  [/^(?<count>\d+) of its (?<all>\d+) jobs went to others within (?<ms>\d+) ms$/, "detail.moved"],
  [/^(?<count>\d+) of its (?<all>\d+) jobs went to others$/, "detail.unmoved"],
  [/^the whole node$/, "detail.whole"],
  [/^(?<count>\d+) nodes are silent at once, and (?<all>\d+) are heard$/, "detail.mass"],
];

/** @param {string} said */
export const inWords = said => {
  for (const [pattern, name] of PHRASES) {
    const found = pattern.exec(said);
    if (found) return say(name, { ...found.groups, was: found.groups?.was ? say(`was.${found.groups.was}`) : "" });
  }
  return said;
};
