// Transports, or the environments of a sweep, as bars: one size at a time. Not their lines over sizes.

/** Below this width words stand below bars. */
const NARROW = 560;

function barOptions(sweep, row, width) {
  const { text, faint, line: rule, paper } = inks();
  const measured = sweep.environments.map((environment, number) => ({ environment, cell: row.cells[number] })).filter(({ cell }) => cell);
  const words = (cell) => [
    withUnit(cell.value, sweep.unit),
    cell.multiple !== null ? `${digits(cell.multiple)}×${cell.against ? ` (${cell.against})` : ""}` : null,
    cell.percent !== null ? `${cell.percent.toFixed(1)} % of limit` : null,
  ].filter(Boolean).join("   ");
  const narrow = width < NARROW;
  const end = (cell) => (cell.interval ? Math.max(cell.interval[1], cell.value) : cell.value);
  const limit = (cell) => (cell.percent > 0 && sweep.figure === "bus bandwidth" ? (cell.value / cell.percent) * 100 : NaN);
  const top = Math.max(...measured.flatMap(({ cell }) => [end(cell), limit(cell)]).filter(Number.isFinite));
  return {
    ...commonOptions(`busbw-${sweep.command}`),
    grid: { left: 8, right: narrow ? 12 : 310, top: 28, bottom: 8, outerBoundsMode: "same", outerBoundsContain: "all" },
    xAxis: {
      type: "value", min: 0, ...evenTicks(top * 1.01), name: sweep.unit === "us" ? `${sweep.figure} (µs)` : `${sweep.figure} (${sweep.unit})`, nameLocation: "middle", nameGap: 26,
      axisLabel: { color: text, hideOverlap: true, formatter: (value) => Number(value.toPrecision(4)).toString() }, nameTextStyle: { color: text }, splitLine: { lineStyle: { color: rule } },
    },
    yAxis: { type: "category", inverse: true, data: measured.map(({ environment }) => environment.name), axisLabel: { color: text, width: 220, overflow: "truncate" }, axisTick: { show: false }, axisLine: { lineStyle: { color: faint } } },
    tooltip: {
      ...commonOptions("").tooltip,
      trigger: "item",
      formatter: (item) => {
        const { environment, cell } = measured[item.dataIndex];
        const interval = cell.interval ? `95 %: ${withUnit(cell.interval[0], sweep.unit)} – ${withUnit(cell.interval[1], sweep.unit)}` : "too few launches for an interval";
        return element("div", { class: "reading" }, element("p", {}, environment.name), element("p", {}, element("b", {}, words(cell))), element("p", {}, interval), element("p", {}, environment.settings));
      },
    },
    series: [
      {
        type: "bar",
        barMaxWidth: narrow ? 14 : 22,
        data: measured.map(({ environment, cell }) => ({
          value: cell.value,
          itemStyle: { color: environment.name === sweep.baseline ? faint : colour(0) },
        })),
      },
      {
        type: "custom",
        silent: true,
        z: 4,
        encode: { x: [1, 2], y: 0 },
        data: measured.map(({ cell }, at) => [at, ...(cell.interval ?? [cell.value, cell.value])]),
        // The whisker, behind it the words, and the limit across the row.
        renderItem: (params, api) => {
          const { cell } = measured[api.value(0)];
          const [low, y] = api.coord([api.value(1), api.value(0)]);
          const [high] = api.coord([api.value(2), api.value(0)]);
          const line = (x1, y1, x2, y2, more = {}) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: text, lineWidth: 1.5, fill: "none", ...more } });
          const whisker = cell.interval ? [line(low, y, high, y), line(low, y - 5, low, y + 5), line(high, y - 5, high, y + 5)] : [];
          const [at] = api.coord([limit(cell), api.value(0)]);
          const limits = Number.isFinite(at) ? [line(at, y - 15, at, y + (narrow ? 10 : 15), { lineDash: [4, 3], lineWidth: 2 })] : [];
          // Neither a whisker nor a limit strikes the words: they stand behind the axis, or below the bar where it is narrow.
          const place = narrow ? { x: 0, y: y + 20 } : { x: params.coordSys.x + params.coordSys.width + 12, y };
          return { type: "group", children: [...limits, ...whisker, { type: "text", style: { text: words(cell), ...place, textVerticalAlign: "middle", fill: text, backgroundColor: narrow ? paper : null, padding: narrow ? [1, 4] : 0, fontSize: 12 } }] };
        },
      },
    ],
  };
}

/** An end of an axis that is a whole number of round steps from 0. */
function evenTicks(value) {
  if (!(value > 0)) return { max: 1 };
  const power = 10 ** Math.floor(Math.log10(value));
  const interval = [0.1, 0.2, 0.25, 0.5, 1, 2].map((part) => part * power).find((step) => value / step <= 7);
  return { max: Math.ceil(value / interval) * interval, interval };
}

/** Puts the bars of a sweep into its section. */
function barChart(section, sweep) {
  const holder = section.querySelector(".chart");
  const choice = section.querySelector("[data-size]");
  const rows = sweep.sizes.filter((row) => row.cells.some(Boolean));
  if (!rows.length) {
    holder.replaceWith(element("p", { class: "unknown" }, "Nothing was measured."));
    choice.closest(".controls").remove();
    section.querySelector(".alternative").remove();
    return;
  }
  choice.append(...rows.map((row, at) => element("option", { value: at, selected: at === rows.length - 1 ? "" : null }, row.label)));
  const row = () => rows[Number(choice.value)];
  const most = Math.max(...rows.map((one) => one.cells.filter(Boolean).length));
  const height = () => (holder.style.height = `${most * (holder.clientWidth < NARROW ? 58 : 40) + 84}px`);
  height();
  addEventListener("resize", height);
  const drawn = chartIn(holder, (chart) => chart.setOption(barOptions(sweep, row(), chart.getWidth()), { notMerge: true }));
  choice.addEventListener("change", drawn.again);
  const cell = (one) => (one ? withUnit(one.value, sweep.unit) + (one.multiple !== null ? ` (${digits(one.multiple)}×)` : "") : "none");
  section.querySelector(".alternative div").append(
    tableOf(["size", ...sweep.environments.map((environment) => environment.name)], sweep.sizes.map((one) => [one.label, ...one.cells.map(cell)]), true));
}
