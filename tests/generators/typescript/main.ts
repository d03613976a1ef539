// Calls the generated client: reads a JSON request per line, and prints its answer on one.
import { createInterface } from "node:readline";
import createClient from "openapi-fetch";
import type { components, paths } from "./colors.js";

type Schemas = components["schemas"];

interface Request {
  url: string;
  key: string;
  operation: "matchColors" | "searchColors" | "getLibrary" | "getUsage";
  idempotencyKey: string;
  colors: Schemas["RGB"][];
  q: string;
  top?: 1 | 2 | 3;
  limit?: number;
}

function call(given: Request) {
  const client = createClient<paths>({ baseUrl: given.url, headers: { Authorization: `Bearer ${given.key}` } });
  const header = { "Idempotency-Key": given.idempotencyKey };
  const { colors, q, top, limit } = given;
  switch (given.operation) {
    case "matchColors":
      return client.POST("/v1/match", { params: { header }, body: top === undefined ? { colors } : { colors, top } });
    case "searchColors":
      return client.GET("/v1/search", { params: { header, query: limit === undefined ? { q } : { q, limit } } });
    case "getLibrary":
      return client.GET("/v1/library");
    case "getUsage":
      return client.GET("/v1/usage");
  }
}

// Compiles only with these codes in the document.
function code(status: number, error: unknown): string {
  switch (status) {
    case 401:
      return (error as Schemas["UnauthorizedError"]).error satisfies "unauthorized";
    case 409:
      return (error as Schemas["IdempotencyConflictError"]).error satisfies
        "idempotency_conflict" | "request_in_progress";
    case 429:
      return (error as Schemas["RateLimitedOrQuotaExceededError"]).error satisfies "quota_exceeded" | "rate_limited";
    default:
      return (error as Schemas["MatchInputError"] | Schemas["SearchInputError"] | Schemas["OtherError"]).error;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { data, error, response } = await call(JSON.parse(line) as Request);
  console.log(
    JSON.stringify({
      status: response.status,
      headers: Object.fromEntries(response.headers),
      type: null, // types do not exist at run time
      code: error === undefined ? "" : code(response.status, error),
      body: data ?? error,
    }),
  );
}
