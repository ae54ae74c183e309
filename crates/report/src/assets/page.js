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
  const section = (what) => document.querySelector(`[data-chart="${what}"]`);
  if (section("speed")) {
    legend(section("speed").querySelector(".legend"), section("speed").querySelector(".controls"), report.series);
    sizeChart(section("speed"), report.series, BANDWIDTH);
    sizeChart(section("time"), report.series, LATENCY);
  }
  const each = (what, draw) => document.querySelectorAll(`[data-chart="${what}"]`).forEach((found) => draw(found, Number(found.dataset.number)));
  each("sweep", (found, number) => barChart(found, report.sweeps[number]));
  each("pairs", (found, number) => matrixChart(found, report.pairs[number]));
  const rows = document.getElementById("rows");
  if (rows) rowsTable(rows, report.series);
}

start();
