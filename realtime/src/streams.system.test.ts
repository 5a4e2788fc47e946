import { Agent } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import type { RealtimeOptions } from "./options.ts";
import { assembleRealtime, type Realtime } from "./realtime.ts";
import { createManualMachine } from "./testing/machine.ts";
import { carriers, serve, type TestServer } from "./testing/server.ts";
import { ask, head, open, type Stream } from "./testing/stream.ts";

const opened: AsyncDisposableStack[] = [];
afterEach(async () => {
  for (const stack of opened.splice(0)) await stack.disposeAsync();
});

interface Site {
  realtime: Realtime;
  clock: ReturnType<typeof createManualMachine>["clock"];
  server: TestServer;
  /** Opens a stream that ends with the test. */
  stream(query?: string, headers?: Record<string, string>): Promise<Stream>;
}

async function aSite(carrier: keyof typeof carriers, options: RealtimeOptions = {}): Promise<Site> {
  const stack = new AsyncDisposableStack();
  opened.push(stack);
  const { machine, clock } = createManualMachine();
  const realtime = assembleRealtime(options, machine);
  const server = stack.use(await serve(carriers[carrier](realtime)));
  return {
    realtime,
    clock,
    server,
    stream: async (query = "", headers = {}) => stack.use(await open(`${server.url}/events${query}`, headers)),
  };
}

const ids = (text: string): string[] => [...text.matchAll(/^id: (.*)$/gm)].map(([, id = ""]) => id);
const dataOf = (text: string): unknown[] =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, json = ""]) => (JSON.parse(json) as { data: unknown }).data);

