/** How the connection stands, and the token that it may need. */

import { html } from "../html.js";
import { number, say } from "../i18n.js";
import { isOpen, leave, resumed, state } from "./talk.js";
import { token } from "./wishes.js";

const COLOURS = { open: "good", connecting: "warn", lost: "bad" };

export const Connection = () => {
  const { name, sessionId, againInMs = 0 } = state.value;
  const waits = number(Math.round(againInMs / 100) / 10);
  return html`
    <div class="connection">
      <p role="status" class="state" data-state=${name}>
        <span class=${`dot ${COLOURS[name] ?? ""}`}></span>
        <span>${say(`state.${name}`, { s: waits })}</span>
        ${isOpen.value && sessionId && html`<code class="dim">${sessionId}</code>`}
        ${resumed.value > 0 && html`<span class="chip">${say("state.resumed", { times: resumed.value })}</span>`}
      </p>
      ${isOpen.value && html`<button class="small" onClick=${leave}>${say("leave")}</button>`}
      <details class="token">
        <summary>${say("token")}</summary>
        <form onSubmit=${event => event.preventDefault()}>
          <label class="unseen" for="token">${say("token")}</label>
          <input type="password" id="token" value=${token.value} autocomplete="off" spellcheck=${false} aria-describedby="token-note"
            onChange=${event => { token.value = event.target.value.trim(); }} />
        </form>
        <p id="token-note" class="dim note">${say("token.note")}</p>
      </details>
    </div>`;
};
