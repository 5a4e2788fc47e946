import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { SaltsSchema } from "@svc/proto/edge";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startTestEdge, type TestEdge } from "../testing/edge.ts";
import { ask } from "../testing/http.ts";
import { aKillableEdge, type KillableEdge } from "../testing/killable-edge.ts";
import { aProxy } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";
import { waitFor } from "../testing/wait-for.ts";

const host = "shop.svc.localhost";
const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0";
const hourMs = 3_600_000;

let app: Upstream;
let edge: TestEdge;
let router: KillableEdge;
beforeEach(async () => {
  app = await startUpstream("blue");
  edge = await startTestEdge();
  await edge.serve({ upserts: [aProxy(host, app.address)] });
  // The same for each day: a test that runs over midnight has one visitor as well.
  const salt = Uint8Array.from(randomBytes(32));
  const days = [-1, 0, 1].map((ahead) => new Date(Date.now() + ahead * 24 * hourMs).toISOString().slice(0, 10));
  const salts = days.map((day) => ({ day, salt }));
  await edge.edge().analytics?.learn(create(SaltsSchema, { salts }));
  await edge.stopRouter();
  router = aKillableEdge(edge);
});
afterEach(async () => {
  await router[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

/** Page views of one visitor. */
async function visit(times: number): Promise<void> {
  for (let n = 0; n < times; n += 1) await ask(edge.http, host, "/", { headers: { "user-agent": browser } });
}
/** The same while no router reads, or removes, what Caddy logs: all of it is logged when this returns. */
async function visitAndLog(times: number): Promise<void> {
  const before = await loggedLines();
  await visit(times);
  // An answer is out before its line is.
  await waitFor(async () => (await loggedLines()) >= before + times);
}
async function loggedLines(): Promise<number> {
  // Caddy's own module has files of its own.
  const files = (await readdir(edge.config.trafficDir)).filter((name) => name.endsWith(".log"));
  const texts = await Promise.all(files.map((name) => readFile(join(edge.config.trafficDir, name), "utf8")));
  return texts.join("").split("\n").length - 1;
}
const journal = () => join(edge.config.dir, "analytics", "journal");
const journalBytes = async () => (await stat(journal()).catch(() => null))?.size ?? 0;

/** What control has in the end; a moment later it has no more. */
async function expectCounted(requests: number): Promise<void> {
  await waitFor(() => router.requests() >= requests && router.analysed() >= requests);
  // One more round, after all that could count twice.
  await visit(1);
  await waitFor(() => router.requests() > requests && router.analysed() > requests);
  expect([router.requests(), router.analysed(), router.views(), router.visitors()]).toEqual(
    Array(3)
      .fill(requests + 1)
      .concat(1),
  );
}

test("a router that is killed while it counts, again and again, counts each request once", async () => {
  const kills = 6;
  for (let n = 0; n < kills; n += 1) {
    router.isDeaf = n % 3 === 0;
    await router.start();
    const before = await journalBytes();
    const visited = visit(10);
    // Sketches are down, and their place in the log perhaps not.
    if (n % 2 === 0) await waitFor(async () => (await journalBytes()) !== before);
    else await visited;
    await router.kill();
    await visited;
  }
  router.isDeaf = false;
  await router.start();
  await expectCounted(kills * 10);
});

test("killed between the journal and the place in the log, it takes back what it will count again", async () => {
  await router.start();
  await visit(5);
  await waitFor(() => router.requests() === 5 && router.analysed() === 5);
  await router.kill();
  const dir = join(edge.config.dir, "traffic");
  const [newest = ""] = (await readdir(dir)).toSorted().slice(-1);
  const next = `${String(Number(newest.slice(0, -".json".length)) + 1).padStart(16, "0")}.json`;
  await router.start();
  // In the place of the batch that comes next: it cannot be put down.
  await mkdir(join(dir, next, "in-the-way"), { recursive: true });
  const before = await journalBytes();
  await visit(7);
  await waitFor(async () => (await journalBytes()) > before);
  await router.kill();
  await rm(join(dir, next), { recursive: true });
  await router.start();
  await expectCounted(12);
});

test("what Caddy has logged counts although it is killed, and the router with it", async () => {
  await router.start();
  await visit(3);
  await router.kill();
  await visitAndLog(6);
  await edge.caddy.kill();
  await edge.caddy.restart();
  await waitFor(async () => (await ask(edge.http, host)).status === 200);
  await router.start();
  await waitFor(() => router.requests() >= 10);
  // Whoever asked while it came up is counted as well: those who have been answered.
  expect(router.requests()).toBe(10);
});

test("an edge that starts anew has lost what nobody had counted, and counts nothing twice", async () => {
  await router.start();
  await visit(4);
  await waitFor(() => router.requests() === 4 && router.analysed() === 4);
  await router.kill();
  await visitAndLog(9);
  // The log is in memory.
  await edge.caddy.kill();
  await rm(edge.config.trafficDir, { recursive: true });
  await edge.caddy.restart();
  await router.start();
  await expectCounted(4);
});

test("a day without control, over midnight, is there by the hour once it is back, also after the router was killed", async () => {
  const hours = 26;
  const newest = Math.floor(Date.now() / hourMs);
  const line = (ts: number) => {
    const said = ["", "document", "", "", "/", browser, ""].join("\x7f");
    const request = { remote_ip: "192.0.2.7", method: "GET", host };
    return `${JSON.stringify({ ts, request, user_id: said, duration: 0.1, size: 10, status: 200 })}\n`;
  };
  router.isDeaf = true;
  await mkdir(edge.config.trafficDir, { recursive: true });
  const expected: Record<string, number> = {};
  for (let ago = hours - 1; ago >= 0; ago -= 1) {
    const hour = newest - ago;
    const times = 100 + ago;
    expected[hour] = times;
    // The first and the last moment of the hour.
    const text = line(hour * 3600).repeat(times - 1) + line(hour * 3600 + 3599.999);
    const file = join(edge.config.trafficDir, `access-${String(hour)}.log`);
    await writeFile(join(edge.config.dir, "made.log"), text);
    await rename(join(edge.config.dir, "made.log"), file);
    if (ago % 12 === 0) {
      await router.start();
      const files = async () => (await readdir(edge.config.trafficDir)).filter((name) => name !== "access.log");
      await waitFor(async () => (await files()).length === 0);
      await router.kill();
    }
  }
  router.isDeaf = false;
  await router.start();
  const all = Object.values(expected).reduce((sum, each) => sum + each, 0);
  await waitFor(() => router.requests() >= all && router.analysed() >= all);
  expect(router.requestsByHour()).toEqual(expected);
  expect([router.analysed(), router.views()]).toEqual([all, all]);
});
