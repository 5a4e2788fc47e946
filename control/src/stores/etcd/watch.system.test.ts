import { Etcd3 } from "etcd3";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { requireLeader } from "./connection.ts";
import { type Entry, type Etcd, listWatch, type Op, type WatchEvent } from "./index.ts";
import { type EtcdServer, impatientClient, startEtcd, testClient, until } from "./testing.ts";
import { startProxy, type TcpProxy } from "./testing-proxy.ts";

let server: EtcdServer;
/** Writes past the proxies. */
let writer: Etcd;

beforeAll(async () => {
  server = await startEtcd({ flags: ["--experimental-watch-progress-notify-interval", "250ms"] });
  writer = testClient(server.endpoint);
});
afterAll(async () => {
  await writer.close();
  await server[Symbol.asyncDispose]();
});

const put = (key: string, value = ""): Op => ({ put: { key, value } });
const del = (key: string): Op => ({ delete: { key } });
const line = ({ type, key, modRevision }: { type: string; key: string; modRevision: bigint | string }) =>
  `${modRevision} ${type} ${key}`;

/** Everything that a watch was told, in order. */
function record(etcd: Etcd, prefix: string) {
  const stop = new AbortController();
  const snapshots: { entries: readonly Entry[]; revision: bigint }[] = [];
  const batches: { events: readonly WatchEvent[]; revision: bigint }[] = [];
  const ended = listWatch(etcd, prefix, {
    onSnapshot: (entries, revision) => void snapshots.push({ entries, revision }),
    onEvents: (events, revision) => void batches.push({ events, revision }),
    signal: stop.signal,
  });
  const close = async () => {
    stop.abort();
    await ended;
  };
  onTestFinished(close);
  const lines = () => batches.flatMap(({ events }) => events.map(line));
  return { snapshots, batches, lines, close, listed: () => until("the snapshot", () => snapshots.length > 0) };
}

/** What etcd3 saw under `prefix` since the start of the store: an independent reader past the proxies. */
async function readIndependently(prefix: string, last: string): Promise<string[]> {
  const client = new Etcd3({ hosts: server.endpoint, grpcOptions: { "grpc.max_receive_message_length": -1 } });
  const lines: string[] = [];
  const watcher = await client.watch().prefix(prefix).startRevision("1").create();
  const told = (type: string) => (kv: { key: Buffer; mod_revision: string }) =>
    void lines.push(line({ type, key: kv.key.toString(), modRevision: kv.mod_revision }));
  watcher.on("put", told("put"));
  watcher.on("delete", told("delete"));
  try {
    await until("the independent reader has seen it all", () => lines.includes(last));
  } finally {
    await watcher.cancel();
    client.close();
  }
  return lines;
}

/** Writes `count` transactions of one to five keys under `prefix`; returns the last revision. */
async function writeSome(prefix: string, random: () => number, count: number): Promise<bigint> {
  let revision = 0n;
  for (let round = 0; round < count; round++) {
    const first = Math.floor(random() * 10);
    const keys = Array.from({ length: 1 + Math.floor(random() * 5) }, (_, index) => `${prefix}${(first + index) % 10}`);
    const ops = keys.map((key) => (random() < 0.2 ? del(key) : put(key, "x".repeat(Math.floor(random() * 100)))));
    revision = (await writer.txn({ ops })).revision;
  }
  return revision;
}

/** A small generator, so that a failing run can be repeated. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Waits until a mark written now has arrived, then compares everything seen with the independent reader. */
async function expectNothingLostOrRepeated(prefix: string, seen: ReturnType<typeof record>): Promise<void> {
  const { revision } = await writer.txn({ ops: [put(`${prefix}end`)] });
  const last = line({ type: "put", key: `${prefix}end`, modRevision: revision });
  await until("the last event", () => seen.lines().includes(last));
  const from = seen.snapshots[0]?.revision ?? 0n;
  const all = (await readIndependently(prefix, last)).filter((one) => BigInt(one.split(" ")[0] ?? "0") > from);
  expect(seen.lines()).toEqual(all);
  expect(seen.snapshots).toHaveLength(1);
  // The changes of one transaction are never told in two calls.
  const firsts = seen.batches.map(({ events }) => events[0]?.modRevision ?? 0n);
  expect(firsts.slice(1).every((first, index) => first > (seen.batches[index]?.revision ?? first))).toBe(true);
}

async function throughProxy(
  options: Parameters<typeof impatientClient>[1] = {},
): Promise<{ proxy: TcpProxy; etcd: Etcd }> {
  const proxy = await startProxy(server.port);
  const etcd = impatientClient(proxy.endpoint, options);
  onTestFinished(async () => {
    await etcd.close();
    await proxy[Symbol.asyncDispose]();
  });
  return { proxy, etcd };
}

