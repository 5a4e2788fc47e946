import { once } from "node:events";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestEdge, type TestEdge } from "./testing/edge.ts";
import { ask } from "./testing/http.ts";
import { aPage, aProxy, aRedirect } from "./testing/routes.ts";
import { startUpstream, type Upstream } from "./testing/upstream.ts";

let edge: TestEdge;
let app: Upstream;
beforeAll(async () => {
  edge = await startTestEdge();
  app = await startUpstream("app");
  await edge.serve({
    upserts: [
      aProxy("shop.svc.localhost", app.address),
      aPage("other.svc.localhost", "STOPPED"),
      aRedirect("www.svc.localhost", "shop.svc.localhost"),
    ],
  });
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

async function dial(servername: string): Promise<TLSSocket> {
  const [host, port] = edge.https.split(":");
  const socket = connectTls({
    host,
    port: Number(port),
    servername,
    rejectUnauthorized: false,
    ALPNProtocols: ["http/1.1"],
  });
  socket.setTimeout(10_000, () => socket.destroy(new Error("no answer in time")));
  await once(socket, "secureConnect");
  return socket;
}

async function get(servername: string, host: string, path = "/"): Promise<string> {
  const socket = await dial(servername);
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  let answer = "";
  for await (const chunk of socket) answer += chunk;
  return answer;
}

test("a host of the table gets a certificate of its own when it is first asked for", async () => {
  const socket = await dial("shop.svc.localhost");
  expect(socket.getPeerCertificate().subjectaltname).toBe("DNS:shop.svc.localhost");
  socket.destroy();
  expect(await get("shop.svc.localhost", "shop.svc.localhost")).toMatch(/^HTTP\/1\.1 200 .*app$/s);
  expect(app.last()?.headers).toMatchObject({ "x-forwarded-proto": "https" });
  expect(await get("other.svc.localhost", "other.svc.localhost")).toMatch(/^HTTP\/1\.1 503 /);
});

test.each(["unknown.svc.localhost", "svc.localhost", "evil.test", "a.shop.svc.localhost"])(
  "nobody gets a certificate for %s",
  async (name) => {
    await expect(dial(name)).rejects.toThrow(/alert/);
  },
);

test("a connection for one host serves no other", async () => {
  expect(await get("shop.svc.localhost", "other.svc.localhost")).toMatch(/^HTTP\/1\.1 421 /);
});

test("a host that redirects has a certificate, and stays with scheme and port", async () => {
  const socket = await dial("www.svc.localhost");
  expect(socket.getPeerCertificate().subjectaltname).toBe("DNS:www.svc.localhost");
  socket.destroy();
  expect(await get("www.svc.localhost", "www.svc.localhost", "/a?b=c")).toContain(
    "Location: https://shop.svc.localhost/a?b=c\r\n",
  );
  expect(await get("www.svc.localhost", "www.svc.localhost:8443")).toContain(
    "Location: https://shop.svc.localhost:8443/\r\n",
  );
});

test("only the hosts of the table get a yes to Caddy's question", async () => {
  const { host, port } = edge.config.pagesListen;
  const asked = (path: string) => ask(`${host}:${port}`, "router.test", path).then(({ status }) => status);
  expect(await asked("/ask?domain=shop.svc.localhost")).toBe(200);
  expect(await asked("/ask?domain=SHOP.svc.localhost")).toBe(404);
  expect(await asked("/ask?domain=unknown.svc.localhost")).toBe(404);
  expect(await asked("/ask")).toBe(404);
  expect(await asked("/")).toBe(404);
});
