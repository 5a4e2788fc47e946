import type { Route } from "@svc/proto/edge";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digestOfBundle, filesBundle } from "./testing/bundle.ts";
import { startTestEdge, type TestEdge } from "./testing/edge.ts";
import { aGate, signedIn } from "./testing/gate.ts";
import { ask, askTls } from "./testing/http.ts";
import { aPage, aProxy, aRedirect, aStatic, guarded, told } from "./testing/routes.ts";
import { startUpstream, type Upstream } from "./testing/upstream.ts";

const year = 31_536_000;
const says = `max-age=${year}`;

let edge: TestEdge;
let app: Upstream;
let other: Upstream;
let digest: string;
let ruled: string;
const gate = await aGate("secret");
beforeAll(async () => {
  [app, other] = await Promise.all([startUpstream("app"), startUpstream("other")]);
  edge = await startTestEdge();
  const files = { "index.html": "home", "assets/index-BxK2a9_f.js": "hashed" };
  const bundles = await Promise.all([filesBundle(files), filesBundle({ ...files, _redirects: "/old /new 301" })]);
  for (const bundle of bundles) edge.archives.set(digestOfBundle(bundle), bundle);
  [digest, ruled] = bundles.map(digestOfBundle) as [string, string];
  await edge.edge().gates.learn([gate]);
  await edge.serve({ upserts: Object.values(kinds).map((of) => told(of(), year)) });
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await Promise.all([app, other].map((each) => each[Symbol.asyncDispose]()));
});

const hostOf = (name: string) => `${name}.svc.localhost`;
/** By the first label of its host: an entry of each kind. */
const kinds: Record<string, () => Route> = {
  app: () => aProxy(hostOf("app"), app.address),
  apps: () => aProxy(hostOf("apps"), app.address, other.address),
  gone: () => aProxy(hostOf("gone"), "127.0.0.1:1"),
  files: () => aStatic(hostOf("files"), digest),
  ruled: () => aStatic(hostOf("ruled"), ruled),
  stopped: () => aPage(hostOf("stopped"), "STOPPED"),
  www: () => aRedirect(hostOf("www"), hostOf("app")),
  locked: () => guarded(aProxy(hostOf("locked"), app.address), gate.revision),
};

test.each([
  { name: "app", path: "/", status: 200 },
  { name: "apps", path: "/", status: 200 },
  { name: "gone", path: "/", status: 502 },
  { name: "files", path: "/", status: 200 },
  { name: "files", path: "/assets/index-BxK2a9_f.js", status: 200 },
  { name: "files", path: "/missing", status: 404 },
  { name: "ruled", path: "/", status: 200 },
  { name: "ruled", path: "/old", status: 301 },
  { name: "stopped", path: "/", status: 503 },
  { name: "www", path: "/a?b=c", status: 308 },
  { name: "locked", path: "/", status: 401 },
  { name: "app", path: "/_svc/password", status: 303 },
])("$name$path says so over TLS, once, and without TLS it does not", async ({ name, path, status }) => {
  const secure = await askTls(edge.https, hostOf(name), path);
  expect([secure.status, secure.headers["strict-transport-security"]]).toEqual([status, says]);
  const plain = await ask(edge.http, hostOf(name), path);
  expect([plain.status, plain.headers["strict-transport-security"]]).toEqual([status, undefined]);
});

test("the site is what it is without: password, cookie, files and where it redirects to", async () => {
  const cookie = await signedIn(edge, hostOf("locked"), "secret");
  const inside = await askTls(edge.https, hostOf("locked"), "/", { headers: { cookie } });
  expect([inside.status, inside.body, inside.headers["strict-transport-security"]]).toEqual([200, "app", says]);
  const hashed = await askTls(edge.https, hostOf("files"), "/assets/index-BxK2a9_f.js");
  expect([hashed.body, hashed.headers["cache-control"]]).toEqual(["hashed", expect.stringContaining("immutable")]);
  const { headers } = await askTls(edge.https, hostOf("www"), "/a?b=c");
  expect(headers.location).toBe(`https://${hostOf("app")}/a?b=c`);
});

test("what an app says of it itself gives way", async () => {
  const path = "/headers?Strict-Transport-Security=max-age%3D1%3B%20preload";
  expect((await askTls(edge.https, hostOf("app"), path)).headers["strict-transport-security"]).toBe(says);
});

describe("as it changes", () => {
  const said = async () => (await askTls(edge.https, hostOf("app"), "/")).headers["strict-transport-security"];
  const route = () => aProxy(hostOf("app"), app.address);
  test.each([
    { when: "with all below it", route: () => told(route(), 300, true), says: "max-age=300; includeSubDomains" },
    { when: "to be forgotten", route: () => told(route(), 0), says: "max-age=0" },
    { when: "not at all", route, says: undefined },
  ])("$when", async ({ route, says }) => {
    await edge.serve({ upserts: [route()] });
    expect(await said()).toBe(says);
  });
});
