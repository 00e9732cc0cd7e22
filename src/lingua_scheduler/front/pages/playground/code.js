/** What this page does, as code to take along. */

import { computed, html, signal } from "../html.js";
import { say } from "../i18n.js";
import { Copy, Tabs } from "../shell.js";
import { SNIPPETS } from "./snippets.js";
import { home, src, tgt, token, withSpeech } from "./wishes.js";

const shown = signal("Python");
const text = computed(() => SNIPPETS[shown.value]({
  url: home, src: src.value, tgt: tgt.value, speak: withSpeech.value, hasToken: token.value !== "",
}));

export const Code = () => html`
  <section class="card code" aria-labelledby="code-title">
    <div class="head"><h2 id="code-title">${say("code")}</h2><${Copy} text=${() => text.value} name=${shown.value} /></div>
    <${Tabs} names=${Object.keys(SNIPPETS)} shown=${shown} label=${say("code")} panel="snippet" />
    <pre id="snippet" role="tabpanel" aria-label=${shown.value} tabindex="0"><code>${text.value}</code></pre>
  </section>`;
