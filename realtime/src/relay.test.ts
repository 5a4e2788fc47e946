import { afterEach, beforeEach, expect, test } from "vitest";
import type { RealtimeAdapter, RealtimeEvent, RealtimeOptions } from "./options.ts";
import { assembleRealtime } from "./realtime.ts";
import { createManualMachine } from "./testing/machine.ts";

/** Nothing that an adapter does may become a rejection that nobody handles. */
const unhandled: unknown[] = [];
const note = (error: unknown) => void unhandled.push(error);
beforeEach(() => void process.on("unhandledRejection", note));
afterEach(async () => {
  await new Promise(setImmediate);
  process.off("unhandledRejection", note);
  expect(unhandled.splice(0)).toEqual([]);
});

/** Joins instances of one process; what it was asked to send is kept. */
function aBus() {
  const listeners = new Set<(event: RealtimeEvent) => void>();
  const sent: RealtimeEvent[] = [];
  const adapter = (): RealtimeAdapter & { ended: string[] } => {
    const ended: string[] = [];
    let own = (_: RealtimeEvent): void => {};
    return {
      ended,
      publish(event) {
        sent.push(event);
        for (const listener of listeners) if (listener !== own) listener(event);
      },
      async subscribe(onEvent) {
        own = onEvent;
        listeners.add(onEvent);
        return () => {
          listeners.delete(onEvent);
          ended.push("unsubscribed");
        };
      },
      close: () => void ended.push("closed"),
    };
  };
  return { adapter, sent };
}

