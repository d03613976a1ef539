// Browsers let no page of a disk read the search's index.
if (location.protocol === "file:") {
  document.querySelector(".md-search__input").placeholder = "Search needs a server: python3 -m http.server";
}
// The theme gives the search's dialog no name.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// Each copy button is in a landmark without a name.
new MutationObserver(() => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "group");
}).observe(document.body, { childList: true, subtree: true });
