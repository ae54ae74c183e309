// Pictures of every kind of page, wide and narrow, light and dark: those beside the tests. Not a check.
// tests/browser.sh --pictures writes them to tests/browser/pictures. WHOLE=1: whole pages, not only their beginning.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { open, visit } from "./browser.mjs";
import { PAGES } from "./pages.mjs";

const [folder, ...only] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await open();
for (const [name, make] of Object.entries(PAGES)) {
  if (only.length && !only.includes(name)) continue;
  const address = make();
  for (const width of [1400, 390]) {
    for (const dark of [false, true]) {
      const { page } = await visit(browser, address, { width, height: width === 390 ? 844 : 900, dark });
      const whole = await page.evaluate(() => document.documentElement.scrollHeight);
      const height = process.env.WHOLE ? whole : Math.min(whole, 1600);
      const picture = await page.screenshot({ clip: { x: 0, y: 0, width, height }, captureBeyondViewport: true });
      writeFileSync(join(folder, `${name}-${width}-${dark ? "dark" : "light"}.png`), picture);
      await page.close();
    }
  }
}
await browser.close();
