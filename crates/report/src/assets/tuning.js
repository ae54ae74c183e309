// A tuning as two charts: every launch by its gain, and the final comparison with its intervals. Not its tables.

/** What launches are for, in words, with the shape and the colour (a number, or none) of their marks. */
const PURPOSES = {
  baseline: { words: "defaults again", shape: "circle", colour: null },
  explored: { words: "explored", shape: "rect", colour: 1 },
  race: { words: "race", shape: "triangle", colour: 2 },
  rung: { words: "rung", shape: "diamond", colour: 3 },
  final: { words: "final comparison", shape: "circle", colour: 0 },
};
/** A cross. */
const CROSS = "path://M0,1L1,0L4,3L7,0L8,1L5,4L8,7L7,8L4,5L1,8L0,7L3,4Z";
/** Launches whose marks are large; more of them cover each other. */
const FEW_LAUNCHES = 120;

/** A fraction as percent with a sign. */
function gain(fraction) {
  const percent = 100 * fraction;
  return `${percent > 0 ? "+" : ""}${percent.toFixed(1)} %`;
}

function gainWithInterval({ gain: middle, interval }) {
  return interval ? `${gain(middle)} (${(100 * interval[0]).toFixed(1)} to ${(100 * interval[1]).toFixed(1)})` : gain(middle);
}

const purposeColour = (purpose) => (purpose.colour === null ? inks().faint : colour(purpose.colour));
const percentAxis = (name) => {
  const { text, faint, line: rule } = inks();
  return { type: "value", name, nameLocation: "middle", nameTextStyle: { color: text }, axisLabel: { color: text, hideOverlap: true, formatter: (value) => `${Number(value.toPrecision(4))} %` }, axisLine: { show: true, onZero: false, lineStyle: { color: faint } }, splitLine: { lineStyle: { color: rule } } };
};

function launchOptions(tuning) {
  const { text, faint, wrong } = inks();
  const symbolSize = tuning.launches.length > FEW_LAUNCHES ? 7 : 9;
  const points = (series, data, more) => ({ type: "line", name: series, lineStyle: { width: 0 }, showAllSymbol: true, symbolSize, emphasis: { disabled: true }, encode: { x: 0, y: 1 }, data, ...more });
  const failed = tuning.launches.filter((launch) => launch.failed !== null);
  const ran = tuning.launches.filter((launch) => launch.gain !== null);
  const lowest = Math.min(0, ...ran.map((launch) => 100 * launch.gain));
  const highest = Math.max(0, ...ran.map((launch) => 100 * launch.gain));
  // Failures have no gain: below all that have one.
  const floor = lowest - Math.max(1, 0.08 * (highest - lowest));
  const series = Object.entries(PURPOSES).map(([kind, purpose]) => {
    const of = ran.filter((launch) => launch.kind === kind);
    return points(purpose.words, of.map((launch) => [launch.number, 100 * launch.gain, launch.number]), {
      symbol: purpose.shape,
      z: kind === "final" ? 4 : 3,
      itemStyle: { color: purposeColour(purpose), opacity: 0.85 },
    });
  });
  series.push(points("failed", failed.map((launch) => [launch.number, floor, launch.number]), { symbol: CROSS, z: 5, itemStyle: { color: wrong } }));
  series.push({ type: "line", name: "the defaults", data: [], symbol: "none", tooltip: { show: false }, markLine: { z: 2, silent: true, symbol: "none", animation: false, label: { show: false }, data: [{ yAxis: 0, lineStyle: { type: "dashed", width: 1.25, color: faint } }] } });
  return {
    ...commonOptions("busbw-tuning"),
    grid: { left: 8, right: 24, top: 36, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "all" },
    xAxis: { type: "value", min: 0, minInterval: 1, name: "launch", nameLocation: "middle", nameGap: 26, nameTextStyle: { color: text }, axisLabel: { color: text, hideOverlap: true }, axisLine: { onZero: false, lineStyle: { color: faint } }, splitLine: { show: false } },
    yAxis: { ...percentAxis("gain over the defaults"), nameGap: 16 },
    tooltip: {
      ...commonOptions("").tooltip,
      trigger: "item",
      formatter: (item) => {
        const launch = tuning.launches.find((one) => one.number === item.value[2]);
        return element("div", { class: "reading" }, element("p", {}, `Launch ${launch.number}: ${PURPOSES[launch.kind].words}`), element("p", {}, element("b", {}, launch.gain === null ? launch.failed : gain(launch.gain))), element("p", {}, launch.sets));
      },
    },
    series,
  };
}

