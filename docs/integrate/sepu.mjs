// Calls sepu from Node 18 or later, with nothing to install. Keep one Sepu for all calls.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const LONGEST = 2 ** 20; // bytes of an answer

export class SepuError extends Error {
  // status, code and requestId are undefined without a response; status is -1 if it is unusable. usage comes with
  // quota_exceeded. pointer leads to the fault in an input: /colors/2/g
  constructor(message, details) {
    super(message);
    Object.assign(this, { name: "SepuError" }, details);
  }
}

export class Sepu {
  #apiKey;

  // timeout is for one attempt, deadline for all attempts of a call and their pauses, in seconds.
  constructor(url, apiKey, { timeout = 10, deadline = 60, ...unknown } = {}) {
    refuse(unknown);
    if (!/^https?:\/\//.test(url)) throw new TypeError("the URL must begin with http:// or https://");
    Object.assign(this, { url: url.replace(/\/+$/, ""), timeout, deadline });
    this.#apiKey = apiKey.trim();
  }

  // colors: one to five [r, g, b], each from 0 to 255. If the intent outlives this process, store your key with it.
  match(colors, { top = 1, key = randomUUID(), ...unknown } = {}) {
    refuse(unknown);
    const body = JSON.stringify({ colors: colors.map(([r, g, b]) => ({ r, g, b })), top });
    return this.#call("POST", "/v1/match", key, body);
  }

  search(q, { limit = 10, key = randomUUID(), ...unknown } = {}) {
    refuse(unknown);
    return this.#call("GET", `/v1/search?${new URLSearchParams({ q, limit })}`, key);
  }

  usage() {
    return this.#call("GET", "/v1/usage");
  }

  // Sends the same request with the same key until there is an answer or the deadline is near.
  async #call(method, path, key = "", body) {
    if (/[^!-~]/.test(this.#apiKey + key)) throw new TypeError("a key has characters that no header may have");
    const headers = new Headers({ Authorization: `Bearer ${this.#apiKey}`, "Accept-Encoding": "identity" });
    if (key) headers.set("Idempotency-Key", key);
    if (body) headers.set("Content-Type", "application/json");
    const end = performance.now() + this.deadline * 1000;
    for (let pause = 0.25; ; pause = Math.min(2 * pause, 8)) {
      try {
        return await this.#attempt(method, path, headers, key, body, end - performance.now());
      } catch (error) {
        const wait = 1000 * ((error.retryAfter || 0) + Math.random() * pause);
        if (!error.retryable || performance.now() + wait >= end) throw error;
        await sleep(wait);
      }
    }
  }

  async #attempt(method, path, sent, key, body, left) {
    let response, answer;
    try {
      const signal = AbortSignal.timeout(Math.ceil(Math.min(this.timeout * 1000, left)));
      response = await fetch(this.url + path, { method, headers: sent, body, signal, redirect: "manual" });
      answer = await limited(response);
    } catch (error) {
      if (error instanceof SepuError) throw Object.assign(error, { key });
      const reason = error.cause?.code ?? error.name;
      throw new SepuError(`no answer (${reason})`, { key, retryable: true });
    }
    const { status, headers } = response;
    const usage = headers.has("x-usage-meter") ? usageOf(headers) : undefined;
    const json = parsed(answer);
    if (status === 200 && json) {
      return { ...json, key, replayed: headers.get("idempotency-replayed") === "true", usage: usage ?? json.usage };
    }
    const code = /^[a-z_]+$/.exec(json?.error)?.[0]; // undefined if a proxy answered
    const requestId = /^[0-9a-f-]+$/.exec(headers.get("x-request-id"))?.[0];
    const pointer = /^\/[a-z0-9/]+$/.exec(headers.get("x-error-pointer"))?.[0];
    throw new SepuError(`${status} ${code}${pointer ? ` at ${pointer}` : ""} (request id ${requestId})`, {
      status, code, pointer, requestId, usage, key,
      retryAfter: Number(/^\d{1,9}$/.exec(headers.get("retry-after"))?.[0] ?? 0),
      retryable: status === 408 || status >= 500 || code === "request_in_progress"
        || (status === 429 && code !== "quota_exceeded"),
    });
  }
}

// Reads an uncompressed answer of at most LONGEST bytes.
async function limited(response) {
  const parts = [];
  let length = 0;
  const coded = response.headers.has("content-encoding");
  for await (const part of coded ? [] : response.body ?? []) {
    length += part.length;
    if (length > LONGEST) break;
    parts.push(part);
  }
  if (!coded && length <= LONGEST) return Buffer.concat(parts).toString();
  await response.body?.cancel();
  throw new SepuError(`the answer ${coded ? "is compressed" : "is too long"}`, { status: -1 });
}

function refuse(unknown) {
  for (const name in unknown) throw new TypeError(`there is no option ${name}`);
}

function usageOf(headers) {
  const [period, meter] = ["period", "meter"].map((name) => headers.get(`x-usage-${name}`));
  const [limit, committed, remaining] = ["limit", "committed", "remaining"].map((name) => +headers.get(`x-usage-${name}`));
  return { period, meter, limit, committed, remaining };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// An example, to be left out of a copy.
const { SEPU_URL, SEPU_API_KEY, SEPU_TIMEOUT, SEPU_DEADLINE, SEPU_IDEMPOTENCY_KEY: own } = process.env;
const [operation, ...given] = process.argv.slice(2);
if (!SEPU_URL || !SEPU_API_KEY || given.length !== { match: 3, search: 1 }[operation]) {
  console.error("SEPU_URL=… SEPU_API_KEY=… [SEPU_IDEMPOTENCY_KEY=…] node sepu.mjs match R G B | search Q");
  process.exit(2);
}
const sepu = new Sepu(SEPU_URL, SEPU_API_KEY, { timeout: +(SEPU_TIMEOUT ?? 10), deadline: +(SEPU_DEADLINE ?? 60) });
try {
  console.error(JSON.stringify((await sepu.usage()).usage));
  const { key, replayed, usage, ...answer } = operation === "match"
    ? await sepu.match([given.map(Number)], { key: own })
    : await sepu.search(given[0], { key: own });
  console.log(JSON.stringify(answer));
  console.error(`${replayed ? "replayed" : "charged"} ${key}: ${usage.remaining} of ${usage.limit} ${usage.meter} remain`);
} catch (error) {
  if (!(error instanceof SepuError)) throw error;
  console.error(`${error.message}${error.key ? `; its key was ${error.key}` : ""}`);
  process.exitCode = 1;
}
