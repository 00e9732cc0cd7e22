/** What is asked of the server, and what it is told to do, by whoever is signed in. */

import { signal } from "../html.js";
import { say } from "../i18n.js";

/** The scheduler that served this page. */
export const home = new URL("../..", import.meta.url).href.replace(/\/$/, "");
/** Who looks: `{name, role, signed_in, csrf}`; null: not known yet. */
export const me = signal(null);
/** What went wrong last, in words. */
export const trouble = signal("");

/** A connection may be gone without a word, and a browser keeps six: what is only read is soon asked for by another. */
const READ_MS = 5_000;
const ACT_MS = 10_000;

/** What the server answers; what it refuses is thrown, in words. */
export const call = async (method, path, message) => {
  const headers = method === "GET" ? {} : { "x-lingua-csrf": me.peek()?.csrf ?? "" };
  if (message !== undefined) headers["content-type"] = "application/json";
  const limit = AbortSignal.timeout(method === "GET" ? READ_MS : ACT_MS);
  const body = message === undefined ? undefined : JSON.stringify(message);
  try {
    const answer = await fetch(`${home}${path}`, { method, headers, body, signal: limit });
    const said = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(said.detail), { code: said.error });
    return said;
  } catch (error) {
    throw error.name === "TimeoutError" ? new Error(say("call.late")) : error;
  }
};

export const askWho = async () => { me.value = await call("GET", "/api/v1/me"); };

export const signOut = async () => {
  await call("POST", "/api/v1/sign-out");
  location.replace(`${home}/sign-in?next=dashboard`);
};

/** What waits for a yes: `{title, text, go}`. */
export const asked = signal(null);

/** Do something after somebody has said yes to it; `then` gets the answer. @param {{title: string, text: string}} words */
export const confirmed = (words, method, path, message, then) => {
  asked.value = {
    ...words,
    go: async () => {
      try {
        const said = await call(method, path, message);
        trouble.value = "";
        then?.(said);
      } catch (error) {
        trouble.value = error.message;
      }
    },
  };
};
