/** Times, as people read them. */

import { lang, number, say } from "../i18n.js";

/** How long ago something was. */
export const ago = ms => {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return say("ago.s", { s });
  if (s < 3600) return say("ago.min", { min: Math.floor(s / 60) });
  return say("ago.h", { h: number(Math.floor(s / 3600)) });
};

export const clock = atMs => new Intl.DateTimeFormat(lang.value, { timeStyle: "medium" }).format(new Date(atMs));
export const date = atMs => new Intl.DateTimeFormat(lang.value, { dateStyle: "medium", timeStyle: "long" }).format(new Date(atMs));
export const ms = value => say("ms", { ms: number(Math.round(value)) });
