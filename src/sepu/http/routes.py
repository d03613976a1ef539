"""Lists the paths of the interface, and the methods that each allows."""

LIBRARY = "/v1/library"
USAGE = "/v1/usage"
MATCH = "/v1/match"
SEARCH = "/v1/search"
HEALTHZ = "/healthz"
READYZ = "/readyz"

ALLOW = {LIBRARY: "GET", USAGE: "GET", MATCH: "POST", SEARCH: "GET", HEALTHZ: "GET, HEAD", READYZ: "GET, HEAD"}
