/** Signing in by a link that opens once. What it is stands behind the `#`: it is sent from here, and is in no log. */

import { html, render, signal } from "../html.js";
import { hasWord, lang, learn, say } from "../i18n.js";
import { inAddress } from "../place.js";
import { Top } from "../shell.js";
import words from "./words.js";

learn(words);

const isGoing = signal(false);
const trouble = signal("");

/** Where to go from here: to one of our own pages, with what its address said, and nowhere else. */
const next = () => {
  const [, asked = "sign-in", query = ""] = /^([a-z-]+)(?:\?([^#]*))?$/.exec(inAddress("next")) ?? [];
  const isPage = asked !== "sign-in";
  const said = new URLSearchParams(isPage ? query : "");
  if (inAddress("lang") || !said.has("lang")) said.set("lang", lang.value);
  return `${isPage ? asked : "dashboard"}?${said}`;
};

/** Who comes by a link of another site comes without his cookie, and so is sent here; what this page asks has it. */
const goOn = async () => {
  try {
    const answer = await fetch("api/v1/me");
    if (answer.ok && (await answer.json()).signed_in) location.replace(next());
  } catch { /* Whoever signs in will hear what is wrong. */ }
};

const signIn = async link => {
  isGoing.value = true;
  trouble.value = "";
  try {
    const answer = await fetch("api/v1/sign-in", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ link }),
    });
    if (answer.ok) return location.replace(next());
    const said = await answer.json();
    trouble.value = hasWord(`sign.${said.error}`) ? say(`sign.${said.error}`) : say("sign.wrong", { why: said.detail });
  } catch (error) {
    trouble.value = say("sign.wrong", { why: error.message });
  }
  isGoing.value = false;
};

const submit = event => {
  event.preventDefault();
  const said = event.currentTarget.elements.link.value.trim();
  signIn(said.slice(said.lastIndexOf("#") + 1));
};

const Page = () => html`
  <${Top} here="sign-in" />
  <main id="content" class="sign-in">
    <h1>${say("sign.title")}</h1>
    <p>${say("sign.how")}</p>
    <form onSubmit=${submit}>
      <input name="link" required autocomplete="off" aria-label=${say("sign.link")} placeholder=${say("sign.link")} />
      <button disabled=${isGoing.value}>${say(isGoing.value ? "sign.going" : "sign.go")}</button>
    </form>
    <p role="alert" class="bad">${trouble.value}</p>
  </main>`;

const link = location.hash.slice(1);
// Nobody who looks at the address, or goes back to it, finds it there.
if (link) history.replaceState(null, "", location.pathname + location.search);
document.title = `Lingua Scheduler: ${say("sign.title")}`;
render(html`<${Page} />`, document.body);
if (link) signIn(link);
else goOn();
