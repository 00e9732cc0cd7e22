/** What is asked of the server, and what it is told to do, by whoever is signed in. */

import { signal } from "../html.js";

/** The scheduler that served this page. */
export const home = new URL("../..", import.meta.url).href.replace(/\/$/, "");
/** Who looks: `{name, role, signed_in, csrf}`; null: not known yet. */
export const me = signal(null);
/** What went wrong last, in words. */
export const trouble = signal("");

/** What the server answers; what it refuses is thrown, in words. */
export const call = async (method, path, message) => {
  const headers = method === "GET" ? {} : { "x-lingua-csrf": me.peek()?.csrf ?? "" };
  if (message !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(`${home}${path}`, { method, headers, body: message === undefined ? undefined : JSON.stringify(message) });
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.detail), { code: said.error });
  return said;
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
