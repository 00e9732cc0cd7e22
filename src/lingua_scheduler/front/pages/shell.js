/** What stands around every page: its name, the way to the others, and two switches. */

import { html, signal } from "./html.js";
import { LANGUAGES, lang, learn, say, speak } from "./i18n.js";
import { theme, turn } from "./theme.js";
import words from "./words.js";

learn(words);

const PAGES = ["dashboard", "playground", "docs"];
const MARKS = { auto: "◐", light: "○", dark: "●" };

/** @param {{here: string, isTranslated?: boolean}} props the name of the page, and whether it speaks more than English */
export const Top = ({ here, isTranslated = true }) => {
  const other = lang.value === "en" ? "zh" : "en";
  const themeIs = say("page.theme", { theme: say(`page.theme.${theme.value}`) });
  return html`
    <a class="skip" href="#content">${say("page.skip")}</a>
    <header class="top">
      <span class="wordmark">Lingua <span>Scheduler</span></span>
      <nav aria-label=${say("page.pages")}>
        ${PAGES.map(name => html`
          <a href=${`${name}?lang=${lang.value}`} aria-current=${name === here ? "page" : undefined}>${say(`page.${name}`)}</a>`)}
      </nav>
      <div class="switches">
        ${isTranslated && html`<button class="quiet" lang=${other === "zh" ? "zh-Hans" : "en"} onClick=${() => speak(other)}>${LANGUAGES[other]}</button>`}
        <button class="quiet" onClick=${turn} aria-label=${themeIs} title=${themeIs}>
          <span aria-hidden="true">${MARKS[theme.value]}</span>
        </button>
      </div>
    </header>`;
};

const COPIED_MS = 1_500;

/** A page that is not on https and not on this machine has no clipboard, but may select. */
const write = async text => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};

/** Copies a text, and says that it did. @param {{text: function(): string, name: string}} props `name` of what is copied */
export const Copy = ({ text, name }) => {
  const isCopied = copies.value === name;
  const copy = async () => {
    await write(text());
    copies.value = name;
    setTimeout(() => { if (copies.value === name) copies.value = ""; }, COPIED_MS);
  };
  return html`
    <button class="small" onClick=${copy} aria-label=${`${say("page.copy")}: ${name}`}>${say(isCopied ? "page.copied" : "page.copy")}</button>
    <span class="unseen" role="status">${isCopied ? say("page.copied") : ""}</span>`;
};
const copies = signal("");

/** One of several to look at. @param {{names: string[], shown: object, label: string, panel: string}} props `shown` is a signal */
export const Tabs = ({ names, shown, label, panel }) => {
  const turn = event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    shown.value = names[(names.indexOf(shown.value) + step + names.length) % names.length];
    event.currentTarget.children[names.indexOf(shown.value)].focus();
  };
  return html`
    <div class="tabs" role="tablist" aria-label=${label} onKeyDown=${turn}>
      ${names.map(name => html`
        <button key=${name} role="tab" aria-selected=${name === shown.value} aria-controls=${panel} tabindex=${name === shown.value ? 0 : -1}
          onClick=${() => { shown.value = name; }}>${name}</button>`)}
    </div>`;
};