describe("a watch", () => {
  it("tells what is there, then what changes, deletions too", async () => {
    await writer.txn({ ops: [put("/plain/a", "1"), put("/plainer", "not under the prefix")] });
    const seen = record(writer, "/plain/");
    await seen.listed();
    expect(seen.snapshots[0]?.entries).toMatchObject([{ key: "/plain/a", value: "1" }]);
    const { revision } = await writer.txn({ ops: [put("/plain/b", "2"), del("/plain/a"), put("/plainer", "3")] });
    await until("both changes", () => seen.batches.length > 0);
    expect(seen.batches).toMatchObject([
      {
        revision,
        events: [
          { type: "put", entry: { value: "2" } },
          { type: "delete", key: "/plain/a" },
        ],
      },
    ]);
  });

  it("tells nothing more after it was stopped, and others go on", async () => {
    const one = record(writer, "/same/");
    const other = record(writer, "/same/");
    await Promise.all([one.listed(), other.listed()]);
    await one.close();
    await writer.txn({ ops: [put("/same/a")] });
    await until("the other sees it", () => other.batches.length === 1);
    expect(one.batches).toEqual([]);
  });

  it("gives a consumer that failed a new snapshot", async () => {
    const snapshots: string[][] = [];
    const stop = new AbortController();
    onTestFinished(() => stop.abort());
    void listWatch(writer, "/fails/", {
      onSnapshot: (entries) => void snapshots.push(entries.map(({ key }) => key)),
      onEvents: () => {
        throw new Error("cannot take it");
      },
      signal: stop.signal,
    });
    await until("the first snapshot", () => snapshots.length === 1);
    await writer.txn({ ops: [put("/fails/a")] });
    await until("another snapshot", () => snapshots.length === 2);
    expect(snapshots).toEqual([[], ["/fails/a"]]);
  });
});

describe("over a connection that is cut, nothing is lost or told twice", () => {
  it.each([
    { when: "at the watch-created frame", frame: 1, into: 0 },
    { when: "within the watch-created frame", frame: 1, into: 7 },
    { when: "right after the watch-created frame", frame: 1, into: Number.POSITIVE_INFINITY },
    { when: "within the first event", frame: 2, into: 11 },
    { when: "right after the first event", frame: 2, into: Number.POSITIVE_INFINITY },
  ])("when the cut is $when", async ({ when, ...point }) => {
    const prefix = `/cut/${when}/`;
    const { proxy, etcd } = await throughProxy();
    const seen = record(etcd, prefix);
    await seen.listed();
    // What is written during the outage comes as a replay, cut at the chosen frame of the new stream.
    proxy.refuse();
    for (let round = 0; round < 3; round++) await writer.txn({ ops: [put(`${prefix}${round}`), put(`${prefix}x`)] });
    proxy.cutAt(point);
    proxy.heal();
    await until("the cut", () => proxy.cuts === 1);
    await expectNothingLostOrRepeated(prefix, seen);
  });

  it("over 30 cuts at random bytes, while writers go on", async () => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    const random = randomFrom(seed);
    const { proxy, etcd } = await throughProxy();
    const seen = record(etcd, "/random/");
    await seen.listed();
    const cutting = (async () => {
      while (proxy.cuts < 30) {
        const before = proxy.cuts;
        proxy.cutAt({ bytes: Math.floor(random() ** 2 * 12_000) });
        await until("the next cut", () => proxy.cuts > before);
      }
    })();
    // Little is written ahead of the watch, so that some of it arrives between two cuts.
    const finished = () => proxy.cuts >= 30;
    while (!finished()) {
      const revision = await writeSome("/random/", random, 10);
      await until("the watch follows", () => finished() || (seen.batches.at(-1)?.revision ?? 0n) >= revision);
    }
    await cutting;
    expect(seen.batches.length).toBeGreaterThan(30);
    await expectNothingLostOrRepeated("/random/", seen).catch((error: unknown) => {
      throw new Error(`with seed ${seed}`, { cause: error });
    });
  });

  it("when the replay is so large that it comes in parts", async () => {
    const { proxy, etcd } = await throughProxy();
    const seen = record(etcd, "/parts/");
    await seen.listed();
    proxy.refuse();
    const value = "x".repeat(60_000);
    for (let round = 0; round < 20; round++) {
      await writer.txn({ ops: ["a", "b", "c", "d"].map((key) => put(`/parts/${key}`, value)) });
    }
    proxy.cutAt({ bytes: 2_000_000 });
    proxy.heal();
    await until("the cut", () => proxy.cuts === 1);
    await expectNothingLostOrRepeated("/parts/", seen);
  });
});

