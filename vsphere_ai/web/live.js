"use strict";
// Keeps a page as its server would send it now. One tab of a browser listens for all: a browser opens six connections.
(() => {
  const NAME = "vsphere-ai", { follow } = document.body.dataset;
  const channel = new BroadcastChannel(NAME);
  let last = "", waiting = 0, took = 0, wanted = false;
  const parts = ["h1", ".verdict", ".numbers", "header dl", "nav.site", "main"];
  const swap = (fresh) => {
    for (const what of parts) {
      const old = document.querySelector(what), now = fresh.querySelector(what);
      if (!old || !now || old.isEqualNode(now)) continue;
      const open = new Map([...old.querySelectorAll("details")].map((each, at) => [at, each.open]));
      [...now.querySelectorAll("details")].forEach((each, at) => { if (open.has(at)) each.open = open.get(at); });
      const at = document.activeElement, id = old.contains(at) && at.id;
      old.replaceWith(document.adoptNode(now));
      if (id) document.getElementById(id)?.focus();
    }
    document.title = fresh.title;
    document.dispatchEvent(new Event("swapped"));
  };
  const refresh = async () => {
    if (waiting) { wanted = true; return; }
    waiting = 1;
    wanted = false;
    const began = performance.now();
    try {
      const answer = await fetch(location.pathname, { headers: { Accept: "text/html" } });
      if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { wanted = true; }
    took = performance.now() - began;
    setTimeout(() => { waiting = 0; if (wanted) refresh(); }, Math.max(700, 5 * took));
  };
  const heard = ({ kind, data, id }) => {
    last = id || last;
    const run = kind === "run" && (follow === "runs" || follow === data.run);
    if (run || kind === "reset" || (kind === "reading" && follow !== "run")) refresh();
  };
  channel.onmessage = (message) => heard(message.data);
  const listen = () => new Promise(() => {
    const source = new EventSource(`/events?after=${encodeURIComponent(last)}`);
    for (const kind of ["run", "reading", "reset"]) {
      source.addEventListener(kind, (event) => {
        const message = { kind, data: JSON.parse(event.data), id: event.lastEventId };
        heard(message);
        channel.postMessage(message);
      });
    }
    source.addEventListener("open", () => refresh());
  });
  if (navigator.locks) navigator.locks.request(NAME, listen);
  else listen();
})();
