"use strict";
// Draws the record that fielding.reporting.page makes. Texts are set as texts, never as HTML.
(() => {
  const root = document.getElementById("page");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();   // groups that are switched off
  const shown = new Map();    // section key -> {section, element, plot}
  let picked = null;          // the group whose inside is shown
  let hasSwitches = false;    // whether the list at the side tells which colour is which group
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
    const {"font.color": ink, "hoverlabel.bgcolor": card} = look(), {layout, data} = section.figure;
    const named = data.filter((trace) => trace.showlegend !== false);
    // What the switches tell is not told again in every figure.
    const isTold = layout.showlegend === false || (hasSwitches && named.every((trace) => trace.meta && trace.meta.group));
    const margin = isTold ? {...layout.margin, t: 12} : layout.margin;
    return {...layout, uirevision: [section.key, ...section.words].join(), font: {...layout.font, color: ink}, margin,
      showlegend: isTold ? false : layout.showlegend, hoverlabel: {...layout.hoverlabel, bgcolor: card, font: {color: ink}}};
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
    const {plot} = entry, section = content(entry);
    if (!plot) return;
    entry.isDrawn = !entry.element.hidden;
    if (!entry.isDrawn) { inSight.observe(plot); return; }   // it has no width now
    // Small charts have no room for buttons.
    const settings = section.key.startsWith("head-") ? {...SETTINGS, displayModeBar: false} : SETTINGS;
    entry.drawing = Plotly.react(plot, traces(section, entry.frame), layoutOf(section), settings);
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
    const heads = make("tr"), rows = section.table.slice(1);
    const isNumber = section.table[0].map((_, at) => at > 0 && rows.every((row) => /^(-|never.*|[-+<]?\s?\d[\d\s.,±%*()[\]\/+-]*)$/.test(row[at])));
    section.table[0].forEach((cell, at) => heads.append(make("th", cell, isNumber[at] ? "number" : "")));
    head.append(heads);
    rows.forEach((row, at) => {
      const line = make("tr");
      if (section.rowGroups[at]) line.dataset.group = section.rowGroups[at];
      row.forEach((cell, column) => {
        const size = cell.length > 44 ? "long" : cell.length > 12 ? "words" : "";
        line.append(make("td", cell, isNumber[column] ? "number" : size));
      });
      body.append(line);
    });
    if (section.table[0].length > 8) grid.className = "wide";
    if (rows.length > 24) box.classList.add("tall");
    grid.append(head, body);
    box.append(grid);
    return box;
  }

  // Copies a text; where a browser lets no script do that, the text is shown, selected, to be copied by hand.
  async function copy(words, button, box) {
    const before = button.textContent;
    let isDone = false;
    try {
      await navigator.clipboard.writeText(words);
      isDone = true;
    } catch (error) {
      const area = make("textarea", words);
      box.append(area);
      area.select();
      try { isDone = document.execCommand("copy"); } catch (refused) { isDone = false; }
      if (isDone) area.remove();
      else area.focus();
    }
    button.textContent = isDone ? "Copied" : "Select and copy";
    setTimeout(() => { button.textContent = before; }, 2000);
  }

  function copies(texts) {
    const box = make("div", null, "copies");
    for (const [form, words] of Object.entries(texts)) {
      const button = make("button", `Copy ${form}`, "copy");
      button.type = "button";
      button.addEventListener("click", () => { for (const area of box.querySelectorAll("textarea")) area.remove(); copy(words, button, box); });
      box.append(button);
    }
    return box;
  }

  // ------------------------------------------------------------------ views
  // What a section shows now: itself, or the view that was chosen.
  function content({section, chosen}) {
    if (!section.views.length) return section;
    const view = nearest(section.views, chosen), {key, title, part, group, views} = section;
    return {...view, key, title, part, group, views, text: [view.text, section.text].filter(Boolean).join(" ")};
  }

  // The view that has most of some words; with a place, among those that have the word of that place.
  function nearest(views, words, place) {
    const fitting = place === undefined ? views : views.filter((view) => view.words[place] === words[place]);
    const shared = (view) => view.words.filter((word, at) => word === words[at]).length;
    return fitting.reduce((best, view) => (shared(view) > shared(best) ? view : best));
  }

  function choosers(entry) {
    const box = make("div", null, "choosers"), {views} = entry.section;
    views[0].words.forEach((_, place) => {
      const words = [...new Set(views.map((view) => view.words[place]))];
      if (words.length < 2) return;
      const row = make("div", null, "chooser");
      row.setAttribute("role", "group");
      for (const word of words) {
        const button = make("button", word, "choice");
        Object.assign(button, {type: "button"});
        Object.assign(button.dataset, {place, word});
        button.addEventListener("click", () => {
          entry.chosen = nearest(entry.section.views, Object.assign([...entry.chosen], {[place]: word}), place).words;
          fill(entry);
          hideAndShow();
          if (entry.plot) draw(entry);
        });
        row.append(button);
      }
      box.append(row);
    });
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

  function heading(section) {
    const head = make(section.part || section.key.startsWith("head-") ? "h3" : "h2"), target = section.key.replace(/^head-/, "");
    if (target === section.key || !targets.has(target)) head.textContent = section.title;
    else head.append(Object.assign(make("a", section.title), {href: `#${target}`}));
    if (section.group) head.append(make("span", ` ${section.group}`, "whose"));
    return head;
  }

  function fill(entry) {
    const {element, parts} = entry, section = content(entry);
    const children = [kept(parts, "head", [section.title, section.group, targets.has(section.key.replace(/^head-/, ""))], () => heading(section))];
    if (section.views.length) {
      const all = section.views.map((view) => view.words);
      const rows = kept(parts, "choosers", all, () => choosers(entry));
      for (const button of rows.querySelectorAll("button"))
        button.setAttribute("aria-pressed", String(section.words[button.dataset.place] === button.dataset.word));
      if (rows.children.length) children.push(rows);
    }
    if (section.text) children.push(kept(parts, "text", section.text, () => make("p", section.text)));
    if (section.more) children.push(kept(parts, "more", section.more, () => folded("How to read it", make("p", section.more), "more")));
    if (section.missing) children.push(kept(parts, "missing", section.missing, () => make("div", section.missing, "missing")));
    if (section.cards.length) children.push(kept(parts, "cards", section.cards, () => cards(section.cards)));
    if (section.figure) children.push(...figure(entry));
    else if (entry.plot) forget(entry);
    if (section.table.length) children.push(kept(parts, "table", [section.table, section.rowGroups], () => table(section)));
    if (Object.keys(section.copies).length) children.push(kept(parts, "copies", section.copies, () => copies(section.copies)));
    arrange(element, children);
  }

  function figure(entry) {
    const section = content(entry);
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
    const box = make("div", null, "switches");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "what is shown");
    if (record.groups.length > 1) {
      box.append(make("span", "Show", "what"));
      for (const group of record.groups) {
        const button = make("button", null, "switch"), dot = make("i");
        Object.assign(button, {type: "button", title: `show or hide ${group.name} in all figures`});
        button.dataset.name = group.name;
        dot.style.background = dot.style.borderColor = group.color;
        // Of more groups than colours the later ones are dashed.
        if (record.groups.find((one) => one.color === group.color) !== group) dot.className = "again";
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
  const partKey = (part) => `part-${part.toLowerCase()}`;

  // The list at the side: parts with their sections; a section without a part stands for itself.
  function contents(record) {
    const list = make("ol", null, "contents");
    const entry = (key, words) => {
      const item = make("li"), link = make("a", words);
      link.href = `#${key}`;
      item.append(link);
      return item;
    };
    let part = "", inner = null;
    for (const section of record.sections) {
      if (!section.part) list.append(entry(section.key, section.title));
      else if (section.part !== part) {
        const item = entry(partKey(section.part), section.part);
        inner = make("ol");
        item.append(inner);
        list.append(item);
      }
      part = section.part;
      if (!part) continue;
      const item = entry(section.key, section.title);
      if (section.group) item.dataset.inside = section.group;
      inner.append(item);
    }
    list.hidden = record.sections.length < 4;
    return list;
  }

  // Marks the part and the section that are read now.
  function markPlace() {
    isMarking = false;
    const links = [...document.querySelectorAll(".contents a")].filter((link) => !link.closest("[hidden]"));
    const isPassed = (link) => {
      const place = document.getElementById(link.hash.slice(1));
      return place && place.getBoundingClientRect().top < 140;
    };
    const inner = links.filter((link) => link.closest("ol ol") && isPassed(link)).at(-1);
    const outer = links.filter((link) => !link.closest("ol ol") && isPassed(link)).at(-1);
    for (const link of links) {
      const isHere = link === outer || (link === inner && outer && outer.parentElement.contains(inner));
      if (isHere) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const list = document.querySelector(".contents");
    if (outer && list && list.scrollWidth > list.clientWidth) list.scrollLeft = outer.offsetLeft - list.offsetLeft - 40;
  }
  let isMarking = false;
  addEventListener("scroll", () => { if (!isMarking) { isMarking = true; requestAnimationFrame(markPlace); } }, {passive: true});

  function notes(list) {
    const box = make("div", null, "notes"), items = make("ul");
    box.append(make("b", "To know first"));
    for (const note of list) items.append(make("li", note));
    box.append(items);
    return box;
  }

  function top(record) {
    const box = make("div", null, record.sentence ? "top told" : "top");
    box.append(make("h1", record.title));
    // No line ends within "p = 0.002" or "8 %".
    const words = record.sentence.replace(/p ([=<]) /g, "p\u00a0$1\u00a0").replace(/(\d) %/g, "$1\u00a0%");
    if (words) box.append(make("p", words, "sentence"));
    if (record.cards.length) box.append(cards(record.cards));
    return box;
  }

  function aside(record) {
    const box = make("div");
    box.append(make("p", record.lead));
    if (record.notes.length) box.append(notes(record.notes));
    return box;
  }

  const pageParts = {}, partHeads = {};
  let targets = new Set();    // keys of the sections of the page
  function place(id, tag = "div") {
    const found = document.getElementById(id) || make(tag);
    found.id = id;
    return found;
  }

  function show(record) {
    document.title = record.title;
    for (const one of root.querySelectorAll("noscript")) one.remove();
    hasSwitches = record.groups.length > 1;
    targets = new Set(record.sections.map((one) => one.key));
    const {title, sentence, lead, notes: missing, cards: numbers} = record;
    const links = record.sections.map(({key, title: name, group, part}) => [key, name, group, part]);
    const head = place("head"), highlights = place("highlights"), side = place("side", "nav"), body = place("sections");
    side.setAttribute("aria-label", "contents");
    const about = kept(pageParts, "lead", [lead, missing], () => aside(record));
    const foot = kept(pageParts, "foot", record.footer, () => make("footer", record.footer));
    [about.id, foot.id] = ["lead", "foot"];
    arrange(head, [kept(pageParts, "top", [title, sentence, numbers], () => top(record)), highlights]);
    const list = kept(pageParts, "contents", links, () => contents(record));
    const bar = kept(pageParts, "switches", [record.groups, [...new Set(links.map((link) => link[2]))]], () => switches(record));
    [list.id, bar.id] = ["contents", "switches"];
    arrange(side, [list, bar]);
    side.hidden = list.hidden && bar.hidden;
    root.classList.toggle("sided", !side.hidden);
    const others = [...root.children].filter((child) => child.dataset.place);   // of a live page
    const there = (where) => others.filter((child) => child.dataset.place === where);
    arrange(root, [...there("first"), head, about, side, body, ...there("last"), foot]);
    showIn(highlights, record.highlights);
    highlights.hidden = !record.highlights.length;
    showIn(body, record.sections);
    hideAndShow();
    markPlace();
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
    const children = [];
    sections.forEach((section, at) => {
      const {part} = section;
      if (part && (!at || sections[at - 1].part !== part)) {
        partHeads[part] = partHeads[part] || Object.assign(make("h2", part, "part"), {id: partKey(part)});
        children.push(partHeads[part]);
      }
      children.push(placed(section, home).element);
    });
    arrange(home, children);
    for (const {key} of sections) if (shown.get(key).isStale) refresh(shown.get(key));
  }

  function placed(section, home) {
    const before = shown.get(section.key), last = section.frames.length - 1;
    if (before && before.section.digest === section.digest) return before;
    const entry = before || {element: make("section"), parts: {}, home, follows: true, isDrawn: false};
    Object.assign(entry, {section, isStale: true});
    if (section.views.length) entry.chosen = nearest(section.views, entry.chosen || section.views[0].words).words;
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
