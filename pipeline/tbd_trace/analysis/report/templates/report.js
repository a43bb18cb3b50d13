"use strict";
// Sorting, filtering and whole texts. Without this script the page has the same tables.

const EMPTY = "\u2013"; // how a cell without a value reads

function bodyRows(table) {
  return Array.from(table.tBodies[0].rows);
}

function numberOf(text) {
  return Number(text.replaceAll(",", ""));
}

function compare(numeric, first, second) {
  return numeric ? numberOf(first) - numberOf(second) : first.localeCompare(second);
}

// Rows without a value stay at the end in both directions; equal ones keep their order.
function sortBy(table, column, direction) {
  const numeric = table.tHead.rows[0].cells[column].classList.contains("number");
  const sign = direction === "ascending" ? 1 : -1;
  const keyed = bodyRows(table).map((row) => [row.cells[column].textContent.trim(), row]);
  keyed.sort(([first], [second]) => {
    if (first === EMPTY || second === EMPTY) {
      return Number(first === EMPTY) - Number(second === EMPTY);
    }
    return sign * compare(numeric, first, second);
  });
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}

function turn(table, heading) {
  const numeric = heading.classList.contains("number");
  const first = numeric ? "descending" : "ascending"; // the largest is looked for most
  const second = numeric ? "ascending" : "descending";
  const direction = heading.getAttribute("aria-sort") === first ? second : first;
  for (const other of table.tHead.rows[0].cells) {
    other.removeAttribute("aria-sort");
  }
  heading.setAttribute("aria-sort", direction);
  sortBy(table, heading.cellIndex, direction);
}

function makeSortable(table) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => turn(table, heading));
  }
}

function filterBy(table, text, status) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = bodyRows(table);
  let shown = 0;
  for (const row of rows) {
    const said = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => said.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  status.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
}

function toolbarOf(table) {
  const scroll = table.closest(".scroll");
  let bar = scroll.previousElementSibling;
  if (!bar || !bar.classList.contains("tools")) {
    bar = document.createElement("div");
    bar.className = "tools";
    scroll.before(bar);
  }
  return bar;
}

function makeFilterable(table) {
  const label = document.createElement("label");
  const box = document.createElement("input");
  const status = document.createElement("span");
  const caption = document.getElementById(`${table.id}-caption`).textContent;
  label.textContent = "Rows with ";
  box.type = "search";
  box.autocomplete = "off";
  box.spellcheck = false;
  box.setAttribute("aria-controls", table.id);
  box.setAttribute("aria-label", `Show only rows with these words: ${caption}`);
  status.setAttribute("role", "status");
  box.addEventListener("input", () => filterBy(table, box.value, status));
  label.append(box);
  toolbarOf(table).append(label, status);
}

// Long texts take three lines; a button shows all of them whole.
function makeExpandable(table) {
  const cut = Array.from(table.querySelectorAll(".clamp"));
  if (!cut.some((text) => text.scrollHeight > text.clientHeight + 2)) {
    return;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Whole texts";
  button.setAttribute("aria-pressed", "false");
  button.setAttribute("aria-controls", table.id);
  button.addEventListener("click", () => {
    const whole = table.classList.toggle("whole");
    button.setAttribute("aria-pressed", String(whole));
  });
  toolbarOf(table).append(button);
}

// What does not scroll is no stop for the Tab key.
function watchScrolling(box) {
  new ResizeObserver(() => {
    box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
  }).observe(box);
}

// The same rows are on the page once: a link to them elsewhere downloads them, too.
function makeDownload(link) {
  const original = document.getElementById(link.hash.slice(1));
  if (original && original.download) {
    link.textContent = "Download CSV";
    link.href = original.href;
    link.download = original.download;
  }
}

// A link leads into a folded section: it opens.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && (target.closest(".fold") || target.querySelector(":scope > .fold"));
  if (fold && !fold.open) {
    fold.open = true;
    target.scrollIntoView();
  }
}

function makeOpenAll(folds) {
  if (!folds.length) {
    return;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "all";
  button.textContent = "Open all sections";
  button.addEventListener("click", () => {
    const open = folds.some((fold) => !fold.open);
    folds.forEach((fold) => { fold.open = open; });
    button.textContent = open ? "Close all sections" : "Open all sections";
  });
  document.querySelector("nav").append(button);
}

document.querySelectorAll("table[data-sortable]").forEach(makeSortable);
document.querySelectorAll("table[data-filterable]").forEach(makeFilterable);
document.querySelectorAll("table[data-sortable]").forEach((table) => {
  const fold = table.closest(".fold"); // sizes are known once it is open
  if (fold && !fold.open) {
    fold.addEventListener("toggle", () => makeExpandable(table), { once: true });
  } else {
    makeExpandable(table);
  }
});
document.querySelectorAll(".source a[href^='#csv-']").forEach(makeDownload);
document.querySelectorAll(".scroll").forEach(watchScrolling);
makeOpenAll(Array.from(document.querySelectorAll(".fold")));
addEventListener("hashchange", openTarget);
openTarget();
