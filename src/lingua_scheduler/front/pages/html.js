/** The few libraries that pages are written with, from one place. Texts in a template are text, never markup. */

import { Fragment, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { Fragment, render };
export { useEffect, useLayoutEffect, useRef } from "./vendor/hooks.js";
export { batch, computed, effect, signal, useSignal } from "./vendor/signals.js";
