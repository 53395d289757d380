"""Pages in a real browser: what they say on the console, what their policy refuses, and what axe-core finds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WIDTHS = (1280, 390)
HIGH = 900
SERIOUS = ("serious", "critical")
WATCH = """
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) => window.refused.push(event.violatedDirective));
window.alert = () => { window.alerted = true; };
"""


class Visited:
    """A page with what went wrong on it; `seconds` is from the request to the second frame."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.wrong = page, []
        page.add_init_script(WATCH)
        page.on("console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        begun = time.monotonic()
        page.goto(url)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.seconds = time.monotonic() - begun

    def look(self, scheme: str, width: int) -> Any:
        """Return the page in a colour scheme and at a width in pixels."""
        self.page.emulate_media(color_scheme=scheme, media="screen")
        self.page.set_viewport_size({"width": width, "height": HIGH})
        return self.page

    def faults(self) -> list[str]:
        """Return errors and warnings of the console, what the policy refused, and whether a script from outside ran."""
        refused, alerted = self.page.evaluate("[window.refused, window.alerted]")
        return [*self.wrong, *refused, *(["a script from outside ran"] if alerted else [])]

    def barriers(self, context: str | None = None) -> list[str]:
        """Return the serious findings of axe-core, each with the first element that it is about."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page, context, {"resultTypes": ["violations"]}).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in SERIOUS]

    def count(self, what: str) -> int:
        """Return how many elements a selector finds."""
        return int(self.page.evaluate("(what) => document.querySelectorAll(what).length", what))

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


class Visit:
    """Pages by address, each opened once."""

    def __init__(self, browser: Any) -> None:
        self._browser, self._pages = browser, {}

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._pages.values():
            each.page.close()

    def __call__(self, url: str, prepare: Callable[[Any], None] | None = None) -> Visited:
        """Return the page at an address; `prepare` is called with it before it is opened."""
        if url not in self._pages:
            page = self._browser.new_page(viewport={"width": WIDTHS[0], "height": HIGH})
            if prepare:
                prepare(page)
            self._pages[url] = Visited(page, url)
        return self._pages[url]
