import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pageHtml, pages } from "./pages/page.ts";
import { digestOfBundle, filesBundle } from "./testing/bundle.ts";
import { startTestEdge, type TestEdge } from "./testing/edge.ts";
import { ask } from "./testing/http.ts";
import { visit } from "./testing/load.ts";
import { aProxy, aStatic } from "./testing/routes.ts";
import { startUpstream, type Upstream } from "./testing/upstream.ts";
import { waitFor } from "./testing/wait-for.ts";

const host = "shop.svc.localhost";
let edge: TestEdge;
let blue: Upstream;
let green: Upstream;

beforeEach(async () => {
  edge = await startTestEdge();
  blue = await startUpstream("blue");
  green = await startUpstream("green");
  await edge.serve({ upserts: [aProxy(host, blue.address)] });
});
afterEach(async () => {
  await edge[Symbol.asyncDispose]();
  await blue[Symbol.asyncDispose]();
  await green[Symbol.asyncDispose]();
});

const sum = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((total, count) => total + count, 0);
const drain = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("under load no request fails", () => {
  test("while the site switches between containers again and again", async () => {
    const switching = (async () => {
      for (let n = 0; n < 100; n += 1) {
        await edge.serve({ upserts: [aProxy(host, (n % 2 === 0 ? green : blue).address)] });
      }
    })();
    const { answers, failures } = await visit({ address: edge.http, host, everyMs: 1, least: 3000, until: switching });
    expect(Object.fromEntries(failures)).toEqual({});
    expect([...answers.keys()].sort()).toEqual(["200 blue", "200 green"]);
    expect(sum(answers)).toBeGreaterThanOrEqual(3000);
  });

  test("when the old container ends after the drain time", async () => {
    const { promise: begun, resolve: onStart } = Promise.withResolvers<() => Promise<unknown>>();
    const switched = (async () => {
      const answered = await begun;
      for (let n = 0; n < 5; n += 1) {
        const next = await startUpstream(`v${n}`);
        await edge.serve({ upserts: [aProxy(host, next.address)] });
        await drain(250);
        // On a machine that stood still the time may be over before anybody could answer.
        await answered();
        await blue[Symbol.asyncDispose]();
        blue = next;
      }
    })();
    const { answers, failures } = await visit({
      address: edge.http,
      host,
      everyMs: 1,
      least: 2000,
      until: switched,
      onStart,
    });
    expect(Object.fromEntries(failures)).toEqual({});
    expect([...answers.keys()].every((answer) => answer.startsWith("200 "))).toBe(true);
    expect(answers.has("200 v4")).toBe(true);
  });

  test("while a static site switches between bundles", async () => {
    const digests = await Promise.all(
      ["one", "two"].map(async (text) => {
        const bundle = await filesBundle({ "index.html": text });
        edge.archives.set(digestOfBundle(bundle), bundle);
        return digestOfBundle(bundle);
      }),
    );
    await edge.serve({ upserts: [aStatic(host, digests[0] ?? "")] });
    const switching = (async () => {
      for (let n = 0; n < 60; n += 1) await edge.serve({ upserts: [aStatic(host, digests[(n + 1) % 2] ?? "")] });
    })();
    const { answers, failures } = await visit({ address: edge.http, host, everyMs: 1, least: 2000, until: switching });
    expect(Object.fromEntries(failures)).toEqual({});
    expect([...answers.keys()].sort()).toEqual(["200 one", "200 two"]);
  });
});

test("replaced entries leave the table", async () => {
  for (let n = 0; n < 10; n += 1) {
    await edge.serve({ upserts: [aProxy(host, (n % 2 === 0 ? green : blue).address)] });
  }
  await waitFor(async () => (await readdir(join(edge.config.tableDir, host))).length === 1);
  await edge.serve({ removed: [host] });
  expect(await readdir(edge.config.tableDir)).toEqual([".before", ".files", ".gate", ".ready"]);
  expect((await ask(edge.http, host)).status).toBe(404);
});

test("sites are served while the router is dead, and pages too", async () => {
  await edge.stopRouter();
  expect(await ask(edge.http, host)).toMatchObject({ status: 200, body: "blue" });
  expect(await ask(edge.http, "no.svc.localhost")).toMatchObject({ status: 404, body: pageHtml(pages.unknown) });
  expect(await ask(edge.http, "SHOP.svc.localhost")).toMatchObject({ status: 404, body: pageHtml(pages.unknown) });
});

test("a killed Caddy comes back with the table, although the router is dead", async () => {
  await edge.stopRouter();
  await edge.caddy.kill();
  await edge.caddy.restart();
  await waitFor(async () => (await ask(edge.http, host)).body === "blue");
});

test("a Caddy that comes back with nothing gets its configuration", async () => {
  await edge.caddy.kill();
  await rm(join(edge.caddy.adminSocket, "..", "config"), { recursive: true });
  await edge.caddy.restart();
  await waitFor(async () => (await ask(edge.http, host)).body === "blue");
});

test("a router that comes back serves the last good table, whatever became of the one in memory", async () => {
  const bundle = await filesBundle({ "index.html": "static" });
  edge.archives.set(digestOfBundle(bundle), bundle);
  await edge.serve({ upserts: [aStatic("docs.svc.localhost", digestOfBundle(bundle))] });
  const before = edge.edge().applier.state();
  await edge.stopRouter();
  edge.archives.clear();
  await rm(edge.config.tableDir, { recursive: true });
  await mkdir(join(edge.config.tableDir, "stray.svc.localhost"), { recursive: true });
  await writeFile(join(edge.config.tableDir, "stray.svc.localhost", "1fffffffffff00~x~stopped"), "");
  await mkdir(join(edge.config.tableDir, host));
  await writeFile(join(edge.config.tableDir, host, `10000000000000~p1~${green.address}`), "");

  await edge.startRouter();
  expect(edge.edge().applier.state()).toEqual(before);
  expect((await ask(edge.http, host)).body).toBe("blue");
  expect((await ask(edge.http, "docs.svc.localhost")).body).toBe("static");
  expect((await ask(edge.http, "stray.svc.localhost")).status).toBe(404);
});

test("before the table is there nobody is told that a site does not exist", async () => {
  await edge.stopRouter();
  // As after a start of the machine.
  await edge.caddy.kill();
  await rm(edge.config.tableDir, { recursive: true });
  await edge.caddy.restart();
  await waitFor(async () => (await ask(edge.http, host)).status === 503);
  const answer = await ask(edge.http, host);
  expect(answer).toMatchObject({ status: 503, body: pageHtml(pages.starting), headers: { "retry-after": "2" } });
});