describe.each(["node", "handler"] as const)("by %s", (carrier) => {
  test("a stream has its headers at once and not a byte before the first event", async () => {
    const { stream, realtime } = await aSite(carrier);
    const client = await stream();
    expect(client.status).toBe(200);
    expect(client.headers).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      connection: "keep-alive",
      "x-accel-buffering": "no",
    });
    expect(realtime.clientCount()).toBe(1);
    expect(client.text).toBe("");
  });

  test("a HEAD has the headers alone, takes no place, and leaves its connection to the next request", async () => {
    const { server, realtime } = await aSite(carrier, { maxClients: 1 });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      for (let times = 0; times < 3; times += 1) {
        const { status, headers } = await head(`${server.url}/events`, agent);
        expect({ status, type: headers["content-type"] }).toEqual({ status: 200, type: "text/event-stream" });
      }
      expect(realtime.clientCount()).toBe(0);
    } finally {
      agent.destroy();
    }
  });

  test("an event has an id, a type and an envelope, byte by byte", async () => {
    const { stream, realtime } = await aSite(carrier);
    const client = await stream("?channels=todos");
    expect(realtime.publish("todos", { event: "added", data: { title: "tea\n" } })).toEqual({ delivered: true });
    realtime.publish("todos", { data: undefined });
    await expect.poll(() => dataOf(client.text).length).toBe(2);
    const [first = ""] = ids(client.text);
    const instance = first.split(":")[0];
    expect(instance).toMatch(/^[0-9a-f]{16}$/);
    expect(client.text).toBe(
      `id: ${instance}:1\nevent: added\ndata: {"channel":"todos","data":{"title":"tea\\n"}}\n\n` +
        `id: ${instance}:2\nevent: message\ndata: {"channel":"todos","data":null}\n\n`,
    );
  });

  test.each([{ replay: false }, { replay: { bufferSize: 0 } }] as const)(
    "without replay (%j) it is a type and an envelope alone",
    async ({ replay }) => {
      const { stream, realtime } = await aSite(carrier, { replay });
      const client = await stream();
      realtime.publish("a\r\nb", { event: "x\nid: 1", data: 1 });
      realtime.publish("a", { event: "\r\n", data: 2 });
      await expect.poll(() => dataOf(client.text)).toEqual([1, 2]);
      expect(client.text).toBe(
        'event: xid: 1\ndata: {"channel":"ab","data":1}\n\nevent: message\ndata: {"channel":"a","data":2}\n\n',
      );
    },
  );

  test("a client gets its channels, and all where it named none", async () => {
    const { stream, realtime } = await aSite(carrier);
    const [some, all] = [await stream("?channels=a,b"), await stream()];
    for (const channel of ["a", "b", "c", "constructor"]) realtime.publish(channel, { data: channel });
    await expect.poll(() => dataOf(all.text)).toEqual(["a", "b", "c", "constructor"]);
    expect(dataOf(some.text)).toEqual(["a", "b"]);
  });

  test("a comment is written at each interval, for as long as somebody is there", async () => {
    const { stream, realtime, clock } = await aSite(carrier, { heartbeatMs: 1_000 });
    expect(clock.pending).toBe(0);
    const [first, second] = [await stream(), await stream()];
    expect(clock.pending).toBe(1);
    await clock.advance(2_000);
    await expect.poll(() => [first.text, second.text]).toEqual(Array(2).fill(": heartbeat\n\n: heartbeat\n\n"));
    first[Symbol.dispose]();
    second[Symbol.dispose]();
    await expect.poll(() => realtime.clientCount()).toBe(0);
    expect(clock.pending).toBe(0);
    await stream();
    expect(clock.pending).toBe(1);
  });

  test("further clients than there are places are told so, until somebody leaves", async () => {
    const { stream, realtime } = await aSite(carrier, { maxClients: 2 });
    const [first] = [await stream(), await stream()];
    const refused = await stream();
    expect([refused.status, refused.headers["content-type"]]).toEqual([503, "text/plain; charset=utf-8"]);
    await refused.ended;
    expect(refused.text).toBe("Too many clients");
    first[Symbol.dispose]();
    await expect.poll(() => realtime.clientCount()).toBe(1);
    expect((await stream()).status).toBe(200);
  });

  describe("who comes back", () => {
    test("gets what it missed of its channels, and then what is new", async () => {
      const { stream, realtime } = await aSite(carrier);
      const first = await stream("?channels=a");
      realtime.publish("a", { data: 1 });
      await expect.poll(() => ids(first.text).length).toBe(1);
      const [last = ""] = ids(first.text);
      first[Symbol.dispose]();
      for (const [channel, data] of [
        ["a", 2],
        ["b", 3],
        ["a", 4],
      ] as const)
        realtime.publish(channel, { data });
      const again = await stream("?channels=a", { "last-event-id": last });
      realtime.publish("a", { data: 5 });
      await expect.poll(() => dataOf(again.text)).toEqual([2, 4, 5]);
    });

    test("is believed what its URL says, before its header", async () => {
      const { stream, realtime } = await aSite(carrier);
      const first = await stream();
      for (const data of [1, 2, 3]) realtime.publish("a", { data });
      await expect.poll(() => ids(first.text).length).toBe(3);
      const [one = "", two = ""] = ids(first.text);
      const again = await stream(`?lastEventId=${encodeURIComponent(two)}`, { "last-event-id": one });
      await expect.poll(() => dataOf(again.text)).toEqual([3]);
    });

    test("from another instance gets what is new alone", async () => {
      const { stream, realtime } = await aSite(carrier);
      realtime.publish("a", { data: 1 });
      const again = await stream("", { "last-event-id": "0123456789abcdef:0" });
      realtime.publish("a", { data: 2 });
      await expect.poll(() => dataOf(again.text)).toEqual([2]);
    });

    test("gets each event once and none is missing, however many are published meanwhile", async () => {
      const { stream, realtime } = await aSite(carrier, {
        throttle: false,
        maxClients: 100,
        replay: { bufferSize: 10_000 },
      });
      const first = await stream();
      realtime.publish("a", { data: 0 });
      await expect.poll(() => ids(first.text).length).toBe(1);
      const [last = ""] = ids(first.text);
      let next = 1;
      const clients: Stream[] = [];
      const publishing = new AbortController();
      const publisher = (async () => {
        while (!publishing.signal.aborted && next < 8_000) {
          realtime.publish("a", { data: next });
          next += 1;
          await new Promise(setImmediate);
        }
      })();
      for (let at = 0; at < 50; at += 1) clients.push(await stream("?channels=a", { "last-event-id": last }));
      publishing.abort();
      await publisher;
      const everything = Array.from({ length: next - 1 }, (_, at) => at + 1);
      for (const client of clients) await expect.poll(() => dataOf(client.text).length).toBe(everything.length);
      for (const client of clients) expect(dataOf(client.text)).toEqual(everything);
    });
  });

  describe("with authorize", () => {
    const mayA = (channel: string) => channel === "a";

    test.each<{ when: string; authorize: RealtimeOptions["authorize"]; query: string; status: number; text: string }>([
      { when: "no channel is named", authorize: mayA, query: "", status: 400, text: "Name the channels: ?channels=" },
      {
        when: "the list is empty",
        authorize: mayA,
        query: "?channels=",
        status: 400,
        text: "Name the channels: ?channels=",
      },
      { when: "none is allowed", authorize: mayA, query: "?channels=b,c", status: 403, text: "Forbidden" },
      {
        when: "it throws",
        authorize: () => {
          throw new Error("no");
        },
        query: "?channels=a",
        status: 403,
        text: "Forbidden",
      },
      {
        when: "it rejects for one of them",
        authorize: async (channel) => {
          if (channel === "b") throw new Error("no");
          return true;
        },
        query: "?channels=a,b",
        status: 403,
        text: "Forbidden",
      },
      {
        when: "it says something that is not true",
        authorize: (() => "yes") as unknown as RealtimeOptions["authorize"],
        query: "?channels=a",
        status: 403,
        text: "Forbidden",
      },
      {
        when: "there are more channels than it is asked about",
        authorize: () => true,
        query: `?channels=${Array.from({ length: 101 }, (_, at) => at).join()}`,
        status: 400,
        text: "At most 100 channels",
      },
    ])("a client is refused when $when", async ({ authorize, query, status, text }) => {
      const { stream, realtime } = await aSite(carrier, authorize === undefined ? {} : { authorize, maxClients: 1 });
      for (const refused of [await stream(query), await stream(query)]) {
        expect(refused.status).toBe(status);
        expect(refused.headers["content-type"]).toBe("text/plain; charset=utf-8");
        expect(refused.headers["cache-control"]).toBeUndefined();
        await refused.ended;
        expect(refused.text).toBe(text);
      }
      expect(realtime.clientCount()).toBe(0);
    });

    test("a client gets of what it named only what it may have, also of what it missed", async () => {
      const asked: [string, string | undefined][] = [];
      const { stream, realtime } = await aSite(carrier, {
        authorize: async (channel, request) => {
          asked.push([
            channel,
            request instanceof Request ? (request.headers.get("cookie") ?? undefined) : request.headers.cookie,
          ]);
          return mayA(channel);
        },
      });
      realtime.publish("a", { data: 0 });
      const first = await stream("?channels=a", { cookie: "user=1" });
      realtime.publish("a", { data: 1 });
      await expect.poll(() => ids(first.text).length).toBe(1);
      realtime.publish("b", { data: 2 });
      realtime.publish("a", { data: 3 });
      const again = await stream("?channels=a,b", { "last-event-id": ids(first.text)[0] ?? "" });
      realtime.publish("b", { data: 4 });
      realtime.publish("a", { data: 5 });
      await expect.poll(() => dataOf(again.text)).toEqual([3, 5]);
      expect(asked).toEqual([
        ["a", "user=1"],
        ["a", undefined],
        ["b", undefined],
      ]);
    });

    test("places count while it is asked, and nothing is written before it has answered", async () => {
      const answers: ((may: boolean) => void)[] = [];
      const { stream, realtime } = await aSite(carrier, {
        maxClients: 2,
        authorize: () => new Promise((resolve) => void answers.push(resolve)),
      });
      const waiting = [stream("?channels=a"), stream("?channels=a")];
      await expect.poll(() => answers.length).toBe(2);
      expect((await stream("?channels=a")).status).toBe(503);
      expect(realtime.clientCount()).toBe(0);
      answers[0]?.(false);
      expect((await Promise.race(waiting)).status).toBe(403);
      // The place is free again.
      const third = stream("?channels=a");
      await expect.poll(() => answers.length).toBe(3);
      answers[1]?.(true);
      answers[2]?.(true);
      expect((await third).status).toBe(200);
      expect(realtime.clientCount()).toBe(2);
    });

    test("who leaves while it is asked gives the place back", async () => {
      const answers: ((may: boolean) => void)[] = [];
      const { stream, realtime, server } = await aSite(carrier, {
        maxClients: 1,
        authorize: () => new Promise((resolve) => void answers.push(resolve)),
      });
      const leaving = ask(`${server.url}/?channels=a`);
      await expect.poll(() => answers.length).toBe(1);
      leaving[Symbol.dispose]();
      // The server hears of it before the answer.
      await expect.poll(() => server.connections()).toBe(0);
      answers[0]?.(true);
      const next = stream("?channels=a");
      await expect.poll(() => answers.length).toBe(2);
      answers[1]?.(true);
      expect((await next).status).toBe(200);
      expect(realtime.clientCount()).toBe(1);
    });

    test("an application that does not answer refuses after half a minute", async () => {
      let asked = 0;
      const { stream, clock } = await aSite(carrier, {
        maxClients: 1,
        authorize: () => {
          asked += 1;
          return new Promise(() => {});
        },
      });
      const waiting = stream("?channels=a");
      await expect.poll(() => asked).toBe(1);
      await clock.advance(30_000);
      expect((await waiting).status).toBe(403);
    });
  });

  test("a thousand clients of ten channels get what is theirs, and leave nothing behind", async () => {
    const { stream, realtime, clock } = await aSite(carrier, { maxClients: 1_000 });
    const clients: Stream[] = [];
    for (let at = 0; at < 1_000; at += 100) {
      clients.push(...(await Promise.all(Array.from({ length: 100 }, (_, of) => stream(`?channels=c${of % 10}`)))));
    }
    expect(realtime.clientCount()).toBe(1_000);
    for (let channel = 0; channel < 10; channel += 1) realtime.publish(`c${channel}`, { data: channel });
    for (const [at, client] of clients.entries()) await expect.poll(() => dataOf(client.text)).toEqual([at % 10]);
    for (const client of clients) client[Symbol.dispose]();
    await expect.poll(() => realtime.clientCount()).toBe(0);
    expect(clock.pending).toBe(0);
  });
});
