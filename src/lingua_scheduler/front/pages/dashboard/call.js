/** What is asked of the server, and what it is told to do, by whoever is signed in. */

import { signal } from "../html.js";

/** The scheduler that served this page. */
export const home = new URL("../..", import.meta.url).href.replace(/\/$/, "");
/** Who looks: `{name, role, signed_in, csrf}`; null: not known yet. */
export const me = signal(null);
/** What went wrong last: `{code, detail, retryable, retryAfterMs}`; null: nothing, or it is over. */
export const trouble = signal(null);
/** What is over as soon as the server answers again. Whatever else went wrong stays until somebody has seen it. */
const PASSING = new Set(["SCHEDULER_DEPENDENCY_DOWN", "SHUTTING_DOWN", "RATE_LIMITED", "UNREACHABLE"]);

/** A connection may be gone without a word, and a browser keeps six: what is only read is soon asked for by another. */
const READ_MS = 5_000;
const ACT_MS = 10_000;

/** What the server answers; what it refuses is thrown, with its code. Without one nobody has refused anything. */
export const call = async (method, path, message) => {
  const headers = method === "GET" ? {} : { "x-lingua-csrf": me.peek()?.csrf ?? "" };
  if (message !== undefined) headers["content-type"] = "application/json";
  const limit = AbortSignal.timeout(method === "GET" ? READ_MS : ACT_MS);
  const body = message === undefined ? undefined : JSON.stringify(message);
  const known = trouble.peek();
  const answer = await fetch(`${home}${path}`, { method, headers, body, signal: limit });
  const said = await answer.json();
  if (!answer.ok) {
    throw Object.assign(new Error(said.detail), { code: said.error, retryable: said.retryable, retryAfterMs: said.retry_after_ms });
  }
  // Of what came since this was asked it says nothing.
  if (PASSING.has(known?.code) && trouble.peek() === known) trouble.value = null;
  return said;
};

/** What was thrown, as it is shown. */
export const troubleOf = ({ code, name, message, retryable, retryAfterMs }) => {
  if (code) return { code, detail: message, retryable, retryAfterMs };
  return { code: name === "TimeoutError" ? "LATE" : "UNREACHABLE", detail: message, retryable: true, retryAfterMs: null };
};

export const askWho = async () => { me.value = await call("GET", "/api/v1/me"); };

export const signOut = async () => {
  try {
    await call("POST", "/api/v1/sign-out");
  } catch (error) {
    // Who is not signed in any more is where he wants to be.
    if (error.code !== "UNAUTHENTICATED") {
      trouble.value = troubleOf(error);
      return;
    }
  }
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
        trouble.value = null;
        then?.(said);
      } catch (error) {
        trouble.value = troubleOf(error);
      }
    },
  };
};
