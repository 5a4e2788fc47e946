import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { campaign, type Etcd, type Leadership, LeadershipLost, UnknownOutcome } from "./index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "./testing.ts";
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

const ttlMs = 2_000;
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
async function stand(key: string, id: string, terms: Term[]): Promise<Candidate> {
  const proxy = await startProxy(server.port);
  const etcd = testClient(proxy.endpoint);
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
const nextTerm = (terms: Term[], after: number) => until("the next leader", () => terms[after], 15_000);

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
  const one = await stand("/first/leader", "one", terms);
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
  await stand("/hand/leader", "one", terms);
  await nextTerm(terms, 0);
  await stand("/hand/leader", "two", terms);
  await until("the other waits", async () => (await observer.range("/hand/")).entries.length === 1);
  const first = terms[0];
  first?.resign();
  const second = await nextTerm(terms, 1);
  expect(second.fromMs - (first?.untilMs ?? 0)).toBeLessThan(1_000);
  expectOneAtATime(terms);
});

it("is lost when somebody deletes the key, and won again", async () => {
  const terms: Term[] = [];
  await stand("/deleted/leader", "one", terms);
  const { leadership } = await nextTerm(terms, 0);
  await observer.txn({ ops: [{ delete: { key: "/deleted/leader" } }] });
  await until("loss", () => leadership.signal.aborted);
  await expect(leadership.txn([put("/deleted/a", "")])).rejects.toBeInstanceOf(LeadershipLost);
  await nextTerm(terms, 1);
  expectOneAtATime(terms);
});

it("finds out that it won when the answer to its claim was lost", async () => {
  const terms: Term[] = [];
  const one = await stand("/claim/leader", "one", terms);
  // The candidate's view is silent until the key appears: the first frame after that is the answer or the event.
  const { leadership } = await nextTerm(terms, 0);
  one.proxy.refuse();
  await observer.txn({ ops: [{ delete: { key: "/claim/leader" } }] });
  await until("loss", () => leadership.signal.aborted);
  one.proxy.cutAt({ frame: 5, into: 0 });
  one.proxy.heal();
  await nextTerm(terms, 1);
  expectOneAtATime(terms);
  expect(one.proxy.cuts).toBe(1);
});

it("refuses to write right after the process stood still", async () => {
  const terms: Term[] = [];
  await stand("/stall/leader", "one", terms);
  const { leadership } = await nextTerm(terms, 0);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ttlMs + 100);
  // No timer has run since: only the clock can tell.
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
  const faults: ((candidate: Candidate, term: Term) => void)[] = [
    ({ proxy }) => proxy.blackHole(),
    ({ proxy }) => proxy.cut(),
    (_candidate, term) => term.resign(),
    ({ proxy }) => proxy.refuse(),
  ];
  for (const fault of faults) {
    const term = await until("a leader", () => present(terms), 15_000);
    const candidate = candidates.find(({ id }) => id === term.id);
    if (candidate === undefined) throw new Error("unknown leader");
    const count = terms.length;
    fault(candidate, term);
    if (fault !== faults[1]) await nextTerm(terms, count);
    candidate.proxy.heal();
    const leader = await until("a leader that can write", () => present(terms), 15_000);
    await until("a write", () =>
      leader.leadership.txn([put("/two/a", leader.id)]).catch(() => present(terms) !== leader),
    );
  }
  await server.kill();
  await server.start();
  const count = terms.length;
  await until("a leader after the restart", () => present(terms) && (terms.length > count || true), 15_000);
  expectOneAtATime(terms);
});
