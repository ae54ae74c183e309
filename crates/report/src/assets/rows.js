// The table of all rows: filter, order, CSV. Not the charts' own tables.

const COLUMNS = [
  { head: "run", value: (row) => row.run },
  { head: "size", unit: "bytes", number: true, value: (row) => row.size, text: (row) => size(row.size) },
  { head: "count", unit: "elements", number: true, value: (row) => row.count },
  { head: "type", value: (row) => row.datatype },
  { head: "op", value: (row) => row.redop },
  { head: "root", number: true, value: (row) => row.root },
  { head: "place", value: (row) => (row.in_place ? "in-place" : "out-of-place") },
  { head: "time", unit: "us", number: true, value: (row) => row.time_us, text: (row) => (row.time_us === undefined ? undefined : time(row.time_us)) },
  { head: "time_low", title: "95 % from", unit: "us", number: true, value: (row) => row.interval_us?.low, text: (row) => (row.interval_us ? time(row.interval_us.low) : undefined) },
  { head: "time_high", title: "to", unit: "us", number: true, value: (row) => row.interval_us?.high, text: (row) => (row.interval_us ? time(row.interval_us.high) : undefined) },
  { head: "algbw", unit: "GB/s", number: true, value: (row) => row.algbw, text: (row) => (row.algbw === undefined || row.latency ? undefined : digits(row.algbw)) },
  { head: "busbw", unit: "GB/s", number: true, value: (row) => row.busbw, text: (row) => (row.busbw === undefined || row.latency ? undefined : digits(row.busbw)) },
  { head: "wrong", number: true, value: (row) => row.wrong },
  { head: "algorithm", value: (row) => row.algorithm },
];
/** More rows are not put into the page: a filter finds them, and the CSV has them. */
const MAX_ROWS = 4000;

function cellText(column, row) {
  return (column.text ? column.text(row) : column.value(row)) ?? "";
}

/** A cell of the CSV. A text that a spreadsheet would take for a formula is marked as text. */
function csvCell(value) {
  if (value === undefined || value === null) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csv(rows) {
  const head = COLUMNS.map((column) => (column.unit ? `${column.head}_${column.unit.replace("/", "_per_")}` : column.head));
  const lines = rows.map((row) => COLUMNS.map((column) => csvCell(column.value(row))).join(","));
  return [head.join(","), ...lines].join("\r\n") + "\r\n";
}

/** Puts all rows into the table. */
function rowsTable(section, all) {
  const rows = all.flatMap((series) => series.rows.map((row) => ({ ...row, run: series.name, latency: series.latency })));
  // A column in which nothing stands is left out of the table, not out of the CSV.
  const columns = COLUMNS.filter((column) => rows.some((row) => cellText(column, row) !== ""));
  const texts = new Map(rows.map((row) => [row, columns.map((column) => String(cellText(column, row))).join(" ").toLowerCase()]));
  const [filter, count, button] = ["#filter", "#count", "#csv"].map((name) => section.querySelector(name));
  let order = null;
  let found = rows;

  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = rows.filter((row) => words.every((word) => texts.get(row).includes(word)));
    if (order) {
      const { column, down } = order;
      const sign = down ? -1 : 1;
      // What is absent comes last either way.
      found = [...found].sort((a, b) => {
        const [x, y] = [column.value(a), column.value(b)];
        if (x === undefined || y === undefined) return Number(x === undefined) - Number(y === undefined);
        return sign * (column.number ? x - y : String(x).localeCompare(String(y)));
      });
    }
    section.querySelector("tbody").replaceChildren(...found.slice(0, MAX_ROWS).map((row) =>
      element("tr", { class: row.wrong > 0 ? "wrong" : null }, ...columns.map((column) =>
        element("td", { class: column.number ? "number" : null }, String(cellText(column, row)))))));
    const cut = found.length > MAX_ROWS ? `, the first ${MAX_ROWS} of them here` : "";
    count.textContent = `${found.length} of ${rows.length} rows${cut}`;
    button.textContent = `Download CSV (${found.length} rows)`;
  };

  const heads = columns.map((column) => {
    const sort = element("button", { type: "button" }, column.title ?? column.head, column.unit && column.unit !== "us" && column.head !== "size" ? element("small", {}, column.unit) : null);
    const head = element("th", { scope: "col", class: column.number ? "number" : null }, sort);
    sort.addEventListener("click", () => {
      order = { column, down: order?.column === column ? !order.down : false };
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      show();
    });
    return head;
  });
  section.querySelector("thead").append(element("tr", {}, ...heads));
  filter.addEventListener("input", show);
  button.addEventListener("click", () => download("busbw-rows.csv", "text/csv", csv(found)));
  section.dataset.long = String(rows.length > 200);
  show();
}
