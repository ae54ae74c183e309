// The two charts over sizes: bandwidth and latency. Not the bars of sweeps, and not the matrices.

const BANDWIDTH = {
  name: "bandwidth",
  value: (row) => bandwidth(row),
  ends: (row) => bandwidthEnds(row, bandwidth(row)),
  text: (value) => `${digits(value)} GB/s`,
};
const LATENCY = {
  name: "latency",
  value: (row) => row.time_us,
  ends: (row) => (row.interval_us ? [row.interval_us.low, row.interval_us.high] : null),
  text: time,
};

/** What is shown, for both charts alike. */
const shown = { hidden: new Set(), out: true, in: true, intervals: true, lines: true, log: false };

/** The rows that a chart can draw: those with a size and a figure, which a logarithm takes. */
function drawable(series, figure, inPlace) {
  return series.rows
    .filter((row) => row.in_place === inPlace && row.size > 0 && figure.value(row) > 0)
    .sort((a, b) => a.size - b.size);
}

/** Every line of a chart: a series out of place or in place, with its rows. */
function linesOf(all, figure) {
  const lines = [];
  all.forEach((series) => {
    const number = series.tint;
    for (const inPlace of [false, true]) {
      if (shown.hidden.has(series.number) || !(inPlace ? shown.in : shown.out)) continue;
      const rows = drawable(series, figure, inPlace);
      if (rows.length) lines.push({ series, number, inPlace, rows, name: series.name + (inPlace ? ", in place" : "") });
    }
  });
  return lines;
}

/** A band of intervals as one shape: a custom series with one item. */
function band(line, figure) {
  const points = line.rows.filter((row) => figure.ends(row));
  if (points.length < 2) return null;
  return {
    type: "custom",
    silent: true,
    z: 1,
    tooltip: { show: false },
    name: `${line.name}: 95 % interval`,
    clip: true,
    encode: { x: 0, y: [1, 2] },
    data: [[Math.log2(points[0].size), ...figure.ends(points[0])]],
    renderItem: (_, api) => {
      const low = points.map((row) => api.coord([Math.log2(row.size), figure.ends(row)[0]]));
      const high = points.map((row) => api.coord([Math.log2(row.size), figure.ends(row)[1]]));
      return {
        type: "polygon",
        shape: { points: high.concat(low.reverse()) },
        style: { fill: colour(line.number), opacity: 0.22 },
      };
    },
  };
}

/** Limits of the shown series, those that are equal once. */
function limitLines(all) {
  const lines = [];
  all.forEach((series) => {
    const number = series.tint;
    if (shown.hidden.has(series.number)) return;
    for (const line of series.lines) {
      const same = lines.find((other) => other.kind === line.kind && Math.abs(other.busbw / line.busbw - 1) < 1e-3);
      if (same) same.owners.push(number);
      else lines.push({ ...line, owners: [number] });
    }
  });
  return lines.sort((a, b) => a.busbw - b.busbw);
}

const LINE_WORDS = { payload: "limit (payload)", line: "line rate", expected: "NCCL expects" };

/** Horizontal lines with their words, placed so that close ones do not cover each other. */
function markLine(all) {
  const { faint, paper } = inks();
  const lines = limitLines(all);
  // The lowest has its words below it, the others above.
  const places = lines.length > 1 ? ["insideEndBottom", "insideStartTop", "insideMiddleTop"] : ["insideEndTop"];
  const owned = lines.length > 3;
  return {
    silent: true,
    symbol: "none",
    animation: false,
    data: lines.map((line, at) => ({
      yAxis: line.busbw,
      name: LINE_WORDS[line.kind],
      lineStyle: { type: line.kind === "expected" ? "dotted" : line.kind === "line" ? "dashed" : "solid", width: 1.25, color: owned ? colour(line.owners[0]) : faint },
      label: {
        position: places[at % places.length],
        color: owned ? colour(line.owners[0]) : faint,
        backgroundColor: paper,
        padding: [1, 3],
        formatter: () => `${LINE_WORDS[line.kind]} ${digits(line.busbw)} GB/s${owned || line.owners.length > 1 ? "" : ` (${line.by})`}`,
      },
    })),
  };
}

/**
 * Ends of the axis of sizes over all rows, whether shown or not, so that nothing jumps. The axis counts
 * doublings: the library's own logarithmic axis zooms by bytes, and the small sizes would be out of reach.
 */
function sizeEnds(all) {
  const sizes = all.flatMap((series) => series.rows.map((row) => row.size)).filter((bytes) => bytes > 0);
  if (!sizes.length) return [0, 1];
  const [smallest, largest] = [sizes.reduce((a, b) => Math.min(a, b)), sizes.reduce((a, b) => Math.max(a, b))];
  return [Math.log2(smallest), Math.max(Math.log2(largest), Math.log2(smallest) + 1)];
}

