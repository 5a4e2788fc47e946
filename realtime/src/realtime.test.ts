import { describe, expect, test } from "vitest";
import type { RealtimeOptions } from "./options.ts";
import { assembleRealtime } from "./realtime.ts";
import { createManualMachine } from "./testing/machine.ts";

type Drop = Parameters<NonNullable<RealtimeOptions["onDrop"]>>[0];

function aRealtime(options: RealtimeOptions = {}) {
  const { machine, clock } = createManualMachine();
  const drops: Drop[] = [];
  return { realtime: assembleRealtime({ onDrop: (drop) => void drops.push(drop), ...options }, machine), clock, drops };
}

const streamOf = (answer: Response | Promise<Response>): ReadableStreamDefaultReader<Uint8Array> => {
  if (answer instanceof Promise || answer.body === null) throw new Error("no stream at once");
  return answer.body.getReader();
};
const request = (query = "", init: RequestInit = {}) => new Request(`https://app.test/events${query}`, init);
const textOf = async (reader: ReadableStreamDefaultReader<Uint8Array>) =>
  new TextDecoder().decode((await reader.read()).value);

describe("publish", () => {
  test("says what was dropped, and why; a channel that is not allowed costs no token", () => {
    const { realtime, drops } = aRealtime({ channels: ["a"], throttle: { maxTokens: 1 } });
    expect(realtime.publish("b", { event: "x", data: 1 })).toEqual({ delivered: false, reason: "channel_not_allowed" });
    expect(realtime.publish("a", { data: 1 })).toEqual({ delivered: true });
    expect(realtime.publish("a", { data: 1 })).toEqual({ delivered: false, reason: "throttled" });
    expect(realtime.publish("b", { data: 1 })).toEqual({ delivered: false, reason: "channel_not_allowed" });
    expect(drops).toEqual([
      { channel: "b", reason: "channel_not_allowed", event: "x" },
      { channel: "a", reason: "throttled" },
      { channel: "b", reason: "channel_not_allowed" },
    ]);
  });

  test("lets ten through at once and then ten a second, each channel for itself", async () => {
    const { realtime, clock } = aRealtime();
    const delivered = (channel: string, times: number) =>
      Array.from({ length: times }, () => realtime.publish(channel, { data: 1 })).filter((each) => each.delivered)
        .length;
    expect([delivered("a", 30), delivered("b", 30)]).toEqual([10, 10]);
    await clock.advance(1_000);
    expect(delivered("a", 30)).toBe(10);
  });

  test("without a throttle nothing is dropped", () => {
    const { realtime } = aRealtime({ throttle: false });
    for (let at = 0; at < 1_000; at += 1) expect(realtime.publish("a", { data: at }).delivered).toBe(true);
  });

  test("what is no JSON throws, reaches nobody and takes no number", async () => {
    const forwarded: unknown[] = [];
    const { realtime } = aRealtime({
      adapter: { publish: (event) => forwarded.push(event), subscribe: async () => () => {} },
    });
    const reader = streamOf(realtime.handler(request()));
    expect(() => realtime.publish("a", { data: { price: 1n } })).toThrow(TypeError);
    expect(forwarded).toEqual([]);
    realtime.publish("a", { data: "next" });
    expect(await textOf(reader)).toMatch(/^id: [0-9a-f]+:1\nevent: message\ndata: {"channel":"a","data":"next"}\n\n$/);
  });

  test("instances have names of their own", async () => {
    const names = await Promise.all(
      [1, 2].map(async () => {
        const { realtime } = aRealtime();
        const reader = streamOf(realtime.handler(request()));
        realtime.publish("a", { data: 1 });
        return (await textOf(reader)).split(":")[1];
      }),
    );
    expect(new Set(names).size).toBe(2);
  });
});

describe("handler", () => {
  test("answers with a promise only where authorize is set", () => {
    expect(aRealtime().realtime.handler(request())).toBeInstanceOf(Response);
    expect(aRealtime({ maxClients: 0 }).realtime.handler(request())).toBeInstanceOf(Response);
    const { realtime } = aRealtime({ authorize: () => true });
    for (const query of ["", "?channels=a"]) expect(realtime.handler(request(query))).toBeInstanceOf(Promise);
  });

  test.each(["its reader cancels", "its request is aborted", "both happen"])(
    "a client has left when %s",
    async (how) => {
      const { realtime, clock } = aRealtime();
      const left = new AbortController();
      const reader = streamOf(realtime.handler(request("", { signal: left.signal })));
      expect(realtime.clientCount()).toBe(1);
      if (how !== "its reader cancels") left.abort();
      if (how !== "its request is aborted") await reader.cancel();
      expect([realtime.clientCount(), clock.pending]).toEqual([0, 0]);
      expect(realtime.publish("a", { data: 1 })).toEqual({ delivered: true });
      expect((await reader.read()).done).toBe(true);
    },
  );

  test("a request that is aborted already takes no place", () => {
    const { realtime } = aRealtime({ maxClients: 1 });
    realtime.handler(request("", { signal: AbortSignal.abort() }));
    expect(realtime.clientCount()).toBe(0);
    expect((realtime.handler(request()) as Response).status).toBe(200);
  });
});
