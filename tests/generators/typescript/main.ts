// Calls the generated client: a request of JSON in each line of the input, and its answer in one of the output.
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

// With other codes in the document this would not compile.
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
      type: null, // types are gone when it runs
      code: error === undefined ? "" : code(response.status, error),
      body: data ?? error,
    }),
  );
}
