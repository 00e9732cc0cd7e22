/** Light or dark: as the system has it, or as it was chosen. */

import { effect, signal } from "./html.js";
import { chosen } from "./place.js";

export const THEMES = ["auto", "light", "dark"];
export const theme = signal(document.documentElement.dataset.theme ?? "auto");

/** The next of them. */
export const turn = () => {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length];
  chosen.set("theme", theme.value === "auto" ? "" : theme.value);
};

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
