/** What went wrong with all of it, until somebody has seen it. */

import { Trouble } from "../errors/trouble.js";
import { html } from "../html.js";
import { dismiss, troubles } from "./talk.js";

export const Troubles = () => html`
  <div role="alert" class="troubles">
    ${troubles.value.map(one => html`<${Trouble} key=${one.key} error=${one} dismiss=${() => dismiss(one.key)} />`)}
  </div>`;
