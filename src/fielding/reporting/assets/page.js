"use strict";
// Draws the record that fielding.reporting.page makes. Texts are set as texts, never as HTML.
(() => {
  const root = document.getElementById("page");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();   // groups that are switched off
  const shown = new Map();    // section key -> {section, element, plot}
  let picked = null;          // the group whose inside is shown
  const SETTINGS = {displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d"]};

  function make(tag, words, className) {
    const element = document.createElement(tag);
    if (words !== undefined && words !== null) element.textContent = words;
    if (className) element.className = className;
    return element;
  }

  // ------------------------------------------------------------------ figures
  function look() {
    const ink = dark.matches ? "#c9d1d9" : "#444c56", card = dark.matches ? "#161b22" : "#ffffff";
    return {"font.color": ink, "hoverlabel.bgcolor": card, "hoverlabel.font.color": ink};
  }

  function layoutOf(section) {
    const {"font.color": ink, "hoverlabel.bgcolor": card} = look(), {layout} = section.figure;
    return {...layout, uirevision: section.key, font: {...layout.font, color: ink},
      hoverlabel: {...layout.hoverlabel, bgcolor: card, font: {color: ink}}};
  }

  function traces(section, frame) {
    const changes = frame === undefined ? [] : section.frames[frame].traces;
    return section.figure.data.map((trace, at) => {
      const group = trace.meta && trace.meta.group;
      const drawn = {...trace, ...(changes[at] || {})};
      if (group !== undefined && hidden.has(group)) drawn.visible = false;
      return drawn;
    });
  }

  function draw(entry) {
    const {section, plot} = entry;
    if (!plot) return;
    entry.isDrawn = !entry.element.hidden;
    if (!entry.isDrawn) { inSight.observe(plot); return; }   // it has no width now
    entry.drawing = Plotly.react(plot, traces(section, entry.frame), layoutOf(section), SETTINGS);
    if (entry.listens) return;
    entry.listens = true;
    plot.on("plotly_click", (event) => root.dispatchEvent(new CustomEvent("picked", {detail: {section: entry.section, points: event.points}})));
  }

  const inSight = new IntersectionObserver((seen) => {
    for (const one of seen) {
      if (!one.isIntersecting) continue;
      inSight.unobserve(one.target);
      const entry = shown.get(one.target.dataset.key);
      if (entry && !entry.isDrawn) draw(entry);
    }
  }, {rootMargin: "600px"});

  function slider(entry) {
    const box = make("div", null, "slider"), input = make("input"), output = make("output");
    const refresh = () => {
      const {section} = entry;
      Object.assign(input, {type: "range", min: 0, max: section.frames.length - 1, step: 1, value: entry.frame});
      input.setAttribute("aria-label", `moment of: ${section.title}`);
      output.textContent = section.frames[entry.frame].label;
    };
    input.addEventListener("input", () => {
      entry.frame = Number(input.value);
      entry.follows = entry.frame === entry.section.frames.length - 1;   // at its end it goes on with the run
      refresh();
      draw(entry);
    });
    box.append(input, output);
    return {box, refresh};
  }

  // ------------------------------------------------------------------ parts
  function folded(words, content, className) {
    const box = make("details", null, className);
    box.append(make("summary", words), content);
    return box;
  }

  function cards(list) {
    const box = make("div", null, "cards");
    for (const card of list) {
      const one = make("div", null, card.warning ? "card warning" : "card");
      if (card.group) one.dataset.group = card.group;
      if (card.color) { one.classList.add("striped"); one.style.borderLeftColor = card.color; }
      one.append(make("span", card.name), make("b", card.value), make("span", card.note));
      box.append(one);
    }
    return box;
  }

  function table(section) {
    const box = make("div", null, "scroll"), grid = make("table"), head = make("thead"), body = make("tbody");
    const heads = make("tr");
    for (const cell of section.table[0]) heads.append(make("th", cell));
    head.append(heads);
    section.table.slice(1).forEach((row, at) => {
      const line = make("tr");
      if (section.rowGroups[at]) line.dataset.group = section.rowGroups[at];
      for (const cell of row) line.append(make("td", cell, cell.length > 44 ? "long" : cell.length > 12 ? "words" : ""));
      body.append(line);
    });
    grid.append(head, body);
    box.append(grid);
    return box;
  }

  // Makes a part again only if its content changed, so that focus, scrolling and open lists stay as they are.
  function kept(holder, name, content, build) {
    const words = JSON.stringify(content), before = holder[name];
    if (before && before.words === words) return before.element;
    const element = build();
    holder[name] = {words, element};
    if (before) requestAnimationFrame(() => { element.scrollTop = before.element.scrollTop; element.scrollLeft = before.element.scrollLeft; });
    return element;
  }

  // Gives an element these children; those that it has already are not taken out in between.
  function arrange(element, children) {
    for (const child of [...element.children]) if (!children.includes(child)) child.remove();
    children.forEach((child, at) => { if (element.children[at] !== child) element.insertBefore(child, element.children[at] || null); });
  }

  function fill(entry) {
    const {section, element, parts} = entry, children = [kept(parts, "head", section.title, () => make("h2", section.title))];
    if (section.text) children.push(kept(parts, "text", section.text, () => make("p", section.text)));
    if (section.more) children.push(kept(parts, "more", section.more, () => folded("How to read it", make("p", section.more), "more")));
    if (section.missing) children.push(kept(parts, "missing", section.missing, () => make("div", section.missing, "missing")));
    if (section.cards.length) children.push(kept(parts, "cards", section.cards, () => cards(section.cards)));
    if (section.figure) children.push(...figure(entry));
    else if (entry.plot) forget(entry);
    if (section.table.length) children.push(kept(parts, "table", [section.table, section.rowGroups], () => table(section)));
    arrange(element, children);
  }

  function figure(entry) {
    const {section} = entry;
    if (!entry.plot) {
      entry.plot = make("div", null, "figure");
      entry.plot.dataset.key = section.key;
      inSight.observe(entry.plot);
    }
    entry.plot.style.minHeight = `${section.figure.layout.height || 340}px`;
    if (section.frames.length < 2) return [entry.plot];
    entry.slider = entry.slider || slider(entry);
    entry.slider.refresh();
    return [entry.plot, entry.slider.box];
  }

  function forget(entry) {
    inSight.unobserve(entry.plot);
    Plotly.purge(entry.plot);
    Object.assign(entry, {plot: null, isDrawn: false, drawing: undefined, listens: false});
  }

  // ------------------------------------------------------------------ switches
  function hideAndShow() {
    for (const element of root.querySelectorAll("[data-group]")) element.hidden = hidden.has(element.dataset.group);
    for (const element of root.querySelectorAll("[data-inside]")) element.hidden = element.dataset.inside !== picked;
    for (const button of root.querySelectorAll("button.switch"))
      button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.name)));
  }

  function applyGroups() {
    hideAndShow();
    for (const entry of shown.values()) if (entry.isDrawn) draw(entry);
  }

  function switches(record) {
    const inside = [...new Set(record.sections.map((one) => one.group).filter(Boolean))];
    if (!inside.includes(picked)) picked = inside.length ? inside[0] : null;
    const box = make("nav", null, "switches");
    box.setAttribute("aria-label", "what is shown");
    if (record.groups.length > 1) {
      box.append(make("span", "Show", "what"));
      for (const group of record.groups) {
        const button = make("button", null, "switch"), dot = make("i");
        Object.assign(button, {type: "button", title: `show or hide ${group.name} in all figures`});
        button.dataset.name = group.name;
        dot.style.background = group.color;
        button.append(dot, make("span", group.name));
        button.addEventListener("click", () => {
          hidden.has(group.name) ? hidden.delete(group.name) : hidden.add(group.name);
          applyGroups();
        });
        box.append(button);
      }
    }
    if (inside.length > 1) {
      const select = make("select");
      select.id = "inside";
      select.setAttribute("aria-label", "clusters of which run");
      for (const name of inside) select.append(new Option(name, name, false, name === picked));
      select.addEventListener("change", () => { picked = select.value; hideAndShow(); observeAll(); });
      box.append(make("span", "Clusters of", "what"), select);
    }
    box.hidden = !box.children.length;
    return box;
  }

  function observeAll() {
    for (const entry of shown.values()) if (entry.plot && !entry.isDrawn) inSight.observe(entry.plot);
  }

  // ------------------------------------------------------------------ the page
  function contents(record) {
    const list = make("ol");
    for (const section of record.sections) {
      const item = make("li"), link = make("a", section.title);
      if (section.group) item.dataset.inside = section.group;
      link.href = `#${section.key}`;
      item.append(link);
      list.append(item);
    }
    return folded("Contents", list, "contents");
  }

  function notes(list) {
    const box = make("div", null, "notes"), items = make("ul");
    box.append(make("b", "What is missing"));
    for (const note of list) items.append(make("li", note));
    box.append(items);
    return box;
  }

  function head(record) {
    const box = make("div"), wasOpen = root.querySelector("details.contents[open]") !== null;
    box.id = "head";
    box.append(make("h1", record.title), make("p", record.lead));
    if (record.notes.length) box.append(notes(record.notes));
    if (record.cards.length) box.append(cards(record.cards));
    if (record.sections.length > 3) box.append(contents(record));
    if (wasOpen && box.querySelector("details")) box.querySelector("details").open = true;
    return box;
  }

  const pageParts = {};
  function show(record) {
    document.title = record.title;
    for (const one of root.querySelectorAll("noscript")) one.remove();
    const {title, lead, notes: missing, cards: numbers} = record;
    const links = record.sections.map(({key, title: name, group}) => [key, name, group]);
    const top = kept(pageParts, "head", [title, lead, missing, numbers, links], () => head(record));
    const bar = kept(pageParts, "switches", [record.groups, [...new Set(links.map((link) => link[2]))]], () => switches(record));
    const body = document.getElementById("sections") || make("div");
    const foot = kept(pageParts, "foot", record.footer, () => make("footer", record.footer));
    [bar.id, body.id, foot.id] = ["switches", "sections", "foot"];
    const others = [...root.children].filter((child) => child.dataset.place);   // of a live page
    const there = (where) => others.filter((child) => child.dataset.place === where);
    arrange(root, [...there("first"), top, bar, body, ...there("last"), foot]);
    showIn(body, record.sections);
    hideAndShow();
  }

  // Shows sections in a place of their own: new ones are made, those that changed get their new content.
  function showIn(home, sections) {
    const keys = new Set(sections.map((one) => one.key));
    for (const [key, entry] of shown) {
      if (entry.home !== home || keys.has(key)) continue;
      if (entry.plot) forget(entry);
      entry.element.remove();
      shown.delete(key);
    }
    arrange(home, sections.map((section) => placed(section, home).element));
    for (const {key} of sections) if (shown.get(key).isStale) refresh(shown.get(key));
  }

  function placed(section, home) {
    const before = shown.get(section.key), last = section.frames.length - 1;
    if (before && before.section.digest === section.digest) return before;
    const entry = before || {element: make("section"), parts: {}, home, follows: true, isDrawn: false};
    Object.assign(entry, {section, isStale: true});
    entry.frame = last < 0 ? undefined : entry.follows || entry.frame === undefined ? last : Math.min(entry.frame, last);
    entry.element.id = section.key;
    if (section.group) entry.element.dataset.inside = section.group;
    else delete entry.element.dataset.inside;
    shown.set(section.key, entry);
    return entry;
  }

  function refresh(entry) {
    entry.isStale = false;
    fill(entry);
    if (entry.isDrawn) draw(entry);
  }

  const forAll = (act) => { for (const entry of shown.values()) act(entry); };
  dark.addEventListener("change", () => forAll((entry) => { if (entry.isDrawn) Plotly.relayout(entry.plot, look()); }));
  addEventListener("beforeprint", () => forAll((entry) => { if (!entry.isDrawn) draw(entry); }));

  window.fielding = {
    show, showIn, make,
    // Draws what is out of sight too; resolves when everything is drawn.
    drawAll: () => {
      forAll((entry) => { if (!entry.isDrawn) draw(entry); });
      return Promise.all([...shown.values()].map((entry) => entry.drawing));
    },
  };
  const record = document.getElementById("record");
  if (record) show(JSON.parse(record.textContent));
})();
