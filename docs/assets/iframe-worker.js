// Search in a site that is opened from a folder: browsers refuse workers from files, so an iframe takes their place.
// The theme asks for a script of this kind from the network; this one comes with the site.
"use strict";
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      const append = () => document.body.appendChild(frame);
      window.addEventListener("message", (event) => {
        if (frame.contentWindow && event.source === frame.contentWindow) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        }
      });
      frame.srcdoc = `<!doctype html><body><script>
        window.postMessage = (data) => parent.postMessage(data, "*");
        window.importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise((go) => {
          const script = document.createElement("script");
          script.src = url;
          script.onload = go;
          document.body.appendChild(script);
        })), Promise.resolve());
        </` + `script><script src="${url}"></` + `script></body>`;
      frame.onload = () => {
        this.frame = frame;
        for (const data of this.waiting) this.postMessage(data);
        this.waiting = [];
      };
      if (document.body) append();
      else document.addEventListener("DOMContentLoaded", append);
    }
    postMessage(data) {
      if (this.frame) this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
