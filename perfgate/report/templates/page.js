"use strict";
(() => {
  const runTable = JSON.parse(document.getElementById("run-table").textContent);
  const search = document.getElementById("search");
  const metric = document.getElementById("metric");
  const hover = document.getElementById("hover");
  const rows = [...document.querySelectorAll("#overview-table tr[data-case]")];
  const sections = [...document.querySelectorAll("details.case")];

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (element) => {
      const name = element.dataset.case.toLowerCase();
      return words.every((word) => name.includes(word));
    };
    const wanted = metric.value;
    for (const row of rows) {
      const other = wanted && row.dataset.metric !== wanted && row.dataset.metric !== "*";
      row.hidden = other || !matches(row);
    }
    for (const section of sections) section.hidden = !matches(section);
    // A heading without anything under it goes too.
    for (const block of document.querySelectorAll("#overview-table tbody, .benchmark")) {
      block.hidden = !block.querySelector("[data-case]:not([hidden])");
    }
    for (const figure of document.querySelectorAll("figure[data-metric]")) {
      figure.hidden = Boolean(metric.dataset.chosen) && wanted !== "" && figure.dataset.metric !== wanted;
    }
    const found = new Set(rows.filter((row) => !row.hidden).map((row) => row.dataset.case));
    document.getElementById("found").textContent = `${found.size} of ${sections.length} cases`;
  }

  function openTarget() {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.matches("details.case")) {
      target.hidden = target.parentElement.hidden = false;
      target.open = true;
      target.scrollIntoView();
    }
  }

  const dotsOf = new WeakMap();
  function dots(chart) {
    if (!dotsOf.has(chart)) {
      const paths = [...chart.querySelectorAll("path.dots")].map((path) => path.getAttribute("d"));
      const places = [...paths.join("").matchAll(/M([\d.-]+) ([\d.-]+)h0/g)];
      dotsOf.set(chart, places.map((m) => [Number(m[1]), Number(m[2])]).sort((a, b) => a[0] - b[0]));
    }
    return dotsOf.get(chart);
  }

  function show(chart, index) {
    const [x, y] = dots(chart)[index];
    const figure = chart.closest("figure");
    const run = runTable[Number(figure.dataset.runs.split(" ")[index])] || [];
    const value = document.createElement("b");
    value.textContent = figure.dataset.texts.split("|")[index];
    hover.replaceChildren(value, ...run.map((line) => {
      const part = document.createElement("div");
      part.textContent = line;
      return part;
    }));
    hover.hidden = false;
    let cursor = chart.querySelector(".cursor");
    if (!cursor) {
      cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
      cursor.setAttribute("class", "cursor");
      chart.append(cursor);
    }
    cursor.setAttribute("d", `M${x} ${y}h0`);
    chart.dataset.index = index;
    const corner = new DOMPoint(x, y).matrixTransform(chart.getScreenCTM());
    const left = corner.x + 14 + hover.offsetWidth > innerWidth ? corner.x - 14 - hover.offsetWidth : corner.x + 14;
    hover.style.left = `${Math.max(4, left)}px`;
    hover.style.top = `${Math.max(4, Math.min(corner.y + 10, innerHeight - hover.offsetHeight - 8))}px`;
  }

  function hide(chart) {
    hover.hidden = true;
    chart.querySelector(".cursor")?.remove();
  }

  function nearest(chart, event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
    const places = dots(chart);
    let best = 0;
    places.forEach((place, index) => {
      if (Math.abs(place[0] - at.x) < Math.abs(places[best][0] - at.x)) best = index;
    });
    return best;
  }

  function step(chart, event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in moves)) return;
    const last = dots(chart).length - 1;
    const from = Number(chart.dataset.index ?? last + (event.key === "ArrowLeft" ? 1 : 0));
    show(chart, Math.max(0, Math.min(last, from + moves[event.key])));
    event.preventDefault();
  }

  const chartOf = (event) => event.target.closest?.("svg.trend");
  document.addEventListener("pointermove", (event) => {
    const chart = chartOf(event);
    if (chart) show(chart, nearest(chart, event));
  });
  document.addEventListener("pointerout", (event) => {
    const chart = chartOf(event);
    if (chart && !chart.contains(event.relatedTarget)) hide(chart);
  });
  document.addEventListener("focusout", (event) => {
    const chart = chartOf(event);
    if (chart) hide(chart);
  });
  document.addEventListener("keydown", (event) => {
    const chart = chartOf(event);
    if (chart) step(chart, event);
  });
  addEventListener("hashchange", openTarget);
  if (search) {
    search.addEventListener("input", filter);
    metric.addEventListener("change", () => {
      metric.dataset.chosen = "yes";
      filter();
    });
    filter();
    openTarget();
  }
})();