/** Ticks of that axis over a part of it: whole doublings, about a dozen. */
function sizeTicks(from, to) {
  const step = Math.max(1, Math.round((to - from) / 12));
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  // Sizes between two powers of two are their own ticks.
  const customValues = ticks.length ? ticks : [from, to];
  return { axisTick: { customValues }, axisLabel: { customValues } };
}

/** The next number that an axis may well end with. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const step = 10 ** Math.floor(Math.log10(value / 4));
  return Math.ceil(value / step) * step;
}

/** Whether every bandwidth is a bus bandwidth: OSU's programs know another one. */
function isBusbw(all) {
  const known = all.flatMap((series) => series.rows).filter((row) => bandwidth(row) !== undefined);
  return known.length > 0 && known.every((row) => typeof row.busbw === "number");
}

function sizeOptions(all, figure) {
  const { text, faint, line: rule } = inks();
  const lines = linesOf(all, figure);
  const [smallest, largest] = sizeEnds(all);
  const isBandwidth = figure === BANDWIDTH;
  const logarithmic = !isBandwidth || shown.log;
  const withLimits = isBandwidth && shown.lines;
  const marks = withLimits ? markLine(all) : null;
  const highest = marks ? Math.max(0, ...marks.data.map((mark) => mark.yAxis)) : 0;
  const axis = { axisLabel: { color: text, hideOverlap: true }, axisLine: { show: true, lineStyle: { color: faint } }, nameTextStyle: { color: text }, splitLine: { lineStyle: { color: rule } } };
  const series = lines.map((line) => ({
    type: "line",
    name: line.name,
    z: 3,
    symbol: shape(line.number),
    symbolSize: lines.length > 8 ? 5 : 7,
    showAllSymbol: true,
    itemStyle: { color: line.inPlace ? inks().paper : colour(line.number), borderColor: colour(line.number), borderWidth: 1.5 },
    lineStyle: { color: colour(line.number), width: 1.75, type: line.inPlace ? "dashed" : "solid" },
    emphasis: { disabled: true },
    encode: { x: 0, y: 1 },
    data: line.rows.map((row) => [Math.log2(row.size), figure.value(row), row.size]),
  }));
  if (withLimits) {
    series.push({ type: "line", name: "limits", data: [], symbol: "none", markLine: marks, tooltip: { show: false } });
  }
  const bands = shown.intervals ? lines.map((line) => band(line, figure)).filter(Boolean) : [];
  return {
    ...commonOptions(`busbw-${figure.name}`),
    grid: { left: 8, right: 24, top: 36, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "all" },
    xAxis: {
      type: "value", min: smallest, max: largest, name: "message size", nameLocation: "middle", nameGap: 26,
      ...axis, ...sizeTicks(smallest, largest),
      axisLabel: { ...axis.axisLabel, ...sizeTicks(smallest, largest).axisLabel, formatter: (doublings) => size(Math.round(2 ** doublings)) },
    },
    yAxis: {
      type: logarithmic ? "log" : "value",
      min: logarithmic ? undefined : 0,
      max: logarithmic || !highest ? undefined : (range) => (range.max > highest * 1.04 ? null : roundUp(highest * 1.06)),
      name: isBandwidth ? `${isBusbw(all) ? "bus " : ""}bandwidth (GB/s)` : "time of one operation",
      nameLocation: "middle",
      nameGap: 16,
      ...axis,
      axisLabel: { ...axis.axisLabel, formatter: isBandwidth ? (value) => Number(value.toPrecision(4)).toString() : timeTick },
    },
    dataZoom: [
      { type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false },
      { type: "slider", show: !printing, xAxisIndex: 0, filterMode: "none", bottom: 4, height: 16, brushSelect: false, showDataShadow: false, borderColor: rule, fillerColor: "rgba(128,128,128,.18)", handleStyle: { color: faint }, moveHandleSize: 0, textStyle: { color: text }, labelFormatter: (doublings) => size(Math.round(2 ** doublings)) },
    ],
    toolbox: {
      ...commonOptions(`busbw-${figure.name}`).toolbox,
      feature: {
        dataZoom: { yAxisIndex: "none", filterMode: "none", title: { zoom: "Drag to zoom", back: "Zoom back" } },
        restore: { title: "Show all" },
        ...commonOptions(`busbw-${figure.name}`).toolbox.feature,
      },
    },
    tooltip: {
      ...commonOptions("").tooltip,
      trigger: "axis",
      axisPointer: { type: "line", snap: true, lineStyle: { color: faint } },
      formatter: (items) => {
        const first = [].concat(items).find((item) => item.componentSubType === "line");
        return first ? readingMarkup(lines, figure, first.value[2]) : "";
      },
    },
    series: series.concat(bands),
  };
}

