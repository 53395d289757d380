// A table that is wider than the screen scrolls with the keyboard, too.
window.addEventListener("load", () =>
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((each) => each.setAttribute("tabindex", "0")));