describe("a watch over a server that is silent", () => {
  it.each([
    { noticing: "pings", timings: { pingIntervalMs: 200, pingTimeoutMs: 200, watchSilenceMs: 60_000 } },
    { noticing: "the watch's own silence", timings: { pingIntervalMs: 60_000, watchSilenceMs: 600 } },
  ])("is opened again when $noticing tells of a black hole, and catches up once healed", async ({ timings }) => {
    const prefix = `/hole/${timings.pingIntervalMs}/`;
    const { proxy, etcd } = await throughProxy({ timings });
    const seen = record(etcd, prefix);
    await seen.listed();
    const before = proxy.open;
    proxy.blackHole();
    await writeSome(prefix, randomFrom(2), 20);
    await until("another connection", () => proxy.open > before);
    proxy.heal();
    await expectNothingLostOrRepeated(prefix, seen);
  });

  it("survives a frozen server", async () => {
    const seen = record(clientUntilEnd(), "/frozen/");
    await seen.listed();
    await using impatient = impatientClient(server.endpoint, { timings: { callTimeoutMs: 500, watchSilenceMs: 500 } });
    server.freeze();
    try {
      await expect(impatient.get("/")).rejects.toMatchObject({ code: "TIMEOUT" });
    } finally {
      server.thaw();
    }
    await until("etcd answers", () => writer.txn({ ops: [put("/frozen/a")] }).catch(() => null));
    await expectNothingLostOrRepeated("/frozen/", seen);
  });

  it("survives the death and restart of the server", async () => {
    const seen = record(clientUntilEnd(), "/dead/");
    await seen.listed();
    await writer.txn({ ops: [put("/dead/before")] });
    await server.kill();
    await server.start();
    await until("etcd answers", () => writer.txn({ ops: [put("/dead/after")] }).catch(() => null));
    await expectNothingLostOrRepeated("/dead/", seen);
  });

  it("moves on to another endpoint", async () => {
    await using first = await startProxy(server.port);
    await using second = await startProxy(server.port);
    await using etcd = impatientClient([first.endpoint, second.endpoint]);
    const seen = record(etcd, "/move/");
    await seen.listed();
    first.blackHole();
    await writer.txn({ ops: [put("/move/a")] });
    await until("the event through the other", () => seen.batches.length === 1);
    expect(second.open).toBe(1);
    await expectNothingLostOrRepeated("/move/", seen);
  });
});

describe("when the history was compacted during an outage", () => {
  const compact = async (revision: bigint) => {
    const { kv } = writer.connection.member();
    await new Promise<void>((resolve, reject) => {
      kv.compact({ revision }, requireLeader, {}, (error) => (error ? reject(error) : resolve()));
    });
  };

  /** Waits until a watch that starts now was notified `count` times: older ones were too, about as often. */
  const progressNotifications = async (count: number) => {
    const call = writer.connection.member().watch.watch(requireLeader);
    let notified = 0;
    call.on("error", () => {});
    call.on("data", ({ created }) => {
      if (!created) notified += 1;
    });
    const key = Buffer.from("/nothing");
    call.write({ requestUnion: { case: "createRequest", value: { key, progressNotify: true } } });
    await until("progress notifications", () => notified >= count);
    call.cancel();
  };

  it("the consumer gets a new snapshot and the events after it", async () => {
    const { proxy, etcd } = await throughProxy();
    await writer.txn({ ops: [put("/compact/a", "1"), put("/compact/b", "1")] });
    const seen = record(etcd, "/compact/");
    await seen.listed();
    proxy.refuse();
    await writer.txn({ ops: [put("/compact/a", "2")] });
    const { revision } = await writer.txn({ ops: [del("/compact/b")] });
    await compact(revision);
    proxy.heal();
    await until("the second snapshot", () => seen.snapshots.length === 2);
    expect(seen.snapshots[1]).toMatchObject({ revision, entries: [{ key: "/compact/a", value: "2" }] });
    expect(seen.batches).toEqual([]);
    await writer.txn({ ops: [put("/compact/c")] });
    await until("the event", () => seen.batches.length === 1);
  });

  it("progress notifications spare an idle watch the new snapshot", async () => {
    const { proxy, etcd } = await throughProxy();
    const seen = record(etcd, "/idle/");
    await seen.listed();
    const revision = await writeSome("/elsewhere/", randomFrom(3), 5);
    await progressNotifications(3);
    await compact(revision);
    proxy.cut();
    await writer.txn({ ops: [put("/idle/a")] });
    await until("the event", () => seen.batches.length === 1);
    expect(seen.snapshots).toHaveLength(1);
  });
});

function clientUntilEnd(): Etcd {
  const etcd = impatientClient(server.endpoint);
  onTestFinished(() => etcd.close());
  return etcd;
}