/** The figures at a size, the best first. */
function reading(lines, figure, bytes) {
  const found = lines.flatMap((line) =>
    line.rows.filter((row) => row.size === bytes).map((row) => ({ line, row, value: figure.value(row), ends: figure.ends(row) })));
  return found.sort((a, b) => (figure === LATENCY ? a.value - b.value : b.value - a.value));
}

/** The same as an element. */
function readingMarkup(lines, figure, bytes) {
  const found = reading(lines, figure, bytes);
  const most = 14;
  const rows = found.slice(0, most).map(({ line, row, value, ends }) => {
    const mark = element("i", { class: "swatch", "data-shape": line.inPlace && shape(line.number) === "triangle" ? null : shape(line.number) });
    mark.style.background = line.inPlace ? "transparent" : colour(line.number);
    mark.style.borderColor = colour(line.number);
    const interval = ends ? `${figure.text(ends[0])} – ${figure.text(ends[1])}` : "";
    const other = figure === BANDWIDTH ? (row.time_us ? time(row.time_us) : "") : bandwidth(row) !== undefined && !line.series.latency ? `${digits(bandwidth(row))} GB/s` : "";
    return element("tr", {}, element("td", {}, mark, line.name), element("td", { class: "number" }, element("b", {}, figure.text(value))), element("td", { class: "number" }, interval), element("td", { class: "number" }, other));
  });
  const more = found.length > most ? element("p", {}, `and ${found.length - most} more`) : null;
  return element("div", { class: "reading" }, element("p", {}, `${size(bytes)} (${bytes.toLocaleString("en")} B)`), element("table", {}, ...rows), more);
}

/** Shown size over series: the chart for those who do not see it. */
function sizeTable(all, figure) {
  const lines = linesOf(all, figure);
  const sizes = [...new Set(lines.flatMap((line) => line.rows.map((row) => row.size)))].sort((a, b) => a - b);
  const cell = (line, bytes) => {
    const found = line.rows.filter((row) => row.size === bytes);
    return found.map((row) => {
      const ends = figure.ends(row);
      return figure.text(figure.value(row)) + (ends ? ` (${figure.text(ends[0])} – ${figure.text(ends[1])})` : "");
    }).join("; ");
  };
  return tableOf(["size", ...lines.map((line) => line.name)], sizes.map((bytes) => [size(bytes), ...lines.map((line) => cell(line, bytes))]), true);
}

/** What a chart leaves out, in words. */
function sizeNote(all, figure) {
  const said = [];
  const drawn = all.some((series) => drawable(series, figure, false).length || drawable(series, figure, true).length);
  if (!drawn) said.push(`The sources hold no figures of ${figure.name}.`);
  const intervals = all.some((series) => series.rows.some((row) => figure.ends(row)));
  if (drawn) said.push(intervals ? "Bands are 95 % intervals of the median, where 6 or more samples were taken." : "There are no intervals: they need 6 or more samples of a row.");
  if (figure === BANDWIDTH && drawn && !all.some((series) => series.lines.length)) said.push("No limit is drawn: none is known for these series.");
  if (all.some((series) => series.rows.some((row) => row.size === 0))) said.push("Rows of size 0 are in the table only.");
  return said.join(" ");
}

/** Puts a chart over sizes into its section. */
function sizeChart(section, all, figure) {
  const holder = section.querySelector(".chart");
  section.querySelector("[data-note]").textContent = sizeNote(all, figure);
  const drawn = chartIn(holder, (chart) => chart.setOption(sizeOptions(all, figure), { replaceMerge: ["series"] }));
  const [smallest, largest] = sizeEnds(all);
  drawn.chart.on("datazoom", () => {
    const { start, end } = drawn.chart.getOption().dataZoom[0];
    const at = (percent) => smallest + ((largest - smallest) * percent) / 100;
    drawn.chart.setOption({ xAxis: sizeTicks(at(start), at(end)) });
  });
  const alternative = section.querySelector(".alternative");
  const fill = () => alternative.open && alternative.querySelector("div").replaceChildren(sizeTable(all, figure));
  alternative.addEventListener("toggle", fill);
  addEventListener("busbw:shown", () => {
    drawn.again();
    fill();
  });
  keys(holder, drawn.chart, () => linesOf(all, figure), figure);
}

