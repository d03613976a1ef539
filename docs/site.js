// Browsers let no page of a disk read the search's index.
if (location.protocol === "file:") {
  document.querySelector(".md-search__input").placeholder = "Search needs a server: python3 -m http.server";
}
// The theme gives the search's dialog no name.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
