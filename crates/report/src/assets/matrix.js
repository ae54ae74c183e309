// A matrix of pairs as a heat map: senders are rows, receivers columns. Not how pairs are judged.

function matrixOptions(pairs, width) {
  const { text, paper } = inks();
  const cells = [];
  pairs.values.forEach((row, from) => row.forEach((value, to) => {
    if (value !== null) cells.push([to, from, value]);
  }));
  const values = cells.map((cell) => cell[2]);
  const [least, most] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  // Figures in cells need room; names of rows and the scale take some 260 pixels.
  const few = (width - 260) / pairs.labels.length > 44;
  const slow = new Set(pairs.slow_cells.map(([from, to]) => `${from} ${to}`));
  const isSlow = ([to, from]) => slow.has(`${from} ${to}`);
  const colours = pairs.unit === "us" ? [...SCALE].reverse() : SCALE;
  const label = { color: text, fontSize: pairs.labels.length > 32 ? 10 : 12, width: 150, overflow: "truncate" };
  // Words on bright cells are dark and the other way round.
  const isBright = (value) => {
    const share = most > least ? (value - least) / (most - least) : 1;
    return (pairs.unit === "us" ? 1 - share : share) > 0.55;
  };
  // Beside the matrix the scale would take its room on a narrow screen.
  const narrow = width < 560;
  const scale = narrow ? { orient: "horizontal", left: "center", bottom: 0, itemHeight: 120 } : { orient: "vertical", right: 4, top: "center", itemHeight: 160 };
  const axisName = (name) => ({ name: narrow ? "" : name, nameLocation: "middle", nameGap: 12, nameTextStyle: { color: text } });
  return {
    ...commonOptions("busbw-pairs"),
    grid: { left: 8, right: narrow ? 8 : 112, top: 28, bottom: narrow ? 72 : 8, outerBoundsMode: "same", outerBoundsContain: "all" },
    xAxis: { type: "category", data: pairs.labels, position: "top", ...axisName("receiver"), axisLabel: { ...label, rotate: pairs.labels.length > 8 ? 60 : 0 }, axisTick: { show: false }, axisLine: { show: false } },
    yAxis: { type: "category", data: pairs.labels, inverse: true, ...axisName("sender"), axisLabel: narrow ? { ...label, width: 90 } : label, axisTick: { show: false }, axisLine: { show: false } },
    visualMap: {
      type: "continuous", min: least, max: most > least ? most : least + 1, calculable: true, ...scale,
      inRange: { color: colours }, textStyle: { color: text }, formatter: (value) => digits(value), text: [pairs.unit === "us" ? "µs" : pairs.unit, ""],
    },
    tooltip: {
      ...commonOptions("").tooltip,
      trigger: "item",
      formatter: (item) => {
        const [to, from, value] = item.value;
        return element("div", { class: "reading" }, element("p", {}, `${pairs.labels[from]} → ${pairs.labels[to]}`), element("p", {}, element("b", {}, withUnit(value, pairs.unit))), isSlow(item.value) ? element("p", {}, "slow") : null);
      },
    },
    series: [{
      type: "heatmap",
      // Slow cells are marked by a frame and a sign, not by their colour alone.
      data: cells.map((value) => ({
        value,
        label: { color: isBright(value[2]) ? "#111" : "#fff", ...(isSlow(value) ? { show: true, fontWeight: "bold" } : {}) },
        ...(isSlow(value) ? { itemStyle: { borderColor: "#ff5a4d", borderWidth: few ? 3 : 2 } } : {}),
      })),
      label: { show: few, formatter: (item) => (isSlow(item.value) ? (few ? `▼ ${digits(item.value[2])}` : "▼") : digits(item.value[2])), fontSize: 11 },
      itemStyle: { borderColor: paper, borderWidth: few ? 1 : 0 },
      emphasis: { itemStyle: { borderColor: text, borderWidth: 2 } },
    }],
  };
}

/** Puts a matrix into its section. */
function matrixChart(section, pairs) {
  const holder = section.querySelector(".chart");
  const what = pairs.what ?? "Each sender to each receiver";
  section.querySelector("[data-about]").textContent = `${what}: ${pairs.labels.length} ranks, messages of ${size(pairs.size)}${pairs.started ? `, ${pairs.started}` : ""}. Senders are rows, receivers columns; ${pairs.unit === "us" ? "less" : "more"} is better.${pairs.slow_cells.length ? " Slow pairs are framed and marked ▼." : ""}`;
  holder.style.height = `${Math.min(960, Math.max(260, pairs.labels.length * 34 + (pairs.labels.length > 8 ? 180 : 110)))}px`;
  chartIn(holder, (chart) => chart.setOption(matrixOptions(pairs, chart.getWidth()), { notMerge: true }));
  const alternative = section.querySelector(".alternative");
  alternative.addEventListener("toggle", () => {
    const cell = (value) => (value === null ? "none" : withUnit(value, pairs.unit));
    const isSlow = (from, to) => pairs.slow_cells.some(([a, b]) => a === from && b === to);
    const rows = pairs.values.map((row, from) => [pairs.labels[from], ...row.map((value, to) => cell(value) + (isSlow(from, to) ? " (slow)" : ""))]);
    alternative.querySelector("div").replaceChildren(tableOf(["sender \\ receiver", ...pairs.labels], rows, true));
  }, { once: true });
}