function anInstance(adapter: RealtimeAdapter, options: RealtimeOptions = {}) {
  const { machine, clock } = createManualMachine();
  const faults: [string, string][] = [];
  const realtime = assembleRealtime(
    {
      adapter,
      onAdapterError: (error, { op }) => void faults.push([op, (error as Error).message]),
      ...options,
    },
    machine,
  );
  const answer = realtime.handler(new Request("https://app.test/"));
  if (answer instanceof Promise || answer.body === null) throw new Error("no stream at once");
  const reader = answer.body.getReader();
  return { realtime, clock, faults, next: async () => new TextDecoder().decode((await reader.read()).value) };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("an event goes to the clients of all instances, with a number of each", async () => {
  const bus = aBus();
  const [here, there] = [anInstance(bus.adapter()), anInstance(bus.adapter())];
  here.realtime.publish("a", { event: "x", data: { n: 1 } });
  const line = 'event: x\ndata: {"channel":"a","data":{"n":1}}\n\n';
  const [at, other] = [await here.next(), await there.next()];
  expect([at, other].map((text) => text.slice(text.indexOf("\n") + 1))).toEqual([line, line]);
  expect(new Set([at, other].map((text) => text.split("\n")[0])).size).toBe(2);
  expect(bus.sent).toEqual([{ channel: "a", event: "x", data: { n: 1 } }]);
});

test("what comes from elsewhere is not throttled, not sent on, and held to the channels there are", async () => {
  const bus = aBus();
  const drops: unknown[] = [];
  const there = anInstance(bus.adapter(), {
    channels: ["a"],
    throttle: { maxTokens: 1 },
    onDrop: (drop) => void drops.push(drop),
  });
  const sender = bus.adapter();
  await sender.subscribe(() => {});
  for (let at = 0; at < 3; at += 1) sender.publish({ channel: "a", event: "x\r\n", data: at });
  sender.publish({ channel: "b", event: "x", data: 1 });
  for (let at = 0; at < 3; at += 1)
    expect(await there.next()).toContain(`event: x\ndata: {"channel":"a","data":${at}}`);
  expect(drops).toEqual([{ channel: "b", reason: "channel_not_allowed", event: "x" }]);
  expect(bus.sent).toHaveLength(4);
});

test("what is dropped here goes nowhere else", () => {
  const bus = aBus();
  const { realtime } = anInstance(bus.adapter(), { channels: ["a"], throttle: { maxTokens: 1 } });
  for (const channel of ["a", "a", "b"]) realtime.publish(channel, { data: 1 });
  expect(bus.sent).toHaveLength(1);
});

const throwing = (): never => {
  throw new Error("thrown");
};
const rejecting = async (): Promise<never> => {
  throw new Error("rejected");
};

test.each([
  {
    when: "publish throws",
    adapter: { publish: throwing, subscribe: async () => () => {} },
    faults: [["publish", "thrown"]],
  },
  {
    when: "publish rejects",
    adapter: { publish: rejecting, subscribe: async () => () => {} },
    faults: [["publish", "rejected"]],
  },
  { when: "subscribe throws", adapter: { publish: () => {}, subscribe: throwing }, faults: [["subscribe", "thrown"]] },
  {
    when: "subscribe rejects",
    adapter: { publish: () => {}, subscribe: rejecting },
    faults: [["subscribe", "rejected"]],
  },
  {
    when: "unsubscribing throws",
    adapter: { publish: () => {}, subscribe: async () => throwing },
    faults: [["subscribe", "thrown"]],
  },
  {
    when: "unsubscribing and closing reject",
    adapter: { publish: () => {}, subscribe: async () => rejecting, close: rejecting },
    faults: [
      ["subscribe", "rejected"],
      ["subscribe", "rejected"],
    ],
  },
])("when $when its clients have their event, and the fault is told", async ({ adapter, faults }) => {
  const instance = anInstance(adapter);
  await settled();
  expect(instance.realtime.publish("a", { data: 1 })).toEqual({ delivered: true });
  expect(await instance.next()).toContain('"data":1');
  await instance.realtime.close();
  expect(instance.faults).toEqual(faults);
});

test("whoever listens for faults may fail", async () => {
  const { realtime } = anInstance({ publish: throwing, subscribe: rejecting }, { onAdapterError: throwing });
  expect(realtime.publish("a", { data: 1 })).toEqual({ delivered: true });
  await expect(realtime.close()).resolves.toBeUndefined();
});

test("an event from elsewhere that is none is a fault, and nothing else", async () => {
  let tell = (_: unknown): void => {};
  const instance = anInstance({
    publish: () => {},
    subscribe: async (onEvent) => {
      tell = onEvent as (event: unknown) => void;
      return () => {};
    },
  });
  tell(null);
  tell({ channel: "a", event: "x", data: 1n });
  tell({ channel: "a", event: "x", data: "fine" });
  expect(await instance.next()).toContain('"data":"fine"');
  expect(instance.faults.map(([op]) => op)).toEqual(["subscribe", "subscribe"]);
});

test("an adapter that is busy for ever gets no more than a thousand events", () => {
  let sent = 0;
  const instance = anInstance(
    {
      publish: () => {
        sent += 1;
        return new Promise(() => {});
      },
      subscribe: async () => () => {},
    },
    { throttle: false },
  );
  for (let at = 0; at < 1_002; at += 1) instance.realtime.publish("a", { data: at });
  expect(sent).toBe(1_000);
  expect(instance.faults).toEqual(Array(2).fill(["publish", "the adapter is still busy with 1000 events"]));
});

test("closing leaves the adapter once, and the clients stay", async () => {
  const bus = aBus();
  const adapter = bus.adapter();
  const instance = anInstance(adapter);
  await settled();
  await Promise.all([instance.realtime.close(), instance.realtime.close()]);
  await instance.realtime.close();
  expect(adapter.ended).toEqual(["unsubscribed", "closed"]);
  expect(instance.realtime.clientCount()).toBe(1);
  expect(instance.realtime.publish("a", { data: 1 })).toEqual({ delivered: true });
  expect(await instance.next()).toContain('"data":1');
  expect([bus.sent, instance.clock.pending]).toEqual([[], 1]);
});

test("closing without an adapter does nothing", async () => {
  const { machine } = createManualMachine();
  await expect(assembleRealtime({}, machine).close()).resolves.toBeUndefined();
});

test("closing does not wait for a subscription that is not there yet, and ends it when it comes", async () => {
  const { promise, resolve } = Promise.withResolvers<() => void>();
  let tell = (_: RealtimeEvent): void => {};
  const ended: string[] = [];
  const instance = anInstance({
    publish: () => {},
    subscribe: (onEvent) => {
      tell = onEvent;
      return promise;
    },
  });
  await instance.realtime.close();
  resolve(() => void ended.push("unsubscribed"));
  await settled();
  expect(ended).toEqual(["unsubscribed"]);
  tell({ channel: "a", data: "late" });
  instance.realtime.publish("a", { data: "own" });
  expect(await instance.next()).toContain('"data":"own"');
});

test("closing ends after five seconds whatever the adapter does", async () => {
  const instance = anInstance({ publish: () => {}, subscribe: async () => () => new Promise(() => {}) });
  await settled();
  const closed = instance.realtime.close();
  await instance.clock.advance(5_000);
  await expect(closed).resolves.toBeUndefined();
  expect(instance.faults).toEqual([["subscribe", "the adapter did not close within 5000 ms"]]);
});
