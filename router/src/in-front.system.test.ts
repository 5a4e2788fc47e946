import { afterEach, expect, test } from "vitest";
import { usableCaddy } from "./caddy.ts";
import { readConfig } from "./config.ts";
import type { InFront } from "./render/proxied.ts";
import { start } from "./start.ts";
import { quiet, startTestEdge, type TestEdge } from "./testing/edge.ts";
import { ask, askRaw } from "./testing/http.ts";
import { aProxy } from "./testing/routes.ts";
import { startUpstream, type Upstream } from "./testing/upstream.ts";
import { waitFor } from "./testing/wait-for.ts";

const host = "shop.svc.localhost";
const binary = process.env["SVC_CADDY_BINARY"] ?? "caddy";
const balancer: InFront = { by: "header", ranges: ["127.0.0.1"] };
/** Why the Caddy of this run cannot believe anybody; null when it can. */
const problem = await usableCaddy(binary, balancer).then(
  () => null,
  (cause: unknown) => String(cause),
);

let edge: TestEdge | undefined;
let app: Upstream | undefined;
afterEach(async () => {
  await edge?.[Symbol.asyncDispose]();
  await app?.[Symbol.asyncDispose]();
});

async function serveBehind(
  by: "header" | "proxy-protocol",
  ranges: string,
): Promise<{ edge: TestEdge; app: Upstream }> {
  app = await startUpstream("blue");
  edge = await startTestEdge({
    env: { SVC_EDGE_PROXY: by, SVC_EDGE_PROXY_RANGES: ranges, SVC_EDGE_TLS: "off" },
  });
  await edge.serve({ upserts: [aProxy(host, app.address)] });
  return { edge, app };
}

/** What the app is told of who asks. */
const seenBy = (behind: Upstream) => {
  const { headers } = behind.last() ?? {};
  return [headers?.["x-real-ip"], headers?.["x-forwarded-for"]];
};

if (problem !== null) {
  test("a router is not started for a Caddy that would not know where visitors come from, and says why", async () => {
    expect(problem).toContain("2.8");
    const env = { SVC_EDGE_PROXY: "header", SVC_EDGE_PROXY_RANGES: "10.0.0.1", SVC_CADDY_BINARY: binary };
    await expect(start(readConfig({ ...env, SVC_ROUTER_DIR: "/nonexistent" }), { log: quiet })).rejects.toThrow(
      /2\.8 or later/,
    );
  });
} else {
  test("a balancer says in a header where visitors come from, and visitors cannot", async () => {
    const behind = await serveBehind("header", "127.0.0.1");
    const visit = (forwarded: string) =>
      ask(behind.edge.http, host, "/", { headers: { "X-Forwarded-For": forwarded } });
    await visit("198.51.100.7");
    expect(seenBy(behind.app)).toEqual(["198.51.100.7", "198.51.100.7"]);
    // A visitor wrote the first one; the balancer added the other.
    await visit("6.6.6.6, 198.51.100.8");
    expect(seenBy(behind.app)).toEqual(["198.51.100.8", "198.51.100.8"]);
  });

  test("nobody outside of the ranges is believed", async () => {
    const byHeader = await serveBehind("header", "127.0.0.9");
    await ask(byHeader.edge.http, host, "/", { headers: { "X-Forwarded-For": "6.6.6.6" } });
    expect(seenBy(byHeader.app)).toEqual(["127.0.0.1", "127.0.0.1"]);
    await byHeader.edge[Symbol.asyncDispose]();
    await byHeader.app[Symbol.asyncDispose]();
    const byProtocol = await serveBehind("proxy-protocol", "127.0.0.9");
    await askRaw(
      byProtocol.edge.http,
      `PROXY TCP4 6.6.6.6 127.0.0.1 4000 80\r\nGET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
    );
    expect([
      [undefined, undefined],
      ["127.0.0.1", "127.0.0.1"],
    ]).toContainEqual(seenBy(byProtocol.app));
  });

  test("a balancer says it at the beginning of a connection, and the edge's own Caddy is asked without", async () => {
    const behind = await serveBehind("proxy-protocol", "127.0.0.1");
    const head = `GET / HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-For: 6.6.6.6\r\nConnection: close\r\n\r\n`;
    const answer = await askRaw(behind.edge.http, `PROXY TCP4 198.51.100.7 127.0.0.1 4000 80\r\n${head}`);
    expect(answer).toContain("200 OK");
    expect(seenBy(behind.app)).toEqual(["198.51.100.7", "198.51.100.7"]);
    await ask(behind.edge.http, host);
    await waitFor(() => seenBy(behind.app)[0] === "127.0.0.1");
  });
}