/** Reading and zooming without a mouse. */
function keys(holder, chart, lines, figure) {
  let at = -1;
  const read = (to) => {
    const drawn = lines();
    const sizes = [...new Set(drawn.flatMap((line) => line.rows.map((row) => row.size)))].sort((a, b) => a - b);
    if (!sizes.length) return;
    at = Math.max(0, Math.min(sizes.length - 1, to(sizes.length)));
    const bytes = sizes[at];
    follow(Math.log2(bytes));
    const number = drawn.findIndex((line) => line.rows.some((row) => row.size === bytes));
    chart.dispatchAction({ type: "showTip", seriesIndex: number, dataIndex: drawn[number].rows.findIndex((row) => row.size === bytes) });
    say(`${size(bytes)}: ${reading(drawn, figure, bytes).map((one) => `${one.line.name} ${figure.text(one.value)}`).join("; ")}`);
  };
  // What is read is moved into view.
  const follow = (doublings) => {
    const { start, end, startValue, endValue } = chart.getOption().dataZoom[0];
    if (doublings >= startValue && doublings <= endValue) return;
    const percent = startValue === endValue ? start : start + ((doublings - startValue) / (endValue - startValue)) * (end - start);
    const half = (end - start) / 2;
    const middle = Math.min(100 - half, Math.max(half, percent));
    chart.dispatchAction({ type: "dataZoom", start: middle - half, end: middle + half });
  };
  const zoom = (factor) => {
    const { start, end } = chart.getOption().dataZoom[0];
    const middle = (start + end) / 2;
    const half = Math.min(50, Math.max(1, ((end - start) / 2) * factor));
    chart.dispatchAction({ type: "dataZoom", start: Math.max(0, middle - half), end: Math.min(100, middle + half) });
  };
  const actions = {
    ArrowRight: () => read(() => at + 1),
    ArrowLeft: () => read(() => at - 1),
    Home: () => read(() => 0),
    End: () => read((count) => count - 1),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    0: () => chart.dispatchAction({ type: "dataZoom", start: 0, end: 100 }),
    Escape: () => chart.dispatchAction({ type: "hideTip" }),
  };
  holder.addEventListener("keydown", (event) => {
    const action = event.ctrlKey || event.metaKey || event.altKey ? null : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  holder.addEventListener("blur", () => chart.dispatchAction({ type: "hideTip" }));
}

/** More series than these are hidden to begin with: nobody tells them apart, and drawing them takes long. */
const MAX_SERIES = 24;

/** Buttons that show and hide series, and what else both charts obey. */
function legend(holder, controls, all) {
  const changed = () => dispatchEvent(new Event("busbw:shown"));
  const tests = [...new Set(all.map((series) => series.test))];
  const buttons = all.map((series, number) => {
    const mark = element("i", { class: "swatch" });
    const first = tests.length > 1 && all[number - 1]?.test !== series.test;
    if (number >= MAX_SERIES) shown.hidden.add(number);
    const button = element("button", { type: "button", "aria-pressed": String(number < MAX_SERIES), title: series.name }, mark, element("span", {}, series.name));
    button.addEventListener("click", () => {
      const hide = !shown.hidden.has(number);
      if (hide) shown.hidden.add(number);
      else shown.hidden.delete(number);
      button.setAttribute("aria-pressed", String(!hide));
      changed();
    });
    return { button, mark, number, tint: series.tint, head: first ? element("span", { class: "group" }, series.test) : null };
  });
  const paint = () => buttons.forEach(({ mark, tint }) => {
    mark.style.background = colour(tint);
    mark.style.borderColor = colour(tint);
    mark.dataset.shape = shape(tint);
  });
  paint();
  addEventListener("busbw:look", paint);
  holder.append(...buttons.flatMap(({ head, button }) => [head, button]).filter(Boolean));
  if (all.length > 2) {
    for (const [text, hide] of [["all", false], ["none", true]]) {
      const every = element("button", { type: "button", class: "plain" }, text);
      every.addEventListener("click", () => {
        buttons.forEach(({ button, number }) => {
          if (hide) shown.hidden.add(number);
          else shown.hidden.delete(number);
          button.setAttribute("aria-pressed", String(!hide));
        });
        changed();
      });
      holder.append(every);
    }
  }
  if (all.length > MAX_SERIES) holder.append(element("span", { class: "note" }, `the first ${MAX_SERIES} of ${all.length} are shown; press others`));
  const bandwidths = document.querySelector('[data-chart="speed"]') !== null;
  const has = {
    out: all.some((series) => series.rows.some((row) => !row.in_place)),
    in: all.some((series) => series.rows.some((row) => row.in_place)),
    intervals: all.some((series) => series.rows.some((row) => row.interval_us)),
    lines: all.some((series) => series.lines.length) && bandwidths,
    log: bandwidths,
  };
  controls.querySelectorAll("[data-show]").forEach((box) => {
    const what = box.dataset.show;
    // With many runs, one line each is enough to begin with.
    if (what === "in" && all.length > 6) box.checked = false;
    shown[what] = box.checked;
    box.closest("label").hidden = !has[what];
    box.addEventListener("change", () => {
      shown[what] = box.checked;
      changed();
    });
  });
}
