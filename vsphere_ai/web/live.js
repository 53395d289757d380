"use strict";
// Keeps a page as its server would send it now. One tab of a browser listens for all: a browser opens six connections.
(() => {
  const NAME = "vsphere-ai", { follow } = document.body.dataset;
  const channel = new BroadcastChannel(NAME);
  let last = "", waiting = 0, wanted = false;
  // Same part of two versions of a page: by id, or by element and first class. "pass" and "fail" are states, not names.
  const key = (part) => part.id || `${part.tagName} ${part.className.split(" ")[0]}`;
  const adopt = (old, now) => {
    const open = new Map([...old.querySelectorAll("details")].map((each, at) => [at, each.open]));
    [...now.querySelectorAll("details")].forEach((each, at) => { if (open.has(at)) each.open = open.get(at); });
    const at = document.activeElement, focused = old.contains(at) && (at.id ? `#${CSS.escape(at.id)}` : at.tagName);
    const near = focused && [...old.querySelectorAll(focused)].indexOf(at);
    const far = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    old.replaceWith(document.adoptNode(now));
    [...now.querySelectorAll(".scroll")].forEach((each, n) => { each.scrollLeft = far[n] || 0; });
    if (focused) now.querySelectorAll(focused)[near]?.focus({ preventScroll: true });
  };
  // Makes the parts of `old` those of `now`; a part that is the same, and what a reader has typed, stay as they are.
  const sync = (old, now) => {
    const fresh = [...now.children], parts = new Map([...old.children].map((each) => [key(each), each]));
    const kept = new Set(fresh.map(key));
    for (const [name, part] of parts) if (!kept.has(name) && part.className !== "stale") part.remove();
    let before = null;
    for (const each of fresh.reverse()) {
      const part = parts.get(key(each));
      if (!part) old.insertBefore(document.adoptNode(each), before);
      else if (each.classList.contains("bar")) sync(part, each);
      else if (each.classList.contains("verdict")) {
        part.className = each.className;
        if (part.textContent !== each.textContent) part.textContent = each.textContent;
      } else if (!each.classList.contains("tools") && !part.isEqualNode(each)) adopt(part, each);
      before = parts.get(key(each))?.isConnected ? parts.get(key(each)) : each;
    }
  };
  const swap = (fresh) => {
    for (const what of ["header", "main"]) sync(document.querySelector(what), fresh.querySelector(what));
    document.title = fresh.title;
    document.dispatchEvent(new Event("swapped"));
  };
  const stale = (why) => {
    const said = document.querySelector(".stale");
    if (!why) { said?.remove(); return; }
    if (said) { said.textContent = why; return; }
    const made = Object.assign(document.createElement("p"), { className: "stale", textContent: why });
    made.setAttribute("role", "alert");
    document.querySelector("h1").after(made);
  };
  const time = () => new Date().toISOString().slice(11, 19);
  let seen = time();
  const refresh = async () => {
    if (waiting) { wanted = true; return; }
    waiting = 1;
    wanted = false;
    const began = performance.now();
    try {
      const answer = await fetch(location.pathname, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
        seen = time();
        stale("");
      } else if (answer.status === 403) stale(`Not followed since ${seen} UTC: open the new link of vsphere-ai serve.`);
      else stale(`As it was at ${seen} UTC: the server answered ${answer.status}.`);
    } catch { wanted = true; }
    const took = performance.now() - began;
    setTimeout(() => { waiting = 0; if (wanted) refresh(); }, Math.max(700, 5 * took));
  };
  const heard = ({ kind, data, id }) => {
    last = id || last;
    if (kind === "gone") { stale(`As it was at ${seen} UTC: the server does not answer.`); return; }
    const run = kind === "run" && (follow === "runs" || follow === data.run);
    const reading = kind === "reading" && (follow === "farm" || follow === "runs");
    if (run || reading || kind === "reset" || kind === "back") refresh();
  };
  const tell = (message) => { heard(message); channel.postMessage(message); };
  channel.onmessage = (message) => heard(message.data);
  const listen = () => new Promise(() => {
    const begin = () => {
      const source = new EventSource(`/events?after=${encodeURIComponent(last)}`);
      for (const kind of ["run", "reading", "reset"]) {
        source.addEventListener(kind, (event) => tell({ kind, data: JSON.parse(event.data), id: event.lastEventId }));
      }
      source.addEventListener("open", () => tell({ kind: "back", data: {} }));
      source.addEventListener("error", () => {
        tell({ kind: "gone", data: {} });
        // A browser gives up where it is refused, such as by another server on the same port.
        if (source.readyState === EventSource.CLOSED) { refresh(); setTimeout(begin, 5000); }
      });
    };
    begin();
  });
  if (navigator.locks) navigator.locks.request(NAME, listen);
  else listen();
})();