/** Puts the launches of a tuning into its section. */
function launchChart(part, tuning) {
  const kinds = Object.entries(PURPOSES).filter(([kind]) => tuning.launches.some((launch) => launch.kind === kind && launch.gain !== null));
  const legend = part.querySelector("[data-kinds]");
  const words = () => legend.replaceChildren(
    ...kinds.map(([, purpose]) => {
      const mark = element("i", { class: "swatch", "data-shape": purpose.shape });
      mark.style.background = mark.style.borderColor = purposeColour(purpose);
      return element("span", { class: "note" }, mark, ` ${purpose.words}`);
    }),
    tuning.launches.some((launch) => launch.failed !== null) ? element("span", { class: "note wrong" }, "✕ failed") : "");
  words();
  addEventListener("busbw:look", words);
  chartIn(part.querySelector(".chart"), (chart) => chart.setOption(launchOptions(tuning), { notMerge: true }));
  const alternative = part.querySelector(".alternative");
  alternative.addEventListener("toggle", () => {
    const rows = tuning.launches.map((launch) => [String(launch.number), PURPOSES[launch.kind].words, launch.failed ?? (launch.gain === null ? "none" : gain(launch.gain)), launch.sets]);
    alternative.querySelector("div").replaceChildren(tableOf(["launch", "purpose", "gain", "it set"], rows));
  }, { once: true });
}

function sideOptions(sides, width) {
  const { text, faint, paper, wrong } = inks();
  const narrow = width < NARROW;
  const percent = (side) => [100 * side.gain.interval[0], 100 * side.gain.gain, 100 * side.gain.interval[1]];
  const words = (side) => `${side.status === "slower" ? "▼ " : ""}${gainWithInterval(side.gain)}   ${side.status}`;
  const ink = (side) => (side.status === "slower" ? wrong : side.status === "faster" ? colour(0) : faint);
  return {
    ...commonOptions("busbw-tuning-gains"),
    grid: { left: 8, right: narrow ? 12 : 260, top: 28, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "all" },
    xAxis: { ...percentAxis("gain over the defaults"), nameGap: 26 },
    yAxis: { type: "category", inverse: true, data: sides.map((side) => side.name), axisLabel: { color: text, width: narrow ? 110 : 240, overflow: "truncate" }, axisTick: { show: false }, axisLine: { onZero: false, lineStyle: { color: faint } } },
    tooltip: {
      ...commonOptions("").tooltip,
      trigger: "item",
      formatter: (item) => {
        const side = sides[item.dataIndex];
        const times = side.default_us === null ? null : element("p", {}, `${time(side.default_us)} with the defaults, ${time(side.with_it_us)} with it`);
        return element("div", { class: "reading" }, element("p", {}, side.name), element("p", {}, element("b", {}, words(side))), times);
      },
    },
    series: [{
      type: "custom",
      z: 4,
      encode: { x: [1, 2, 3], y: 0 },
      data: sides.map((side, at) => [at, ...percent(side)]),
      markLine: { z: 2, silent: true, symbol: "none", animation: false, label: { show: false }, data: [{ xAxis: 0, lineStyle: { type: "dashed", width: 1.25, color: faint } }] },
      renderItem: (params, api) => {
        const side = sides[api.value(0)];
        const [low, y] = api.coord([api.value(1), api.value(0)]);
        const [middle] = api.coord([api.value(2), api.value(0)]);
        const [high] = api.coord([api.value(3), api.value(0)]);
        const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: ink(side), lineWidth: 2, fill: "none" } });
        const place = narrow ? { x: 0, y: y + 18 } : { x: params.coordSys.x + params.coordSys.width + 12, y };
        return { type: "group", children: [
          line(low, y, high, y), line(low, y - 5, low, y + 5), line(high, y - 5, high, y + 5),
          { type: "circle", shape: { cx: middle, cy: y, r: 5 }, style: { fill: ink(side) } },
          { type: "text", style: { text: words(side), ...place, textVerticalAlign: "middle", fill: text, backgroundColor: narrow ? paper : null, padding: narrow ? [1, 4] : 0, fontSize: 12 } },
        ] };
      },
    }],
  };
}

/** Puts the final comparison of a tuning into its section. */
function sideChart(part, all) {
  const holder = part.querySelector(".chart");
  const sides = all.filter((side) => side.gain !== null && side.gain.interval !== null);
  if (!sides.length) {
    part.remove();
    return;
  }
  const height = () => (holder.style.height = `${sides.length * (holder.clientWidth < NARROW ? 50 : 34) + 84}px`);
  height();
  addEventListener("resize", height);
  chartIn(holder, (chart) => chart.setOption(sideOptions(sides, chart.getWidth()), { notMerge: true }));
}
