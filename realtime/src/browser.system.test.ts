import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page as BrowserPage } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createRealtime } from "./index.ts";
import type { RealtimeOptions } from "./options.ts";
import type { Realtime } from "./realtime.ts";
import { bundlePage, launchBrowser } from "./testing/browser.ts";
import type { Page } from "./testing/page.ts";

let browser: Browser;
let html = "";
beforeAll(async () => {
  [browser, html] = await Promise.all([launchBrowser(), bundlePage()]);
});
afterAll(() => browser?.close());

let site: Site;
let page: BrowserPage;
beforeEach(async () => {
  site = await aSite();
});
afterEach(async () => {
  await page?.close();
  await site.stop();
});

interface Site {
  realtime: Realtime;
  /** Queries of the streams that were asked for. */
  asked: string[];
  url: string;
  /** Cuts all connections, and refuses new ones. */
  stop(): Promise<void>;
  /** Again at the same address, with the same events. */
  start(): Promise<void>;
}

async function aSite(options: RealtimeOptions = {}): Promise<Site> {
  const realtime = createRealtime(options);
  const asked: string[] = [];
  let port = 0;
  let server: Server | null = null;
  const site: Site = {
    realtime,
    asked,
    url: "",
    async start() {
      server = createServer((request, response) => {
        const { pathname, search } = new URL(request.url ?? "", "http://app.test");
        if (pathname === "/app/") response.writeHead(200, { "content-type": "text/html" }).end(html);
        else if (pathname !== "/app/events") response.writeHead(404).end();
        else {
          asked.push(search);
          realtime.node(request, response);
        }
      });
      await once(server.listen(port, "127.0.0.1"), "listening");
      ({ port } = server.address() as AddressInfo);
      site.url = `http://127.0.0.1:${port}/app/`;
    },
    async stop() {
      const stopping = server;
      server = null;
      if (stopping === null) return;
      stopping.closeAllConnections();
      stopping.close();
      await once(stopping, "close");
    },
  };
  await site.start();
  return site;
}

async function openPage(): Promise<void> {
  page = await browser.newPage();
  await page.goto(site.url);
}
interface Scope {
  page: Page;
}
const log = () => page.evaluate(() => (globalThis as unknown as Scope).page.log);
const logged = async (what: string) => (await log()).filter(([which]) => which === what).map(([, ...rest]) => rest);
const dataOf = async (what = "event") => (await logged(what)).map(([event]) => (event as { data: string }).data);
const add = (options: Parameters<Page["subscribe"]>[0]) =>
  page.evaluate((given) => (globalThis as unknown as Scope).page.subscribe(given), options);
const subscribe = async (options: Parameters<Page["subscribe"]>[0]) => {
  await openPage();
  await add(options);
};
const close = () => page.evaluate(() => (globalThis as unknown as Scope).page.subscription?.close());
const status = () => page.evaluate(() => (globalThis as unknown as Scope).page.subscription?.status());
const isConnected = () => expect.poll(() => site.realtime.clientCount()).toBe(1);

describe("a subscription", () => {
  test("begins as connecting, and is open once the server answers", async () => {
    await subscribe({ url: "events" });
    await expect.poll(() => status()).toBe("open");
    expect(await log()).toEqual([["status", "open"], ["open"]]);
  });

  test("gets messages once and the types it listens for, always as text, with their channel", async () => {
    await subscribe({ url: "events?room=7", channels: ["a", "b c"], events: ["message", "added", "added"] });
    await isConnected();
    expect(site.asked).toEqual(["?room=7&channels=a%2Cb+c"]);
    site.realtime.publish("a", { event: "removed", data: 0 });
    site.realtime.publish("other", { data: 0 });
    site.realtime.publish("a", { data: { n: 1 } });
    site.realtime.publish("b c", { event: "added", data: "text\n" });
    site.realtime.publish("a", { data: null });
    await expect
      .poll(() => logged("event"))
      .toEqual([
        [{ event: "message", data: '{"n":1}', channel: "a" }],
        [{ event: "added", data: "text\n", channel: "b c" }],
        [{ event: "message", data: "null", channel: "a" }],
      ]);
  });

  test("has what was published as it was, with parseJson", async () => {
    await subscribe({ url: "events", parseJson: true });
    await isConnected();
    for (const data of [{ n: 1 }, "5", null]) site.realtime.publish("a", { data });
    await expect
      .poll(() => logged("event"))
      .toEqual([
        [{ event: "message", data: '{"n":1}', json: { n: 1 }, channel: "a" }],
        [{ event: "message", data: "5", json: "5", channel: "a" }],
        [{ event: "message", data: "null", json: null, channel: "a" }],
      ]);
  });

  test("is not confused by events that are named like its own", async () => {
    await subscribe({ url: "events", events: ["error"] });
    await isConnected();
    for (const event of ["open", "error"]) site.realtime.publish("a", { event, data: event });
    site.realtime.publish("a", { data: "last" });
    await expect.poll(() => dataOf()).toEqual(["error", "last"]);
    expect(await logged("status")).toEqual([["open"]]);
  });

  test("comes back after each break with the id of the last event, and neither loses nor repeats one", async () => {
    await subscribe({ url: "events", channels: ["a"], reconnectMs: 20, maxReconnectMs: 80 });
    await isConnected();
    site.realtime.publish("a", { data: "0" });
    await expect.poll(() => dataOf()).toEqual(["0"]);
    await site.stop();
    // The last id outlives attempts that fail.
    await expect.poll(async () => (await logged("reconnect")).length).toBeGreaterThan(4);
    site.realtime.publish("a", { data: "1" });
    await site.start();
    await isConnected();
    site.realtime.publish("a", { data: "2" });
    await expect.poll(() => dataOf()).toEqual(["0", "1", "2"]);
    expect((await logged("reconnect")).slice(0, 4)).toEqual([
      [0, 20],
      [1, 40],
      [2, 80],
      [3, 80],
    ]);
    expect(site.asked.at(-1)).toMatch(/^\?channels=a&lastEventId=[0-9a-f]{16}%3A1$/);
    expect(await logged("status")).toEqual([["open"], ["reconnecting"], ["open"]]);

    // Having been open, it begins anew with the shortest wait.
    const before = (await logged("reconnect")).length;
    await site.stop();
    await expect.poll(async () => (await logged("reconnect")).length).toBeGreaterThan(before);
    expect((await logged("reconnect"))[before]).toEqual([0, 20]);
  });

  test("asks again until there is a place for it", async () => {
    await site.stop();
    site = await aSite({ maxClients: 1 });
    const taken = new AbortController();
    const full = fetch(`${site.url}events`, { signal: taken.signal });
    await full;
    await subscribe({ url: "events", reconnectMs: 20 });
    await expect.poll(async () => (await logged("error")).length).toBeGreaterThan(1);
    expect(await status()).toBe("reconnecting");
    taken.abort();
    await expect.poll(() => status()).toBe("open");
  });

  test("that is closed asks for nothing more and says nothing more", async () => {
    await subscribe({ url: "events", reconnectMs: 20 });
    // The page hears of it after the server has counted it.
    await expect.poll(() => status()).toBe("open");
    await close();
    await close();
    await expect.poll(() => site.realtime.clientCount()).toBe(0);
    site.realtime.publish("a", { data: 1 });
    expect(await log()).toEqual([["status", "open"], ["open"], ["status", "closed"]]);
    expect(await status()).toBe("closed");
  });

  test.each(["error", "reconnect", "status reconnecting"])("may be closed by its own callback: %s", async (closeOn) => {
    // A second one, which comes back, shows that the time has come.
    await subscribe({ url: "events", channels: ["witness"], reconnectMs: 20 });
    await add({ url: "events", reconnectMs: 20, closeOn });
    await expect.poll(() => site.realtime.clientCount()).toBe(2);
    await site.stop();
    await expect.poll(() => status()).toBe("closed");
    await site.start();
    await isConnected();
    expect(site.asked.filter((query) => query === "")).toHaveLength(1);
    expect(await status()).toBe("closed");
  });
});

