import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { campaign, type Etcd, type Leadership, LeadershipLost, UnknownOutcome } from "./index.ts";
import { type EtcdServer, impatientClient, startEtcd, testClient, until } from "./testing.ts";
import { startProxy, type TcpProxy } from "./testing-proxy.ts";

let server: EtcdServer;
/** Past the proxies. */
let observer: Etcd;

beforeAll(async () => {
  server = await startEtcd();
  observer = testClient(server.endpoint);
});
afterAll(async () => {
  await observer.close();
  await server[Symbol.asyncDispose]();
});

const shortMs = 3_000;
/** Of leases that no test waits for: nobody loses one because the machine stands still. */
const longMs = 60_000;
const put = (key: string, value: string) => ({ put: { key, value } });
const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

interface Term {
  readonly id: string;
  readonly leadership: Leadership;
  readonly fromMs: number;
  untilMs: number;
  /** Gives the office up. */
  resign(): void;
}

interface Candidate {
  readonly id: string;
  readonly proxy: TcpProxy;
  readonly etcd: Etcd;
  stop(): Promise<void>;
}

/** A candidate with its own connection; every term of office is written down in `terms`. */
async function stand(key: string, id: string, terms: Term[], ttlMs = shortMs): Promise<Candidate> {
  const proxy = await startProxy(server.port);
  const etcd = impatientClient(proxy.endpoint);
  const stopping = new AbortController();
  const ended = campaign({
    etcd,
    key,
    id,
    ttlMs,
    signal: stopping.signal,
    async lead(leadership) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const term = { id, leadership, fromMs: performance.now(), untilMs: Number.POSITIVE_INFINITY, resign: resolve };
      terms.push(term);
      leadership.signal.addEventListener("abort", () => {
        term.untilMs = Math.min(term.untilMs, performance.now());
      });
      await Promise.race([promise, aborted(leadership.signal)]);
      term.untilMs = Math.min(term.untilMs, performance.now());
    },
  });
  const stop = async () => {
    stopping.abort();
    await ended;
  };
  onTestFinished(async () => {
    proxy.heal();
    await stop();
    await etcd.close();
    await proxy[Symbol.asyncDispose]();
  });
  return { id, proxy, etcd, stop };
}

const present = (terms: Term[]) => terms.findLast(({ untilMs }) => untilMs === Number.POSITIVE_INFINITY);
const nextTerm = (terms: Term[], after: number) => until("the next leader", () => terms[after]);

/** Waits until whoever leads can write: a leader that is about to be lost is followed by another one. */
const leaderWrites = (terms: Term[], key: string) =>
  until(
    "a leader that can write",
    async () => {
      const term = present(terms);
      const written = await term?.leadership.txn([put(key, term.id)]).catch(() => null);
      return written?.succeeded === true && term;
    },
    15_000,
  );

/** No two terms overlap and every later one has a higher epoch. */
function expectOneAtATime(terms: Term[]): void {
  for (const [index, term] of terms.entries()) {
    const before = terms[index - 1];
    if (before === undefined) continue;
    expect(term.fromMs).toBeGreaterThanOrEqual(before.untilMs);
    expect(term.leadership.epoch).toBeGreaterThan(before.leadership.epoch);
  }
}

it("leads under the create revision of its key, and writes while it leads", async () => {
  const terms: Term[] = [];
  const one = await stand("/first/leader", "one", terms, longMs);
  const { leadership } = await nextTerm(terms, 0);
  expect(await observer.get("/first/leader")).toMatchObject({ value: "one", createRevision: leadership.epoch });
  expect(await leadership.txn([put("/first/a", "1")])).toMatchObject({ succeeded: true });
  const refused = await leadership.txn([put("/first/a", "2")], [{ key: "/first/a", compare: "absent" }]);
  expect(refused).toMatchObject({ succeeded: false, reads: [] });
  expect(leadership.signal.aborted).toBe(false);
  await one.stop();
  expect(leadership.signal.aborted).toBe(true);
  await expect(leadership.txn([put("/first/a", "3")])).rejects.toBeInstanceOf(LeadershipLost);
  expect(await observer.get("/first/a")).toMatchObject({ value: "1" });
});

