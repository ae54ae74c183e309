// Puts the page together: data, theme, print, and every section's chart. Not how each of them looks.

function theme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const changed = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    dispatchEvent(new Event("busbw:look"));
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  // Paper is white, whatever the screen is.
  let before;
  let opened = [];
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    printing = true;
    opened = [...document.querySelectorAll("#findings details:not([open]), #setup > details:not([open])")];
    opened.forEach((details) => (details.open = true));
    root.dataset.theme = "light";
    dispatchEvent(new Event("busbw:look"));
  });
  addEventListener("afterprint", () => {
    printing = false;
    opened.forEach((details) => (details.open = false));
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    dispatchEvent(new Event("busbw:look"));
  });
  button.textContent = isDark() ? "Light" : "Dark";
  const print = document.getElementById("print");
  print.hidden = false;
  print.addEventListener("click", () => window.print());
}

function start() {
  const report = JSON.parse(document.getElementById("data").textContent);
  report.series.forEach((series) => (series.rows = series.rows.flatMap(placements)));
  theme();
  // Series of one test share a chart and, in it, the colours from the first on; those of a test stand together.
  const tests = [...new Set(report.series.map((series) => series.test))];
  report.series.sort((a, b) => tests.indexOf(a.test) - tests.indexOf(b.test));
  report.series.forEach((series, number) => {
    series.number = number;
    series.tint = number - report.series.findIndex((other) => other.test === series.test);
  });
  const controls = document.getElementById("controls");
  // Of tests that no chart draws there is nothing to show and hide.
  const drawn = new Set([...document.querySelectorAll("[data-test]")].map((plot) => plot.dataset.test));
  if (controls) legend(controls.querySelector(".legend"), controls.querySelector(".controls"), report.series.filter((series) => drawn.has(series.test)));
  const each = (what, draw) => document.querySelectorAll(`[data-chart="${what}"]`).forEach((found) => draw(found, Number(found.dataset.number)));
  for (const [what, figure] of [["speed", BANDWIDTH], ["time", LATENCY]]) {
    each(what, (plot) => sizeChart(plot, report.series.filter((series) => series.test === plot.dataset.test), figure));
  }
  each("sweep", (found, number) => barChart(found, report.sweeps[number]));
  each("tuning", (found, number) => launchChart(found, report.tunings[number]));
  each("sides", (found, number) => sideChart(found, report.tunings[number].sides));
  each("file", (found, number) => sideChart(found, report.tunings[number].file.sides));
  each("calls", (found, number) => callChart(found, report.jobs[number]));
  each("late", (found, number) => lateChart(found, report.jobs[number]));
  each("pairs", (found, number) => matrixChart(found, report.pairs[number]));
  const rows = document.getElementById("rows");
  if (rows) rowsTable(rows, report.series);
}

start();