describe("the hook", () => {
  const render = (options: Parameters<Page["render"]>[0]) =>
    page.evaluate((given) => (globalThis as unknown as Scope).page.render(given), options);
  const shown = () => page.textContent("main");

  test("has one connection in StrictMode, which mounts twice, and each event once", async () => {
    await openPage();
    await render({ as: "first", url: "events", channel: "a", events: ["added"] });
    await expect.poll(shown).toBe("first connected open");
    await isConnected();
    expect(site.asked[0]).toBe("?channels=a");
    site.realtime.publish("a", { event: "added", data: { n: 1 } });
    site.realtime.publish("b", { event: "added", data: 2 });
    site.realtime.publish("a", { data: "text" });
    await expect
      .poll(() => logged("first"))
      .toEqual([
        [{ event: "added", data: '{"n":1}', json: { n: 1 }, channel: "a" }],
        [{ event: "message", data: "text", json: "text", channel: "a" }],
      ]);
  });

  test("keeps its connection for another function and for equal events, and calls the newest function", async () => {
    await openPage();
    await render({ as: "first", url: "events", channel: "a", events: ["x", "y"] });
    await expect.poll(shown).toBe("first connected open");
    await isConnected();
    const before = site.asked.length;
    await render({ as: "second", url: "events", channel: "a", events: ["x", "y"] });
    await expect.poll(shown).toBe("second connected open");
    site.realtime.publish("a", { event: "y", data: "1" });
    await expect.poll(() => dataOf("second")).toEqual(["1"]);
    expect([await logged("first"), site.asked.length]).toEqual([[], before]);
  });

  test.each([
    { what: "channel", next: { channel: "b" } },
    { what: "url", next: { url: "events?v=2" } },
    { what: "list of events", next: { events: ["y"] } },
  ])("connects anew for another $what", async ({ next }) => {
    await openPage();
    const first = { as: "first", url: "events", channel: "a", events: ["x"] };
    await render(first);
    await expect.poll(shown).toBe("first connected open");
    await isConnected();
    const before = site.asked.length;
    await render({ ...first, ...next, as: "second" });
    await expect.poll(() => site.asked.length).toBe(before + 1);
    await expect.poll(shown).toBe("second connected open");
    await isConnected();
    expect(await page.evaluate(() => (globalThis as unknown as Scope).page.statuses)).toContain("connecting");
  });

  test("is not connected while it is not enabled, while the server is away, and when it is gone", async () => {
    await openPage();
    const options = { as: "it", url: "events", channel: "a" };
    await render({ ...options, enabled: false });
    await expect.poll(shown).toBe("it not connected closed");
    expect(site.asked).toEqual([]);
    await render(options);
    await expect.poll(shown).toBe("it connected open");
    await site.stop();
    await expect.poll(shown).toBe("it not connected reconnecting");
    await site.start();
    await expect.poll(shown).toBe("it connected open");
    await render({ ...options, enabled: false });
    await expect.poll(shown).toBe("it not connected closed");
    await expect.poll(() => site.realtime.clientCount()).toBe(0);
    await render(options);
    await isConnected();
    await render(null);
    await expect.poll(() => site.realtime.clientCount()).toBe(0);
  });
});
