import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { type ClaimedWork, workTopic } from "./queue.ts";
import { memoryStage, postgresStage, type Stage } from "./testing/stage.ts";
import { startWorkers } from "./worker.ts";

/* What workers may count on, of a queue in Postgres and of one in memory alike: the simulator believes the latter. */

const patience = { timeout: 20_000 };
const anHourMs = 3_600_000;

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("a queue in $store", ({ open }) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await open();
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());
  beforeEach(() => stage.clear());

  const add = (key: string, kind = "deploy", runAt?: Date) =>
    stage.add({ kind, key, payload: { of: key }, ...(runAt && { runAt }) });
  const claimAll = (owner: string, limit = 8, leaseMs = 60_000) =>
    stage.rows.claimAll({ kinds: ["deploy", "retire"], owner, leaseMs, limit });
  const claim = async (owner = "a", leaseMs = 60_000): Promise<ClaimedWork | null> =>
    (await claimAll(owner, 1, leaseMs))[0] ?? null;
  const mustClaim = async (owner = "a", leaseMs = 60_000): Promise<ClaimedWork> => {
    const item = await claim(owner, leaseMs);
    if (item === null) throw new Error("nothing is to be claimed");
    return item;
  };
  const idsOf = (items: readonly ClaimedWork[]) => items.map(({ id }) => id).sort((a, b) => a - b);

  test("items of one key run one after another, oldest first and of whatever kind; other keys do not wait", async () => {
    const [first, second, other] = [await add("p1"), await add("p1", "retire"), await add("p2")];
    const one = await mustClaim();
    expect(one).toMatchObject({ id: first, kind: "deploy", key: "p1", payload: { of: "p1" }, attempt: 1 });
    expect(one).toMatchObject({ maxAttempts: 20 });
    expect(one.ageMs).toBeGreaterThanOrEqual(0);
    expect((await claim())?.id).toBe(other);
    expect(await claim()).toBeNull();
    expect(await stage.rows.finish(one, "a", { state: "done" })).toBe(true);
    expect((await claim())?.id).toBe(second);
  });

  test("what waits for its time has its key wait with it", async () => {
    await add("p1", "deploy", new Date(Date.now() + anHourMs));
    await add("p1");
    expect(await claim()).toBeNull();
  });

  test("many are claimed at once: one of each key, the oldest first, and no more than asked for", async () => {
    const ids: number[] = [];
    for (const key of ["p1", "p1", "p2", "p3"]) ids.push(await add(key));
    expect(idsOf(await claimAll("a", 2))).toEqual([ids[0], ids[2]]);
    expect(idsOf(await claimAll("a"))).toEqual([ids[3]]);
    expect(await claimAll("a")).toEqual([]);
  });

  test("what was due first is first, whenever it was added", async () => {
    const later = await add("p1");
    const sooner = await add("p2", "deploy", new Date(Date.now() - anHourMs));
    expect((await claim())?.id).toBe(sooner);
    expect((await claim())?.id).toBe(later);
  });

  test.each([1, 8])("twenty workers that claim %i at once never share an item or a key", async (limit) => {
    for (let i = 0; i < 40; i += 1) await add(`p${i % 20}`);
    const claims = await Promise.all(Array.from({ length: 20 }, (_, i) => claimAll(`w${i}`, limit)));
    const items = claims.flat();
    expect(new Set(items.map(({ key }) => key)).size).toBe(items.length);
    expect(items.length).toBeGreaterThan(0);
  });

  test("leases of many are extended at once, and those that were lost are told", async () => {
    await add("p1");
    await add("p2");
    const lost = await mustClaim("a", -1);
    expect(await stage.rows.reap()).toBe(1);
    const [taken, kept] = [await mustClaim("b"), await mustClaim("a", 1)];
    expect(taken.id).toBe(lost.id);
    expect(await stage.rows.renewAll([lost, kept], "a", 60_000)).toEqual(new Set([kept.id]));
    expect(await stage.rows.renewAll([], "a", 60_000)).toEqual(new Set());
    expect(await stage.rows.reap()).toBe(0);
  });

  test("a dead worker's item goes to another, and the dead one can no longer finish it", async () => {
    await add("p1");
    const dead = await mustClaim("dead", -1);
    // Nobody else has it before somebody has looked.
    expect(await claim("alive")).toBeNull();
    expect(await stage.rows.reap()).toBe(1);
    const taken = await mustClaim("alive");
    expect(taken).toMatchObject({ id: dead.id, attempt: 2 });
    expect(await stage.rows.finish(dead, "dead", { state: "done" })).toBe(false);
    expect(await stage.rows.finish(taken, "alive", { state: "done" })).toBe(true);
    expect(await stage.rows.finish(taken, "alive", { state: "done" })).toBe(false);
  });

  test("one replica's own earlier attempt counts as another's", async () => {
    await add("p1");
    const first = await mustClaim("a", -1);
    await stage.rows.reap();
    await mustClaim("a");
    expect(await stage.rows.renewAll([first], "a", 60_000)).toEqual(new Set());
    expect(await stage.rows.finish(first, "a", { state: "done" })).toBe(false);
  });

  test("an item that is put off keeps its place, and only one that failed is counted", async () => {
    const id = await add("p1");
    await add("p1");
    const planned = await mustClaim();
    await stage.rows.finish(planned, "a", { retryAfterMs: 0, refund: true });
    const again = await mustClaim();
    expect(again).toMatchObject({ id, attempt: 1 });
    await stage.rows.finish(again, "a", { retryAfterMs: 0, error: "it went wrong" });
    const third = await mustClaim();
    expect(third).toMatchObject({ id, attempt: 2 });
    await stage.rows.finish(third, "a", { retryAfterMs: anHourMs, refund: true });
    expect(await claim()).toBeNull();
  });

  test.each([
    { outcome: { state: "done" } as const },
    { outcome: { state: "failed", error: "it cannot be done" } as const },
  ])("what is $outcome.state is over, and its key is free", async ({ outcome }) => {
    await add("p1");
    const item = await mustClaim();
    expect(await stage.hasOpen("p1")).toBe(true);
    await stage.rows.finish(item, "a", outcome);
    expect(await stage.hasOpen("p1")).toBe(false);
    expect(await claim()).toBeNull();
    expect(await stage.rows.reap()).toBe(0);
    const next = await add("p1");
    expect((await claim())?.id).toBe(next);
  });

  test("of what is due the kinds are known, whether or not its key is idle; not of what is to wait, or under way", async () => {
    const kindsOf = async () => [...(await stage.rows.listDueKinds(["deploy", "retire", "rename"]))].sort();
    await add("p1");
    await add("p1", "retire");
    await add("p1", "rename", new Date(Date.now() + anHourMs));
    await add("p1", "alert");
    expect(await kindsOf()).toEqual(["deploy", "retire"]);
    await claim();
    expect(await kindsOf()).toEqual(["retire"]);
  });

  test("an item of an unknown kind stays for a newer version that knows it", async () => {
    await add("p1", "of the future");
    expect(await claim()).toBeNull();
    expect(await stage.hasOpen("p1")).toBe(true);
  });

  test("whoever finishes work announces the kinds that wait for its key, and nothing where none does", async () => {
    const heard: string[] = [];
    using _heard = stage.listener.on(workTopic, (kind) => void heard.push(kind));
    const heardOf = async () => {
      await add("listening", "listening");
      return heard;
    };
    await expect.poll(heardOf, patience).toContain("listening");
    // Announcements come in the order of their commits.
    const heardUntil = async (kind: string) => {
      await add(kind, kind);
      await expect.poll(() => heard, patience).toContain(kind);
      return heard.splice(0);
    };
    await add("p1");
    await add("p1", "retire");
    await add("p2");
    const [first, other] = [await mustClaim(), await mustClaim()];
    await heardUntil("begun");
    for (const item of [other, first]) await stage.rows.finish(item, "a", { state: "done" });
    expect(await heardUntil("over")).toEqual(["retire", "over"]);
  });

  test("a replica that stops gives back what it has not finished, and that does not count as an attempt", async () => {
    const begun = Promise.withResolvers<void>();
    const { rows, listener } = stage;
    {
      await using _workers = startWorkers({
        clock: systemClock,
        ...{ rows, listener, log: createLog("silent"), owner: "stopping", leaseMs: 10_000 },
        groups: [
          {
            concurrency: 2,
            handlers: {
              deploy: (_item, signal) => {
                begun.resolve();
                return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
              },
            },
          },
        ],
      });
      await add("p1");
      await begun.promise;
      expect(await claim("other")).toBeNull();
    }
    expect(await mustClaim("other")).toMatchObject({ key: "p1", attempt: 1 });
  });
});
