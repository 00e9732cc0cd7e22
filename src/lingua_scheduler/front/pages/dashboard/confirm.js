/** Are you sure? Nothing changes before somebody has said yes. */

import { html, useLayoutEffect, useRef } from "../html.js";
import { say } from "../i18n.js";
import { asked } from "./call.js";

export const Confirm = () => {
  const dialog = useRef(null);
  const wanted = asked.value;
  useLayoutEffect(() => {
    if (wanted && !dialog.current.open) dialog.current.showModal();
  }, [wanted]);
  const close = () => { asked.value = null; };
  const yes = () => {
    const { go } = wanted;
    dialog.current.close();
    go();
  };
  return html`
    <dialog ref=${dialog} onClose=${close} aria-labelledby="asked">
      ${wanted && html`
        <h2 id="asked">${wanted.title}</h2>
        <p>${wanted.text}</p>
        <div class="row end">
          <button onClick=${() => dialog.current.close()}>${say("no")}</button>
          <button class="main" data-yes onClick=${yes}>${say("yes")}</button>
        </div>`}
    </dialog>`;
};
