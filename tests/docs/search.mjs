// Queries the built site's search, by its own worker: `node search.mjs SITE`, with JSON queries on standard input.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const site = process.argv[2];
const workers = join(site, "assets/javascripts/workers");
const script = readFileSync(join(workers, readdirSync(workers).find((name) => name.endsWith(".js"))), "utf8");
const index = JSON.parse(readFileSync(join(site, "search/search_index.json"), "utf8"));

const waiting = [];
let listener;
const worker = { console, URL, importScripts() {}, postMessage: (data) => waiting.shift()(data),
  addEventListener: (_, heard) => { listener = heard; } };
worker.self = worker;
vm.runInNewContext(script, worker);
const ask = (data) => new Promise((resolve) => { waiting.push(resolve); listener({ data }); });

await ask({ type: 0, data: { config: index.config, docs: index.docs, options: { suggest: false } } });
const found = [];
for (const query of JSON.parse(readFileSync(0, "utf8"))) {
  const { data } = await ask({ type: 2, data: query });
  found.push(data.items.map(([page]) => page.location.split("#")[0] || "index.html"));
}
console.log(JSON.stringify(found));
