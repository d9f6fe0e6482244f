// Light or dark, before anything is drawn. "auto" is what the machine prefers; only a choice is kept.
(() => {
  let choice = "auto";
  try {
    choice = localStorage.getItem("penstock.theme") ?? "auto";
  } catch {
    // Storage is off: the choice lasts as long as the page.
  }
  document.documentElement.dataset.theme = choice;
})();
