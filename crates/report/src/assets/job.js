// A watched job as two charts: its collectives over the run, and the lateness of its ranks as a heat map. Not who is named.

/** What the chart of collectives can show of a class in a window; none where it is not known. */
const OF_CALLS = {
  time: { words: "median time", unit: "", log: true, value: (window) => window.time_us, text: time, tick: timeTick },
  busbw: { words: "median bus bandwidth", unit: "GB/s", value: (window) => window.busbw, text: (value) => `${digits(value)} GB/s`, tick: (value) => digits(value) },
  limit: { words: "percent of the limit", unit: "%", value: (window, known) => percentOf(window.busbw, known.limit), text: percentText, tick: (value) => `${Number(value.toPrecision(4))} %` },
  earlier: { words: "percent of the run beside it", unit: "%", value: (window, known) => percentOf(window.busbw, known.earlier), text: percentText, tick: (value) => `${Number(value.toPrecision(4))} %` },
};

function percentOf(value, whole) {
  return value === null || !(whole > 0) ? null : (100 * value) / whole;
}

function percentText(value) {
  return `${value.toFixed(1)} %`;
}

/** A time of the run, s, with no more digits than windows tell apart. */
function runTime(s, windowS) {
  const places = Math.max(0, -Math.floor(Math.log10(windowS) + 1e-9));
  return `${s.toFixed(places)} s`;
}

/** A window by its ends. */
function windowText(job, at) {
  return `${runTime(at * job.window_s, job.window_s)} to ${runTime((at + 1) * job.window_s, job.window_s)}`;
}

/** The points of a class: the middle of each window and its figure. */
function pointsOf(job, known, figure) {
  return known.windows.map((window, at) => {
    const value = window && figure.value(window, known);
    return [(at + 0.5) * job.window_s, value === undefined || (figure.log && !(value > 0)) ? null : value, at];
  });
}

function callOptions(job, drawn, figure) {
  const { text, faint, line: rule } = inks();
  const all = drawn.map((known) => pointsOf(job, known, figure));
  const ends = job.classes[0].windows.length * job.window_s;
  return {
    ...commonOptions("busbw-job-collectives"),
    grid: { left: 8, right: 24, top: 36, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "all" },
    xAxis: { type: "value", min: 0, max: ends, name: "time since the first call, s", nameLocation: "middle", nameGap: 26, nameTextStyle: { color: text }, axisLabel: { color: text, hideOverlap: true, formatter: (value) => String(Number(value.toPrecision(6))) }, axisLine: { lineStyle: { color: faint } }, splitLine: { show: false } },
    yAxis: { type: figure.log ? "log" : "value", ...(figure.log ? {} : { min: 0 }), name: figure.words + (figure.unit === "GB/s" ? ", GB/s" : ""), nameLocation: "middle", nameGap: 16, nameTextStyle: { color: text }, axisLabel: { color: text, hideOverlap: true, formatter: figure.tick }, axisLine: { show: true, lineStyle: { color: faint } }, splitLine: { lineStyle: { color: rule } } },
    tooltip: {
      ...commonOptions("").tooltip,
      trigger: "item",
      formatter: (item) => {
        const known = drawn[item.seriesIndex];
        const at = item.value[2];
        return element("div", { class: "reading" }, element("p", {}, known.name), element("p", {}, element("b", {}, figure.text(item.value[1]))), element("p", {}, `${windowText(job, at)}, calls: ${known.windows[at].calls}`));
      },
    },
    series: drawn.map((known, number) => ({
      type: "line",
      name: known.name,
      data: all[number],
      encode: { x: 0, y: 1 },
      connectNulls: true,
      showAllSymbol: true,
      symbol: shape(number),
      symbolSize: job.classes[0].windows.length > 30 ? 6 : 8,
      lineStyle: { color: colour(number), width: 1.75 },
      itemStyle: { color: colour(number) },
      emphasis: { disabled: true },
    })),
  };
}

/** Puts the collectives of a job into its section. */
function callChart(part, job) {
  const drawn = job.classes.filter((known) => known.windows.length);
  const choose = part.querySelector("[data-figure]");
  const known = Object.entries(OF_CALLS).filter(([, figure]) => drawn.some((one) => pointsOf(job, one, figure).some((point) => point[1] !== null)));
  if (!known.length) {
    part.remove();
    return;
  }
  choose.append(...known.map(([name, figure]) => element("option", { value: name }, figure.words)));
  const legend = part.querySelector("[data-classes]");
  const words = () => legend.replaceChildren(
    ...drawn.map((one, number) => {
      const mark = element("i", { class: "swatch", "data-shape": shape(number) });
      mark.style.background = mark.style.borderColor = colour(number);
      return element("span", { class: "note" }, mark, ` ${one.name}`);
    }),
    job.classes.length > drawn.length || job.classes_left_out ? element("span", { class: "note" }, "Others took less time: the table below has them.") : "");
  words();
  addEventListener("busbw:look", words);
  const figure = () => OF_CALLS[choose.value];
  const { again } = chartIn(part.querySelector(".chart"), (chart) => chart.setOption(callOptions(job, drawn, figure()), { notMerge: true }));
  const alternative = part.querySelector(".alternative");
  const table = () => {
    const rows = drawn[0].windows.map((_, at) => [windowText(job, at), ...drawn.map((one) => {
      const value = pointsOf(job, one, figure())[at][1];
      return value === null ? "none" : figure().text(value);
    })]);
    alternative.querySelector("div").replaceChildren(tableOf([`window: ${figure().words}`, ...drawn.map((one) => one.name)], rows, true));
  };
  choose.addEventListener("change", () => {
    again();
    if (alternative.open) table();
  });
  alternative.addEventListener("toggle", () => alternative.open && table());
}

