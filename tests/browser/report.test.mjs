// The report page as people use it, in a real headless Chromium.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { existsSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open, visit } from "./browser.mjs";
import { PAGES } from "./pages.mjs";
import { folder, pairs, path, record, report, transports } from "./samples.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Where screenshots go, if somebody wants to look at them.
const shots = process.env.SCREENSHOTS;
const GIB = 2 ** 30;
const limit = { timeout: 60000 };

let browser, whole, single, many, made;

before(async () => {
  made = {
    slow: record("baseline.jsonl", { seed: 1 }),
    fast: record("tuned.jsonl", { seed: 2, speed: 1.2 }),
    other: record("alltoall.jsonl", { seed: 3, speed: 0.8, collective: "alltoall" }),
    transports: transports("transports.json"),
    pairs: pairs("pairs.json"),
  };
  whole = report("whole.html", ["baseline.jsonl", "tuned.jsonl", "alltoall.jsonl", "transports.json", "pairs.json"]);
  single = report("single.html", [join(process.env.REPORT_LOGS, "16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt")], "--machine", "dgx-h100");
  const names = Array.from({ length: 20 }, (_, number) => `run-${number}.jsonl`);
  names.forEach((name, number) => record(name, { seed: number, speed: 0.7 + number * 0.03 }));
  many = report("many.html", names);
  browser = await open();
}, { timeout: 120000 });

after(() => browser?.close());

/** Runs a check on a page, which must end without a word on the console and without a request. */
function check(name, address, options, body) {
  test(name, limit, async () => {
    const { page, seen } = await visit(browser, address(), options);
    try {
      await body(page, seen);
      assert.deepEqual(seen.said, []);
      assert.deepEqual(seen.requested.filter((url) => !url.startsWith("blob:null/")), [address()]);
    } finally {
      await page.close();
    }
  });
}

const rowOf = (lines, size) => lines.find((line) => line.kind === "row" && line.size === size);
/** The chart of a kind; of those over sizes the first test's. */
const chart = (what) => (["speed", "time"].includes(what) ? `#${what}-0 .chart` : `[data-chart="${what}"] .chart`);
const texts = (page, selector) => page.$$eval(`${selector} svg text`, (found) => found.map((one) => one.textContent));
/** Shapes of a chart in a colour. */
const inColour = (page, selector, colour) => page.$$eval(`${selector} svg path`, (paths, wanted) => paths.filter((one) => [one.getAttribute("stroke"), one.getAttribute("fill")].includes(wanted)).length, colour);

/** Where a size is on a chart's axis, in pixels of the window, from the labels of the axis. */
async function across(page, selector, size) {
  await page.$eval(selector, (found) => found.scrollIntoView({ block: "center", behavior: "instant" }));
  return page.$eval(selector, (found, wanted) => {
    const units = { B: 0, KiB: 10, MiB: 20, GiB: 30 };
    const sizes = [...found.querySelectorAll("svg text")].flatMap((one) => {
      const [, count, unit] = /^([0-9]+) (B|[KMG]iB)$/.exec(one.textContent) ?? [];
      const box = one.getBoundingClientRect();
      return unit ? [{ doublings: Math.log2(count) + units[unit], x: box.x + box.width / 2, y: box.y }] : [];
    });
    // The axis is labelled at its ends; the handles below it are not.
    const axis = sizes.filter((one) => one.y === sizes[0].y).sort((a, b) => a.doublings - b.doublings);
    const [first, last] = [axis[0], axis.at(-1)];
    const box = found.getBoundingClientRect();
    return { x: first.x + ((last.x - first.x) * (Math.log2(wanted) - first.doublings)) / (last.doublings - first.doublings), y: box.y + box.height * 0.4 };
  }, size);
}

test("every kind of page is quiet and loads nothing", limit, async () => {
  for (const address of [whole, single, many]) {
    for (const dark of [false, true]) {
      const { page, seen } = await visit(browser, address, { dark });
      assert.deepEqual(seen, { said: [], requested: [address] });
      if (shots) {
        mkdirSync(shots, { recursive: true });
        const name = address.split("/").pop().replace(".html", dark ? "-dark" : "-light");
        await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
      }
      await page.close();
    }
  }
});

