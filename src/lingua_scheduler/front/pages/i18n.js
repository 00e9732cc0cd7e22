/** English and Chinese. Every text of a page stands in a dictionary, under the same name in both. */

import { effect, signal } from "./html.js";
import { chosen, inAddress, setAddress } from "./place.js";

export const LANGUAGES = { en: "English", zh: "中文" };

/** What the page speaks; `first.js` has found out what it is to be. */
export const lang = signal(document.documentElement.lang in LANGUAGES ? document.documentElement.lang : "en");
const known = { en: {}, zh: {} };

/** Add the words of a page. @param {{en: Record<string, string>, zh: Record<string, string>}} words */
export const learn = words => {
  for (const name of Object.keys(known)) Object.assign(known[name], words[name]);
};

/** Whether there is a text of this name. */
export const hasWord = name => name in known.en;

/** A text; `{name}` in it stands for a value. */
export const say = (name, values = {}) =>
  known[lang.value][name].replace(/\{(\w+)\}/g, (_, value) => String(values[value]));

/** Speak another language from now on, here and wherever this address leads. */
export const speak = name => {
  lang.value = name;
  chosen.set("lang", name);
  setAddress({ lang: name });
};

/** What a language is called in the language of the page; the tag itself if nobody knows. */
export const nameOf = tag => {
  try {
    return new Intl.DisplayNames([lang.value], { type: "language", fallback: "none" }).of(tag) ?? "";
  } catch {
    return "";
  }
};

/** A number as it is written here. */
export const number = value => new Intl.NumberFormat(lang.value).format(value);

effect(() => { document.documentElement.lang = lang.value === "zh" ? "zh-Hans" : lang.value; });
if (inAddress("lang") in LANGUAGES) chosen.set("lang", lang.peek());
