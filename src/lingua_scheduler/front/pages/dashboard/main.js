/** The dashboard: the fleet at one glance, as it is now, and what an operator may do about it. */

import { effect, html, render } from "../html.js";
import { learn, say } from "../i18n.js";
import { Top } from "../shell.js";
import { askWho, me, signOut, trouble, troubleOf } from "./call.js";
import { Instances, Letters, lookAround } from "./cluster.js";
import { Confirm } from "./confirm.js";
import { Feed } from "./feed.js";
import { Health } from "./health.js";
import { JobPage } from "./job.js";
import { Jobs, lookAtJobs } from "./jobs.js";
import { NodePage } from "./node.js";
import { Nodes } from "./nodes.js";
import { Numbers } from "./numbers.js";
import { PairPage } from "./pair.js";
import { Pools } from "./pools.js";
import { watch } from "./watch.js";
import words from "./words.js";

learn(words);

const ASK_MS = 2_000;

/** Ask who looks until it is known: the strip says why it is not, and without it there is nothing to press. */
const learnWho = async () => {
  try {
    await askWho();
  } catch (error) {
    if (error.code === "UNAUTHENTICATED" || error.code === "FORBIDDEN") trouble.value = troubleOf(error);
    else setTimeout(learnWho, ASK_MS);
  }
};

const Who = () => {
  const who = me.value;
  if (!who?.signed_in) return null;
  return html`<p class="who dim">${say(who.role === "admin" ? "who.admin" : "who.reader", { name: who.name })}
    <button class="small" onClick=${signOut}>${say("sign.out")}</button></p>`;
};

const Dashboard = () => html`
  <${Top} here="dashboard" />
  <main id="content">
    <div class="title"><h1>${say("title")}</h1><${Who} /></div>
    <${Health} />
    <${Numbers} />
    <div class="columns"><${Pools} /><${Feed} /></div>
    <${PairPage} />
    <${Nodes} />
    <${NodePage} />
    <${Jobs} />
    <${JobPage} />
    <div class="columns"><${Instances} /><${Letters} /></div>
    <${Confirm} />
  </main>`;

effect(() => { document.title = `${say("title")} · Lingua Scheduler`; });
render(html`<${Dashboard} />`, document.body);
learnWho();
watch();
lookAround();
lookAtJobs();