/** What every kind of page must say on its first screen: the verdict, and the remedy. */
const FIRST_SCREEN = {
  one: [/Healthy/, /392\.3 GB\/s/, /98\.7 % of the limit, 397\.5 GB\/s/, /Do: Nothing: this is what the hardware allows/],
  slow: [/Limit unknown/, /11\.89 GB\/s/, /Do: Look at the lanes of each GPU's slot/],
  many: [/GB\/s/, /6 runs, all results right/, /Do: \S+/],
  public: [/Limit unknown/, /132\.7 GB\/s/, /Do: Repeat the run/],
  folder: [/Slow/, /132\.7 GB\/s/, /29\.5 % of the limit/, /Do: Run it once with NCCL_DEBUG=INFO/],
  sweep: [/No single fastest/, /370\.7 GB\/s/, /77\.2 % of the limit/, /Do: .*more launches/s, /busbw sweep --launches 12/],
  transports: [/Fastest: p2p/, /327\.9 GB\/s/, /73\.0 % of the limit/, /Do: nvls failed/],
  tuning: [/Faster, but not at all sizes/, /\+29\.8 %/, /95 % interval 27\.8 to 31\.8 %/, /Do: Set it for jobs/, /export NCCL_IB_QPS_PER_CONNECTION=4/],
  pairs: [/1 is slow/, /node-2 gpu 3 receives 50 % slower/, /of what is normal here/, /Do: Check its links/, /busbw pairs/],
  check: [/Not fit/, /331\.0 GB\/s/, /85\.3 % of the limit, 388\.0 GB\/s/, /n3: MTU on 10\.0\.0\.0\/24 1500/, /Do: Make it the same on all hosts/, /ip link/],
  job: [/A rank is late/, /GB\/s/, /% of the limit/, /Its calls wait|its calls wait/, /Do: Compare this GPU's clocks/],
  ranks: [/A rank is late/, /GB\/s/, /rank 777 \(node-97, pid 4777\)/i, /Do: \S+/],
  latency: [/Slow/, /29\.97 µs/, /Do: With UCX/],
  wrong: [/Wrong data/, /of wrong data/, /Do: Do not trust any figure/, /busbw sendrecv -c 10/],
  failed: [/Failed/, /Rank 13 on gpu-b12 ran out of GPU memory/, /Do: Let the rank use less GPU memory/],
};
/** Pages whose answer is red, and those that are neither red nor of a colour that praises. */
const RED = ["check", "wrong", "failed"];

for (const [kind, make] of Object.entries(PAGES)) {
  test(`a page of ${kind}: the answer on the first screen, nothing off it, axe-core`, { timeout: 120000 }, async () => {
    const address = make();
    for (const width of [1400, 390]) {
      const height = width === 390 ? 844 : 900;
      for (const dark of [false, true]) {
        const where = `${kind}, ${width} px, ${dark ? "dark" : "light"}`;
        const { page, seen } = await visit(browser, address, { width, height, dark });
        // Words within the window, as they stand: a line below its end is not read.
        const words = await page.evaluate((end) => {
          const walker = document.createTreeWalker(document.querySelector("header"), NodeFilter.SHOW_TEXT);
          let said = "";
          while (walker.nextNode()) {
            const range = document.createRange();
            range.selectNodeContents(walker.currentNode);
            const box = range.getBoundingClientRect();
            if (box.height > 0 && box.bottom <= end) said += walker.currentNode.textContent;
          }
          return said.replaceAll(/\s+/g, " ");
        }, height);
        for (const wanted of FIRST_SCREEN[kind]) assert.match(words, wanted, where);
        const level = await page.$eval("#answer", (found) => found.className);
        assert.equal(/level-bad/.test(level), RED.includes(kind), `${where}: ${level}`);
        const [needed, given] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(needed <= given, `${where}: ${needed} in ${given}`);
        await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
        const [opened] = await page.evaluate(() => [document.documentElement.scrollWidth]);
        assert.ok(opened <= given, `${where}, opened: ${opened} in ${given}`);
        await page.evaluate(axe);
        const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        const told = found.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`);
        assert.deepEqual(told, [], where);
        assert.deepEqual(seen, { said: [], requested: [address] }, where);
        await page.close();
      }
    }
  });
}

check("who is late is marked in the map of lateness, and the table beside it says the same", PAGES.job, {}, async (page) => {
  const words = await texts(page, chart("late"));
  assert.deepEqual(words.filter((word) => word.startsWith("▼")), ["▼ rank 3 (h0)"]);
  await page.$eval(`[data-chart="late"] .alternative`, (details) => (details.open = true));
  const rows = await page.$$eval(`[data-chart="late"] .alternative tbody tr`, (found) => found.map((row) => row.textContent));
  assert.equal(rows.length, 4);
  assert.match(rows[3], /▼ rank 3 \(h0\)[1-9]/);
});

check("collectives over the run are times, bandwidths or shares", PAGES.job, {}, async (page) => {
  const options = await page.$$eval("[data-figure] option", (found) => found.map((one) => one.value));
  assert.deepEqual(options, ["time", "busbw", "limit"]);
  assert.ok((await texts(page, chart("calls"))).includes("median time"));
  await page.$eval(`[data-chart="calls"] .alternative`, (details) => (details.open = true));
  await page.select("[data-figure]", "limit");
  assert.ok((await texts(page, chart("calls"))).includes("percent of the limit"));
  const cells = await page.$$eval(`[data-chart="calls"] .alternative td`, (found) => found.map((one) => one.textContent));
  assert.ok(cells.length > 4 && cells.every((cell) => /^([0-9.]+ %|none)$/.test(cell)), cells.join());
});

check("of a thousand ranks the map has 64 rows, and names the late one when it was late", PAGES.ranks, {}, async (page) => {
  await page.$eval(`[data-chart="late"] .alternative`, (details) => (details.open = true));
  const rows = await page.$$eval(`[data-chart="late"] .alternative tbody tr`, (found) => found.map((row) => [...row.cells].map((cell) => cell.textContent)));
  assert.equal(rows.length, 64);
  const [late] = rows.filter((row) => row[0].startsWith("▼"));
  assert.equal(late[0], "▼ ranks 768 to 783");
  const [early, then] = [late.slice(1, late.length / 2 - 1), late.slice(late.length / 2 + 2)];
  assert.ok(early.every((cell) => !cell.includes("rank 777")), early.join());
  assert.ok(then.every((cell) => cell.includes("rank 777 (node-97)")), then.join());
});

check("who is slow is marked in the matrix", PAGES.pairs, {}, async (page) => {
  const words = await texts(page, chart("pairs"));
  assert.equal(words.filter((word) => word.startsWith("▼")).length, 8, words.join());
  const above = await page.evaluate(() => {
    const [findings, matrix] = ["#pairs-0 .findings", "#pairs-0 .chart"].map((found) => document.querySelector(found));
    return Boolean(findings.compareDocumentPosition(matrix) & Node.DOCUMENT_POSITION_FOLLOWING);
  });
  assert.ok(above && !(await page.$("#speed")), "findings stand above the matrix, and no lines of two points");
});

check("a chart a test, and none of two points", PAGES.many, {}, async (page) => {
  const plots = await page.$$eval("[data-test]", (found) => found.map((one) => `${one.dataset.chart} ${one.dataset.test}`));
  assert.deepEqual(plots, ["speed all_reduce", "speed alltoall", "time all_reduce", "time alltoall"]);
});

check("words of bars are struck by nothing", PAGES.sweep, {}, async (page) => {
  for (const width of [1400, 390]) {
    await page.setViewport({ width, height: 900 });
    await new Promise((done) => setTimeout(done, 200));
    const struck = await page.$eval(chart("sweep"), (found) => {
      const words = [...found.querySelectorAll("svg text")].filter((one) => one.textContent.includes("×")).map((one) => one.getBoundingClientRect());
      const lines = [...found.querySelectorAll("svg path")].filter((one) => one.getAttribute("fill") === "none").map((one) => one.getBoundingClientRect());
      const marks = lines.filter((line) => line.height < 40 && line.width < 60);
      const hits = words.flatMap((word) => marks.filter((mark) => mark.right > word.left && mark.left < word.right && mark.bottom > word.top + 2 && mark.top < word.bottom - 2));
      const off = words.filter((word) => word.right > found.getBoundingClientRect().right);
      return { words: words.length, marks: marks.length, hits: hits.length, off: off.length };
    });
    assert.deepEqual({ ...struck, marks: struck.marks >= 8 }, { words: 4, marks: true, hits: 0, off: 0 }, `${width} px: ${JSON.stringify(struck)}`);
  }
});

check("a tuning: a mark a launch, failures at the bottom, slower sizes marked", PAGES.tuning, {}, async (page) => {
  const of = (what) => `[data-chart="${what}"] .chart`;
  const [wrong, final] = await page.evaluate("[inks().wrong, colour(0)]");
  // Two launches of the step that crashes, and their place below every other mark.
  const marks = await page.$$eval(`${of("tuning")} svg path`, (paths) => paths.map((one) => ({ fill: one.getAttribute("fill"), y: one.getBoundingClientRect().y })));
  const [crosses, finals] = [wrong, final].map((ink) => marks.filter((mark) => mark.fill === ink).map((mark) => mark.y));
  assert.deepEqual([crosses.length, finals.length], [2, 14], JSON.stringify(marks));
  assert.ok(Math.min(...crosses) > Math.max(...finals));
  const words = await texts(page, of("sides"));
  assert.equal(words.filter((word) => word.startsWith("▼")).length, 1, words.join());
  assert.ok(words.some((word) => word.startsWith("+29.8 % (27.8 to 31.8)")), words.join());
  await page.$eval(of("tuning"), (found) => found.scrollIntoView({ block: "center", behavior: "instant" }));
  const at = await page.$$eval(`${of("tuning")} svg path`, (paths, ink) => {
    const box = paths.find((one) => one.getAttribute("fill") === ink).getBoundingClientRect();
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  }, wrong);
  await page.mouse.move(at.x, at.y, { steps: 3 });
  const reading = await page.waitForFunction((selector) => document.querySelector(`${selector} .reading`)?.textContent, { timeout: 5000 }, of("tuning"));
  assert.match(await reading.jsonValue(), /^Launch [0-9]+: rungcrashed: rank 3.*NCCL_IB_QPS_PER_CONNECTION=16/);
  const text = await page.$eval("#tuning-0", (found) => found.textContent);
  for (const part of ["ranks are joined over InfiniBand", "NCCL_ALGO=Tree", "two flows share one link", "reaches 71 % of the limit"]) assert.match(text, new RegExp(part, "i"));
});

check("latency is in microseconds everywhere", PAGES.latency, {}, async (page) => {
  const words = await page.$eval("body", (found) => found.innerText);
  assert.doesNotMatch(words, /GB\/s/);
  assert.match(words, /29\.97 µs/);
});

check("a folder is one page, with what was not read at its end", PAGES.folder, {}, async (page) => {
  const groups = await page.$$eval("#runs tr.group", (found) => found.map((one) => one.textContent.trim()));
  assert.deepEqual(groups, ["all_reduce", "alltoall"]);
  assert.match(await page.$eval("main section:last-child", (found) => found.textContent), /What was not read[^]*notes\.txt/);
  assert.match(await page.$eval("#setup", (found) => found.textContent), /ibstat\.txt \(ibstat\)[^]*CA type: MT4129/);
});

check("the legend hides and shows a series in both charts", () => whole, {}, async (page) => {
  const colour = await page.evaluate("COLOURS.light[1]");
  for (const what of ["speed", "time"]) assert.ok((await inColour(page, chart(what), colour)) > 31, what);
  const button = (await page.$$(".legend button"))[1];
  await button.click();
  assert.equal(await button.evaluate((one) => one.getAttribute("aria-pressed")), "false");
  for (const what of ["speed", "time"]) assert.equal(await inColour(page, chart(what), colour), 0, what);
  await button.click();
  assert.ok((await inColour(page, chart("speed"), colour)) > 31);
});

check("places and intervals go on and off", () => whole, {}, async (page) => {
  const colour = await page.evaluate("COLOURS.light[0]");
  const all = await inColour(page, chart("speed"), colour);
  await page.click('[data-show="intervals"]');
  // A band for each place.
  assert.equal(await inColour(page, chart("speed"), colour), all - 2);
  await page.click('[data-show="in"]');
  const out = await inColour(page, chart("speed"), colour);
  assert.ok(out <= (all - 2) / 2 + 1, `${out} of ${all}`);
});

check("hovering reads the record's figures", () => whole, {}, async (page) => {
  for (const [what, figure] of [["speed", (half) => `${half.busbw.toFixed(2)} GB/s`], ["time", (half) => `${(half.time_us / 1e3).toFixed(2)} ms`]]) {
    const { x, y } = await across(page, chart(what), 4 * GIB);
    await page.mouse.move(x - 8, y);
    await page.mouse.move(x, y, { steps: 4 });
    const reading = await page.waitForFunction((selector) => document.querySelector(`${selector} .reading`)?.textContent, { timeout: 5000 }, chart(what));
    const said = await reading.jsonValue();
    assert.match(said, /^4 GiB \(4,294,967,296 B\)/);
    for (const lines of [made.slow, made.fast]) {
      const row = rowOf(lines, 4 * GIB);
      for (const half of [row.out_of_place, row.in_place]) assert.ok(said.includes(figure(half)), `${figure(half)} in ${said}`);
    }
  }
});

check("zoom by handle, by keys and back", () => whole, {}, async (page) => {
  const all = await texts(page, chart("speed"));
  assert.ok(all.includes("8 B") && all.includes("8 GiB"));
  await page.focus(chart("speed"));
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  const near = await texts(page, chart("speed"));
  assert.ok(!near.includes("8 B") && near.includes("256 KiB"), near.join());
  // What is read comes into view.
  await page.keyboard.press("End");
  assert.match(await page.$eval("#said", (found) => found.textContent), /^8 GiB: tuned/);
  assert.ok((await texts(page, chart("speed"))).includes("8 GiB"));
  await page.keyboard.press("0");
  assert.deepEqual(await texts(page, chart("speed")), all);
  const { x, y } = await page.$eval(chart("speed"), (found) => {
    const box = found.getBoundingClientRect();
    const first = [...found.querySelectorAll("svg text")].find((one) => one.textContent === "8 B").getBoundingClientRect();
    return { x: first.x + first.width / 2, y: box.bottom - 12 };
  });
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + 500, y, { steps: 5 });
  await page.mouse.up();
  assert.ok(!(await texts(page, chart("speed"))).includes("8 B"));
});

check("everything is reached and worked by keys", () => whole, {}, async (page) => {
  const reached = [];
  for (let at = 0; at < 200; at++) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => {
      const here = document.activeElement;
      const shown = getComputedStyle(here).outlineStyle !== "none";
      const name = here.id || here.dataset.show || here.closest("[data-chart]")?.dataset.chart || here.textContent.trim();
      return `${here.tagName} ${here.className || name} ${name}${shown ? "" : " WITHOUT A MARK"}`;
    }));
  }
  assert.deepEqual(reached.filter((one) => one.includes("WITHOUT") && !one.startsWith("BODY")), []);
  for (const wanted of ["BUTTON theme", "INPUT intervals", "DIV chart speed", "DIV chart time", "DIV chart bars", "DIV chart matrix", "INPUT filter", "BUTTON csv", "SUMMARY speed"]) {
    assert.ok(reached.some((one) => one.startsWith(wanted)), `${wanted} in ${reached.join("\n")}`);
  }
  await page.focus(chart("speed"));
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  const said = await page.$eval("#said", (found) => found.textContent);
  assert.ok(said.startsWith("4 GiB: "), said);
  assert.ok(said.includes(`tuned ${rowOf(made.fast, 4 * GIB).out_of_place.busbw.toFixed(2)} GB/s`), said);
});

check("a chart is there as a table", () => whole, {}, async (page) => {
  await page.click('#speed-0 .alternative summary');
  await page.waitForSelector('#speed-0 .alternative table');
  const cells = await page.$$eval('#speed-0 .alternative tr', (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
  assert.equal(cells[0][1], "baseline");
  const row = cells.find(([size]) => size === "1 GiB");
  assert.ok(row[1].startsWith(`${rowOf(made.slow, GIB).out_of_place.busbw.toFixed(2)} GB/s (`), row[1]);
});

check("the table filters and sorts", () => whole, {}, async (page) => {
  await page.type("#filter", "TUNED in-place 64 kib");
  const shown = await page.$$eval("#table tbody tr", (rows) => rows.map((row) => row.textContent));
  assert.equal(shown.length, 1);
  assert.match(await page.$eval("#count", (found) => found.textContent), /^1 of 173 rows$/);
  await page.$eval("#filter", (found) => {
    found.value = "";
    found.dispatchEvent(new Event("input"));
  });
  const head = await page.$("xpath/.//table[@id='table']//th/button[starts-with(., 'busbw')]");
  await head.focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  assert.equal(await head.evaluate((found) => found.parentElement.getAttribute("aria-sort")), "descending");
  const first = await page.$eval("#table tbody tr", (found) => found.textContent);
  const best = Math.max(...made.fast.filter((line) => line.kind === "row").flatMap((row) => [row.out_of_place.busbw, row.in_place.busbw]));
  assert.ok(first.includes(best.toFixed(2)), first);
});

async function downloaded(page, name) {
  const place = mkdtempSync(join(folder, "downloads-"));
  const session = await page.createCDPSession();
  await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: place });
  await page.click("#csv");
  const file = join(place, name);
  for (let tries = 0; !existsSync(file) && tries < 100; tries++) await new Promise((done) => setTimeout(done, 50));
  return readFileSync(file, "utf8");
}

check("the CSV has all rows with all digits", () => whole, {}, async (page) => {
  const [head, ...lines] = (await downloaded(page, "busbw-rows.csv")).trim().split("\r\n").map((line) => line.split(","));
  assert.equal(lines.length, 173);
  const column = (name) => head.indexOf(name);
  const data = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).series);
  const rows = data.flatMap((series) => series.rows.flatMap(({ out_of_place, in_place, ...row }) =>
    [out_of_place, in_place].filter(Boolean).map((half) => ({ ...row, ...half, run: series.name }))));
  rows.forEach((row, at) => {
    assert.equal(lines[at][column("run")], row.run);
    assert.equal(Number(lines[at][column("size_bytes")]), row.size);
    assert.equal(Number(lines[at][column("time_us")]), row.time_us);
    assert.equal(Number(lines[at][column("busbw_GB_per_s")]), row.busbw);
    assert.equal(Number(lines[at][column("time_low_us")]), row.interval_us?.low ?? 0);
  });
  const wanted = rowOf(made.slow, GIB).in_place.busbw;
  assert.ok(lines.some((line) => Number(line[column("busbw_GB_per_s")]) === wanted));
});

check("dark and light, by the system and by the button", () => whole, { dark: true }, async (page) => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const ink = async () => page.$eval(`${chart("speed")} svg text`, (found) => found.getAttribute("fill"));
  const [dark, darkInk] = [await ground(), await ink()];
  assert.match(dark, /rgb\(18, 21, 26\)/);
  await page.click("#theme");
  assert.match(await ground(), /rgb\(246, 247, 249\)/);
  assert.notEqual(await ink(), darkInk);
  await page.click("#theme");
  assert.deepEqual([await ground(), await ink()], [dark, darkInk]);
});

check("transports as bars", () => whole, {}, async (page) => {
  const bars = (await texts(page, chart("sweep"))).join("\n");
  const [p2p, shm] = made.transports.rows.at(-1).cells;
  assert.ok(bars.includes(`${p2p.busbw.toFixed(2)} GB/s   1.00×   73.0 % of limit`), bars);
  const multiple = Number((p2p.time_us / shm.time_us).toPrecision(3));
  assert.ok(bars.includes(`${shm.busbw.toFixed(2)} GB/s   ${multiple}× (slower)   49.6 % of limit`), bars);
  await page.select("[data-size]", "0");
  assert.ok((await texts(page, chart("sweep"))).join("\n").includes(`${made.transports.rows[0].cells[0].busbw.toFixed(2)} GB/s`));
  const text = await page.$eval("#sweep-0", (found) => found.textContent);
  for (const reason of ["there is no RDMA device", "exit 3: NCCL: invalid usage"]) assert.ok(text.includes(reason));
});

check("the matrix of pairs", () => whole, {}, async (page) => {
  const cell = made.pairs.values[2][11].toFixed(2);
  await page.$eval(chart("pairs"), (found) => found.scrollIntoView({ block: "center", behavior: "instant" }));
  const at = await page.$eval(chart("pairs"), (found, wanted) => {
    const box = [...found.querySelectorAll("svg text")].find((one) => one.textContent === wanted).getBoundingClientRect();
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  }, cell);
  await page.mouse.move(at.x, at.y, { steps: 3 });
  const reading = await page.waitForFunction((selector) => document.querySelector(`${selector} .reading`)?.textContent, { timeout: 5000 }, chart("pairs"));
  assert.equal(await reading.jsonValue(), `node-1 gpu 2 → node-2 gpu 3${cell} GB/s`);
});

check("limits stand with their figures", () => single, {}, async (page) => {
  const words = (await texts(page, chart("speed"))).join("\n");
  for (const wanted of [/limit \(payload\) [\d.]+ GB\/s/, /line rate 400\.00 GB\/s/]) assert.match(words, wanted);
  await page.click('[data-show="lines"]');
  assert.doesNotMatch((await texts(page, chart("speed"))).join("\n"), /line rate/);
});

check("prints to PDF, on white", () => whole, { dark: true }, async (page) => {
  const pdf = Buffer.from(await page.pdf({ format: "A4", printBackground: true }));
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0;
  assert.ok(pages >= 3 && pages <= 14, `${pages} pages`);
  // Afterwards the page is what it was.
  assert.match(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), /rgb\(18, 21, 26\)/);
});

test("hostile texts are texts", limit, async () => {
  const hostile = `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'&\u202e\u2028☃<!--`;
  record("hostile.jsonl", {
    to: "64",
    edit: ([run, ...lines]) => {
      run.environment = { NCCL_DEBUG: hostile };
      run.args = ["busbw", hostile];
      run.machine.host = hostile;
      run.devices.forEach((device) => (device.name = device.host = hostile));
      const end = lines.at(-1);
      end.message = hostile;
      end.status = "failed";
      const row = lines.find((line) => line.kind === "row");
      row.redop = hostile;
      row.out_of_place.algorithm = `=HYPERLINK("x")`;
    },
  });
  const matrix = { pairs_schema: 1, what: hostile, labels: [hostile, "b"], size: 8, unit: "GB/s", values: [[null, 1], [2, null]] };
  const { writeFileSync } = await import("node:fs");
  writeFileSync(path("hostile.json"), JSON.stringify(matrix));
  const address = report("hostile.html", ["hostile.jsonl", "hostile.json"], "--title", hostile);
  const { page, seen } = await visit(browser, address);
  // What turns or breaks lines is written out.
  const shown = hostile.replace("\u202e", "\\u202e").replace("\u2028", "\\u2028");
  assert.equal(await page.title(), shown);
  assert.equal(await page.$("img"), null);
  assert.ok((await page.$eval("#setup", (found) => found.textContent)).includes(shown));
  await page.click('[data-chart="pairs"] .alternative summary');
  await page.waitForSelector('[data-chart="pairs"] .alternative table');
  const csv = await downloaded(page, "busbw-rows.csv");
  assert.ok(csv.includes(`"'=HYPERLINK(""x"")"`), csv);
  assert.deepEqual(seen.said, []);
  assert.deepEqual(seen.requested.filter((url) => !url.startsWith("blob:")), [address]);
  await page.close();
});

check("many runs fit, on wide and narrow windows", () => many, {}, async (page) => {
  for (const width of [1600, 1280, 700, 380]) {
    await page.setViewport({ width, height: 800 });
    await new Promise((done) => setTimeout(done, 150));
    const [needed, given] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(needed <= given, `${needed} in ${given}`);
  }
});

test("nothing that axe-core finds on a page of everything, light and dark", limit, async () => {
  // Pages of one kind are looked at above; this one is of several.
  for (const address of [whole]) {
    for (const dark of [false, true]) {
      const { page } = await visit(browser, address, { dark });
      await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
      await page.evaluate(axe);
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      const told = found.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`);
      assert.deepEqual(told, [], `${address} ${dark}`);
      await page.close();
    }
  }
});

check("colours of series stand out from the paper", () => whole, {}, async (page) => {
  const colours = await page.evaluate("COLOURS");
  const light = (hex) => {
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  // WCAG 2.2, 1.4.11: 3 to 1.
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  for (const [theme, paper] of [["light", "#ffffff"], ["dark", "#1a1e24"]]) {
    for (const colour of colours[theme]) assert.ok(contrast(colour, paper) >= 3, `${colour} on ${paper}`);
  }
});
