// Figures as people read them, and small helpers for elements. Not what is shown.
"use strict";

/** Bytes in binary units: 65536 is "64 KiB". */
function size(bytes) {
  const units = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  for (const [unit, name] of units) {
    if (bytes >= unit) {
      const value = bytes / unit;
      return `${Number.isInteger(value) ? value : value.toFixed(value < 10 ? 2 : 1)} ${name}`;
    }
  }
  return `${bytes} B`;
}

/** A figure with as many digits as tell something. */
function digits(value) {
  const magnitude = Math.abs(value);
  if (magnitude === 0) return "0";
  if (magnitude >= 1e5) return Math.round(value).toLocaleString("en");
  if (magnitude >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 1 });
  if (magnitude >= 0.1) return value.toFixed(2);
  return String(Number(value.toPrecision(3)));
}

/** Microseconds, in the unit that suits. */
function time(us) {
  if (us >= 1e6) return `${digits(us / 1e6)} s`;
  if (us >= 1e4) return `${digits(us / 1e3)} ms`;
  return `${digits(us)} µs`;
}

/** Ticks of a time axis: no more digits than they have. */
function timeTick(us) {
  const [unit, name] = us >= 1e6 ? [1e6, "s"] : us >= 1e3 ? [1e3, "ms"] : [1, "µs"];
  return `${Number((us / unit).toPrecision(3))} ${name}`;
}

/** A figure in a unit of the data. */
function withUnit(value, unit) {
  return unit === "us" ? time(value) : `${digits(value)} ${unit}`;
}

/** A row's placements, each with what both share: charts and the table show one at a time. */
function placements({ out_of_place, in_place, ...row }) {
  const of = (half, inPlace) => (half ? [{ ...row, ...half, in_place: inPlace }] : []);
  return [...of(out_of_place, false), ...of(in_place, true)];
}

/** The ends of a row's interval as bus or algorithm bandwidth: bytes over time, so the ends change places. */
function bandwidthEnds(row, bandwidth) {
  const { low, high } = row.interval_us ?? {};
  if (!(low > 0) || !row.time_us || bandwidth === undefined) return null;
  return [(bandwidth * row.time_us) / high, (bandwidth * row.time_us) / low];
}

/** What a row's bandwidth is: bus bandwidth, or that of a program that knows one only. */
function bandwidth(row) {
  return row.busbw ?? row.algbw;
}

/** An element with text and children; text never becomes markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A table of texts; the first column heads the rows. */
function tableOf(heads, rows, numeric) {
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map((cells) =>
    element("tr", {}, ...cells.map((text, at) =>
      at === 0 ? element("th", { scope: "row" }, text) : element("td", { class: numeric ? "number" : null }, text))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

/** Hands a text to the reader as a file. */
function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Tells a screen reader. */
function say(text) {
  document.getElementById("said").textContent = text;
}