/** The least lateness, µs, that has a colour of its own: less is as good as none. */
const LEAST_LATE = 1;

function lateOptions(job, width) {
  const { text, paper } = inks();
  const cells = job.lateness.flatMap((row, y) => row.cells.flatMap((cell, x) => (cell ? [{ value: [x, y, Math.log10(Math.max(cell.us, LEAST_LATE))], cell }] : [])));
  const most = Math.max(2, Math.ceil(cells.reduce((most, cell) => Math.max(most, cell.value[2]), 0)));
  const narrow = width < 560;
  const scale = narrow ? { orient: "horizontal", left: "center", bottom: 0, itemHeight: 120 } : { orient: "vertical", right: 4, top: "center", itemHeight: 160 };
  const names = job.lateness.map((row) => (row.named ? `▼ ${row.name}` : row.name));
  const windows = job.lateness[0].cells.map((_, at) => runTime(at * job.window_s, job.window_s));
  return {
    ...commonOptions("busbw-job-lateness"),
    grid: { left: 8, right: narrow ? 8 : 112, top: 28, bottom: narrow ? 84 : 30, outerBoundsMode: "same", outerBoundsContain: "all" },
    xAxis: { type: "category", data: windows, name: narrow ? "" : "time since the first call", nameLocation: "middle", nameGap: 26, nameTextStyle: { color: text }, axisLabel: { color: text, hideOverlap: true }, axisTick: { show: false }, axisLine: { show: false } },
    yAxis: { type: "category", data: names, inverse: true, axisLabel: { color: text, fontSize: names.length > 32 ? 10 : 12, width: narrow ? 90 : 150, overflow: "truncate", interval: names.length > 32 ? (at) => at % 2 === 0 || job.lateness[at].named : 0 }, axisTick: { show: false }, axisLine: { show: false } },
    visualMap: {
      type: "continuous", dimension: 2, min: Math.log10(LEAST_LATE), max: most, calculable: true, ...scale,
      inRange: { color: SCALE }, textStyle: { color: text }, formatter: (value) => (value <= 0 ? "none" : timeTick(10 ** value)),
    },
    tooltip: {
      ...commonOptions("").tooltip,
      trigger: "item",
      formatter: (item) => {
        const [x, y] = item.value;
        const { cell } = item.data;
        const row = job.lateness[y];
        return element("div", { class: "reading" }, element("p", {}, cell.who ? `${row.name}: ${cell.who}` : row.name), element("p", {}, element("b", {}, `others waited ${time(cell.us)} a call`)), element("p", {}, `last in ${cell.last} of ${cell.calls} calls, ${windowText(job, x)}`));
      },
    },
    series: [{
      type: "heatmap",
      data: cells,
      encode: { x: 0, y: 1, value: 2 },
      itemStyle: { borderColor: paper, borderWidth: names.length > 32 ? 0 : 1 },
      emphasis: { itemStyle: { borderColor: text, borderWidth: 2 } },
    }],
  };
}

/** Puts the lateness of a job's ranks into its section. */
function lateChart(part, job) {
  const holder = part.querySelector(".chart");
  const height = () => (holder.style.height = `${Math.min(960, Math.max(290, job.lateness.length * (job.lateness.length > 32 ? 13 : 26) + (holder.clientWidth < 560 ? 150 : 90)))}px`);
  height();
  chartIn(holder, (chart) => chart.setOption(lateOptions(job, chart.getWidth()), { notMerge: true }));
  const alternative = part.querySelector(".alternative");
  alternative.addEventListener("toggle", () => {
    const cell = (one) => (one === null ? "none" : `${time(one.us)}${one.who ? `, ${one.who}` : ""}`);
    const rows = job.lateness.map((row) => [row.named ? `▼ ${row.name}` : row.name, ...row.cells.map(cell)]);
    const windows = job.lateness[0].cells.map((_, at) => windowText(job, at));
    alternative.querySelector("div").replaceChildren(tableOf(["rank \\ window", ...windows], rows, true));
  }, { once: true });
}
