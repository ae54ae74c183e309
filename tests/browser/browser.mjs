// A headless Chromium, and a page of it whose complaints and requests are counted. Not the checks.
import { existsSync } from "node:fs";
import { launch } from "puppeteer-core";

const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export async function open() {
  const executablePath = places.find((place) => place && existsSync(place));
  if (!executablePath) throw new Error("there is no Chromium: install it (apt-get install chromium), or name it in CHROMIUM");
  return launch({ executablePath, headless: true, args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb", "--hide-scrollbars"] });
}

/** Opens an address; `seen` collects what the console said and what was requested. */
export async function visit(browser, address, { width = 1280, height = 900, dark = false } = {}) {
  const page = await browser.newPage();
  const seen = { said: [], requested: [] };
  page.on("console", (message) => seen.said.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => seen.said.push(`pageerror: ${error.message}`));
  page.on("request", (request) => seen.requested.push(request.url()));
  page.on("dialog", (dialog) => {
    seen.said.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: dark ? "dark" : "light" },
    // Else scrolling goes on while the mouse is on its way.
    { name: "prefers-reduced-motion", value: "reduce" },
  ]);
  await page.goto(address, { waitUntil: "load" });
  return { page, seen };
}
