"use strict";
// Asks for the newest record again and again, and shows one client when asked to.
(() => {
  const {make, show, showIn} = window.fielding;
  const EVERY_MS = 2000;
  const root = document.getElementById("page");
  let tag = "", changedAt = Date.now(), runs = [], inside = {}, opened = null;

  // ------------------------------------------------------------------ the line at the top
  const state = make("div", null, "state"), connection = make("span", "connecting ...", "connection");
  const changed = make("span"), toClient = make("a", "look at one client");
  state.dataset.place = "first";
  connection.setAttribute("role", "status");
  toClient.href = "#client";
  toClient.hidden = true;
  state.append(connection, changed, toClient);
  root.prepend(state);

  function tell(words, isLost) {
    if (connection.textContent !== words) connection.textContent = words;
    connection.classList.toggle("lost", isLost);
    connection.classList.toggle("live", !isLost);
    const seconds = Math.round((Date.now() - changedAt) / 1000);
    changed.textContent = seconds < 5 ? "changed just now" : `last change ${ago(seconds)} ago`;
  }

  function ago(seconds) {
    if (seconds < 90) return `${seconds} s`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
  }

  async function poll() {
    try {
      const answer = await fetch("record", {headers: tag ? {"If-None-Match": tag} : {}, cache: "no-store"});
      if (answer.status === 200) {
        const {page, runs: names, inside: first} = await answer.json();
        inside = first;
        tag = answer.headers.get("ETag") || "";
        changedAt = Date.now();
        show(page);
        offer(names);
        if (opened) tellStory(true);
      } else if (answer.status !== 304) throw new Error(answer.status === 401 ? "the token has changed" : "an error");
      tell("live", false);
    } catch (error) {
      tell(error.message === "the token has changed" ? "the token has changed: open the page with the new one"
        : "no connection to fielding watch; trying again", true);
    }
    setTimeout(poll, EVERY_MS);
  }

  // ------------------------------------------------------------------ one client
  const panel = make("section", null, "client"), form = make("form"), story = make("div"), complaint = make("div", null, "missing");
  const runBox = make("select"), idBox = make("input"), list = make("datalist"), open = make("button", "Open", "open");
  panel.id = "client";
  panel.dataset.place = "last";
  panel.hidden = complaint.hidden = true;
  list.id = "client-ids";
  Object.assign(idBox, {type: "search", placeholder: "its id", autocomplete: "off", required: true});
  idBox.setAttribute("list", list.id);
  open.type = "submit";
  form.append(labelled("Run", runBox), labelled("Client", idBox), list, open);
  panel.append(make("h2", "One client"), make("p", "What it reported, its clusters and its accuracy over time. A click on a client in the map opens it, too."),
    form, complaint, story);
  root.append(panel);

  function labelled(words, box) {
    const label = make("label");
    label.append(make("span", words), box);
    return label;
  }

  function offer(names) {
    panel.hidden = toClient.hidden = !names.length;
    if (JSON.stringify(names) === JSON.stringify(runs)) return;
    const before = runBox.value;
    runs = names;
    runBox.replaceChildren(...names.map((name) => new Option(name, name, false, name === before)));
    if (opened && !names.includes(opened.run)) { opened = null; showIn(story, []); }
    suggest();
  }

  async function asked(path, query) {
    try {
      const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
      const found = await answer.json();
      return answer.ok ? {found} : {error: found.error || "not found"};
    } catch (error) { return {error: "no connection to fielding watch"}; }
  }

  async function suggest() {
    if (!runBox.value) return;
    const {found: ids = []} = await asked("clients", {run: runBox.value});
    list.replaceChildren(...ids.slice(0, 5000).map((id) => new Option("", id)));
    if (!idBox.value && ids.length) idBox.value = ids[0];
  }
  runBox.addEventListener("change", () => { idBox.value = ""; suggest(); });
  idBox.addEventListener("focus", suggest);

  async function tellStory(isAgain) {
    const {run, id} = opened, {found, error} = await asked("client", opened);
    if (!opened || opened.run !== run || opened.id !== id || (isAgain && error)) return;   // another was asked for
    complaint.hidden = !error;
    complaint.textContent = error || "";
    showIn(story, error ? [] : found.map((section) => ({...section, key: `story:${section.key}`, group: null})));
  }

  function openClient(run, id) {
    opened = {run, id};
    return tellStory(false);
  }
  const lookAtIt = () => (complaint.hidden ? story : panel).scrollIntoView();
  form.addEventListener("submit", (event) => { event.preventDefault(); openClient(runBox.value, idBox.value).then(lookAtIt); });

  // Figures hold ids as the library that draws them wants texts.
  const plain = (words) => String(words).replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  root.addEventListener("picked", ({detail: {section, points}}) => {
    const {data, customdata} = points[0] || {}, run = inside[section.group] || Object.values(inside)[0];
    if (!run || customdata === undefined || !String(data.hovertemplate).startsWith("client ")) return;
    Object.assign(runBox, {value: run});
    Object.assign(idBox, {value: plain(customdata)});
    openClient(run, idBox.value).then(lookAtIt);
  });

  poll();
})();
