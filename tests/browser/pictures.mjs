// Takes pictures of the first screen of every kind of page, wide and narrow, light and dark. Not a check.
// usage, in the folder that tests/browser.sh prepares: node pictures.mjs FOLDER
import { mkdirSync } from "node:fs";
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
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      const most = process.env.WHOLE ? height : Math.min(height, width === 390 ? 1700 : 1800);
      await page.screenshot({ path: join(folder, `${name}-${width}-${dark ? "dark" : "light"}.png`), clip: { x: 0, y: 0, width, height: most }, captureBeyondViewport: true });
      await page.close();
    }
  }
}
await browser.close();
