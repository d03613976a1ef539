// Looks at pages in a Chromium: node browser.mjs MODULES CHROMIUM < pages > what was seen of each. See browser.py.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, executablePath] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = require("axe-core");

const browser = await chromium.launch({ executablePath, chromiumSandbox: process.getuid() !== 0 });
const seen = [];
for (const { url, width, height, scheme, file } of JSON.parse(readFileSync(0))) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const requests = [], complaints = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(url);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await page.evaluate(axe.source);
  const { violations, passes } = await page.evaluate(() => axe.run());
  const reached = [];
  for (let last = null; reached.length < 300; reached.push(last)) {
    await page.keyboard.press("Tab");
    last = await page.evaluate(() => {
      const { tagName, textContent, ariaLabel } = document.activeElement;
      const { outlineStyle } = getComputedStyle(document.activeElement);
      return tagName === "BODY" ? null : { name: (ariaLabel ?? textContent).trim(), outline: outlineStyle };
    });
    if (last === null) break;
  }
  if (file) await page.goto(url).then(() => page.screenshot({ path: file }));
  const found = violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  seen.push({ overflow, requests, complaints, violations: found, passes: passes.map(({ id }) => id), reached });
  await context.close();
}
await browser.close();
console.log(JSON.stringify(seen));
