// Browsers let no page of a disk read the search's index.
if (location.protocol === "file:") {
  document.querySelector(".md-search__input").placeholder = "Search needs a server: python3 -m http.server";
}
// The theme gives the search's dialog no name.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// Each copy button is in a landmark, which needs a name of its own.
let landmarks = 0;
new MutationObserver(() => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([aria-label])")) {
    nav.setAttribute("aria-label", `Code ${++landmarks}`);
  }
}).observe(document.body, { childList: true, subtree: true });
// What scrolls to the side on a small screen must be within reach of the keyboard.
addEventListener("load", () => {
  for (const element of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset p:has(> img)")) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
  }
});
// All colours: a field that filters them, and a click that copies a value.
const rows = [...document.querySelectorAll("tr:has(.swatch)")];
if (rows.length) {
  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const field = Object.assign(document.createElement("input"), { className: "colours", type: "search" });
  field.ariaLabel = field.placeholder = "Filter by name, pinyin, hex, reliability or group";
  field.addEventListener("input", () => {
    const words = plain(field.value).split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => plain(row.textContent).includes(word));
  });
  rows[0].closest("table").before(field);
  for (const code of document.querySelectorAll("td:has(> .swatch) + td > code")) {
    code.title = "Click to copy";
    code.addEventListener("click", () => navigator.clipboard.writeText(code.textContent));
  }
}
