// @pure
import { isSince } from "./caddy-version.ts";
import type { JsonObject } from "./json.ts";

/** Who stands between visitors and this edge, and is believed about where they come from. */
export type InFront =
  | { by: "none" }
  /** header: says it in X-Forwarded-For. proxy-protocol: at the beginning of each connection, version 1 or 2. */
  | { by: "header" | "proxy-protocol" /** In CIDR notation. */; ranges: readonly string[] };

export interface InFrontOptions {
  inFront: InFront;
}

/** Why Caddy cannot believe what is in front; null when it can. Before 2.8 it takes the first address that a visitor cares to say. */
export const inFrontProblem = ({ by }: InFront, caddyVersion: string): string | null =>
  by === "none" || isSince(caddyVersion, 8)
    ? null
    : `SVC_EDGE_PROXY=${by} needs Caddy 2.8 or later, and this is ${caddyVersion.split(" ")[0]}: it would not know where visitors come from`;

/** Placeholder of a visitor's address. */
export const visitorAddress = ({ by }: InFront): string =>
  by === "header" ? "{http.vars.client_ip}" : "{http.request.remote.host}";

/** What a server needs for it. What comes from outside the ranges is heard as if nothing was in front. */
export function serverInFront(inFront: InFront): JsonObject {
  switch (inFront.by) {
    case "none":
      return {};
    case "header":
      return {
        trusted_proxies: { source: "static", ranges: [...inFront.ranges] },
        client_ip_headers: ["X-Forwarded-For"],
        // From the right: what is further left anybody may have written.
        trusted_proxies_strict: 1,
      };
    case "proxy-protocol":
      return {
        listener_wrappers: [
          { wrapper: "proxy_protocol", timeout: "5s", allow: [...inFront.ranges] },
          { wrapper: "tls" },
        ],
      };
  }
}

/** What apps are told: Caddy would name whoever it is connected with, since what others said was removed. */
export const forwardedFor = (inFront: InFront): Record<string, string> => ({
  "X-Real-Ip": visitorAddress(inFront),
  ...(inFront.by === "header" && { "X-Forwarded-For": visitorAddress(inFront) }),
});
