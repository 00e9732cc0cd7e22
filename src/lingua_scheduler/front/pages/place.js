/** What a page remembers: in its address what can be shared, in this browser what was chosen, in this tab what is secret. */

const asked = () => new URLSearchParams(location.search);

/** What the address says. @param {string} name */
export const inAddress = (name, otherwise = "") => asked().get(name) ?? otherwise;

/** Change what the address says, without a new page; "" leaves a name out. @param {Record<string, string>} said */
export const setAddress = said => {
  const all = asked();
  for (const [name, value] of Object.entries(said)) value === "" ? all.delete(name) : all.set(name, value);
  const query = all.toString();
  history.replaceState(history.state, "", `${location.pathname}${query && `?${query}`}${location.hash}`);
};

/** A browser may forbid to keep anything: then it is forgotten with the page. */
const keeper = store => ({
  get(name) {
    try {
      return store().getItem(`lingua.${name}`) ?? "";
    } catch {
      return "";
    }
  },
  set(name, value) {
    try {
      value === "" ? store().removeItem(`lingua.${name}`) : store().setItem(`lingua.${name}`, value);
    } catch { /* It is not kept. */ }
  },
});

/** What this browser keeps. */
export const chosen = keeper(() => localStorage);
/** What this tab keeps until it is closed. */
export const secret = keeper(() => sessionStorage);
