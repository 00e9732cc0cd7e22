// Runs before anything is shown: the theme and the language that were chosen. Not a module: those come later.
(() => {
  const root = document.documentElement;
  const kept = name => {
    try {
      return localStorage.getItem(`lingua.${name}`);
    } catch {
      return null;
    }
  };
  const theme = kept("theme");
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  const asked = [new URLSearchParams(location.search).get("lang"), kept("lang"), ...navigator.languages];
  const spoken = asked.map(tag => String(tag).slice(0, 2).toLowerCase()).find(tag => tag === "en" || tag === "zh");
  root.lang = spoken ?? "en";
})();
