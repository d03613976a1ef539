// Looks at pages in Chromium: node browser.mjs MODULES CHROMIUM < pages > observations. See browser.py.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, executablePath] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = require("axe-core");

const browser = await chromium.launch({ executablePath, chromiumSandbox: process.getuid() !== 0 });
const seen = [];
for (const { url, width, height, scheme, file, typed } of JSON.parse(readFileSync(0))) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const requests = [], complaints = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(url);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const { off, through } = await page.evaluate(() => {
    const boxes = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const { currentNode: node } = texts;
      if (!node.textContent.trim() || node.parentElement.closest(".skip, .unseen, option")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects()) boxes.push({ node, box, name: node.textContent.trim() });
    }
    for (const node of document.querySelectorAll("meter, input, select, button")) {
      boxes.push({ node, box: node.getBoundingClientRect(), name: node.tagName });
    }
    const right = ({ parentElement }) => parentElement.closest(".table")?.getBoundingClientRect().right ?? innerWidth;
    const off = boxes.filter(({ node, box }) => box.left < -1 || box.right > right(node) + 1).map(({ name }) => name);
    const through = [];
    boxes.forEach((one, index) => {
      for (const other of boxes.slice(index + 1)) {
        const width = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
        const height = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
        if (width > 1 && height > 3 && !other.node.contains(one.node)) through.push(`${one.name} and ${other.name}`);
      }
    });
    return { off, through };
  });
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
  if (typed) {
    await page.fill("[name=search]", typed);
    await page.press("[name=search]", "Enter");
    await page.waitForLoadState("networkidle");
  }
  if (file) await page.goto(url).then(() => page.screenshot({ path: file }));
  const found = violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  seen.push({ overflow, off, through, requests, complaints, violations: found, passes: passes.map(({ id }) => id), reached });
  await context.close();
}
await browser.close();
console.log(JSON.stringify(seen));