it("hands over at once when the leader resigns or stops", async () => {
  const terms: Term[] = [];
  await stand("/hand/leader", "one", terms, longMs);
  await nextTerm(terms, 0);
  await stand("/hand/leader", "two", terms, longMs);
  await until("the other waits", async () => (await observer.range("/hand/")).entries.length === 1);
  terms[0]?.resign();
  // Long before the lease would have been over.
  await nextTerm(terms, 1);
  expectOneAtATime(terms);
});

it("is lost when somebody deletes the key, and won again", async () => {
  const terms: Term[] = [];
  await stand("/deleted/leader", "one", terms, longMs);
  const { leadership } = await nextTerm(terms, 0);
  await observer.txn({ ops: [{ delete: { key: "/deleted/leader" } }] });
  await until("loss", () => leadership.signal.aborted);
  await expect(leadership.txn([put("/deleted/a", "")])).rejects.toBeInstanceOf(LeadershipLost);
  await nextTerm(terms, 1);
  expectOneAtATime(terms);
});

it("leads again wherever the connection was cut between the loss and the next claim", async () => {
  // Frame by frame: the event of the deletion, the revoked lease, the new lease, the claim, its event.
  const frames = Array.from({ length: 14 }, (_, frame) => frame);
  const rounds = frames.map(async (frame) => {
    const key = `/claim/${frame}`;
    const terms: Term[] = [];
    const { proxy } = await stand(key, "one", terms);
    const { leadership } = await nextTerm(terms, 0);
    proxy.cutAt({ frame, into: 3 });
    await observer.txn({ ops: [{ delete: { key } }] });
    await until("loss", () => leadership.signal.aborted);
    await nextTerm(terms, 1);
    await until("the cut", () => proxy.cuts === 1);
    await leaderWrites(terms, `${key}/a`);
    expectOneAtATime(terms);
  });
  await Promise.all(rounds);
});

it("refuses to write right after the process stood still", async () => {
  const terms: Term[] = [];
  await stand("/stall/leader", "one", terms);
  const { leadership } = await nextTerm(terms, 0);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, shortMs + 100);
  // No timer has run since: only the clock can tell.
  expect(leadership.isHeld()).toBe(false);
  const written = leadership.txn([put("/stall/a", "")]);
  await expect(written).rejects.toBeInstanceOf(LeadershipLost);
  expect(await observer.get("/stall/a")).toBeNull();
});

it("a write that was held up until another leads changes nothing", async () => {
  const terms: Term[] = [];
  const one = await stand("/late/leader", "one", terms);
  const { leadership } = await nextTerm(terms, 0);
  const two = await stand("/late/leader", "two", terms);
  one.proxy.blackHole();
  const late = leadership.txn([put("/late/a", "late")]);
  const outcome = late.then(
    () => "applied",
    (error: unknown) =>
      error instanceof UnknownOutcome || error instanceof LeadershipLost ? "refused" : String(error),
  );
  const second = await nextTerm(terms, 1);
  expect(second.id).toBe(two.id);
  await second.leadership.txn([put("/late/b", "in time")]);
  one.proxy.heal();
  expect(await outcome).toBe("refused");
  await until("the first candidate is back", () => one.etcd.get("/late/b").catch(() => null));
  expect(await observer.get("/late/a")).toBeNull();
  expectOneAtATime(terms);
});

it("two candidates never lead at once, whatever happens to their connections", async () => {
  const terms: Term[] = [];
  const candidates = [await stand("/two/leader", "one", terms), await stand("/two/leader", "two", terms)];
  const faults: ((proxy: TcpProxy, term: Term) => void)[] = [
    (proxy) => proxy.blackHole(),
    (_proxy, term) => term.resign(),
    (proxy) => proxy.refuse(),
  ];
  for (const fault of faults) {
    const term = await leaderWrites(terms, "/two/a");
    const { proxy } = candidates.find(({ id }) => id === term.id) ?? {};
    if (proxy === undefined) throw new Error("unknown leader");
    const count = terms.length;
    fault(proxy, term);
    await nextTerm(terms, count);
    proxy.heal();
  }
  // A short cut costs nobody the office.
  const kept = await leaderWrites(terms, "/two/a");
  for (const { proxy } of candidates) proxy.cut();
  expect(await leaderWrites(terms, "/two/a")).toBe(kept);
  await server.kill();
  await server.start();
  await leaderWrites(terms, "/two/a");
  expectOneAtATime(terms);
});
