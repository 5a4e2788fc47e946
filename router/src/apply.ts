import type { Route, RouteTable } from "@svc/proto/edge";
import { type Clock, every, type Timer } from "@svc/runtime/clock";
import type { BundleFetcher } from "./bundles/fetcher.ts";
import type { Predecessors } from "./bundles/predecessors.ts";
import type { BundleStore } from "./bundles/store.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { bundleName, targetName, type Wicket } from "./names.ts";
import type { Gates } from "./password/gates.ts";
import { machineOf, withoutSilent } from "./reach/rules.ts";
import { type Servable, servable } from "./servable.ts";
import { decide, emptyTable, type Table, tableText } from "./table.ts";
import type { TableFeed } from "./table-feed.ts";
import { digestOf, type TableStore } from "./table-store.ts";
import type { NameTree } from "./tree.ts";

/** What is served, as control wants to know it. */
export interface AppliedState {
  clusterEpoch: bigint;
  /** Of the table in force; 0 when it is not known as a whole. */
  generation: bigint;
  /** sha256 of the table in force, hex. */
  digest: string;
  /** `<host>: <why>; …` for hosts whose route cannot be served; empty when there are none. */
  error: string;
  /** Hosts that keep an older route, those included whose files are coming; at most as many as control wants to hear of. */
  behindHosts: string[];
  /** How many hosts wait for files that may be there soon. */
  coming: number;
  /** Only a complete table helps. */
  resync: boolean;
}

/** Turns tables into what Caddy serves. */
export interface Applier extends AsyncDisposable {
  /** Routes in force, by host. */
  routes(): ReadonlyMap<string, Route>;
  state(): AppliedState;
  /** Accepts or refuses a table. Work starts at once; `onApplied` hears of every outcome. */
  submit(message: RouteTable): void;
  /** Something that routes wait for may have changed. */
  poke(): void;
  /** Sends visitors past these machines, where others serve the same, from now on. */
  avoid(silent: ReadonlySet<string>): void;
}

export interface ApplierDeps {
  store: TableStore;
  tree: NameTree;
  feed: Pick<TableFeed, "tell">;
  bundles: BundleStore;
  predecessors: Predecessors;
  gates: Pick<Gates, "use">;
  /** Called before routes that lead to entrances are in force; resolves when Caddy can follow them, or not soon. */
  openEntrances(): Promise<void>;
  /** Receives the function to call when the state of a bundle changed. */
  createFetcher(onChange: () => void): BundleFetcher;
  onApplied(state: AppliedState): void;
  metrics?: Pick<Metrics, "applySeconds" | "applyErrors" | "tablesRefused"> | undefined;
  clock: Clock;
  log: Log;
}

const retryAfterMs = 5000;
const collectEveryMs = 10 * 60_000;
const problemsTold = 20;
const behindToldMax = 1000;

/**
 * Serves the last good table before it returns, without asking anybody; then every table submitted. A route
 * that cannot be served leaves its host as it was, and the others go on.
 *
 * Visitors come first: a change is in force before it is on disk, so that a slow disk delays no failover.
 * It is reported after that. What was not reported may be gone after a crash, and what it replaced is then
 * still there, because control takes nothing away before the report.
 */
export async function startApplier(deps: ApplierDeps): Promise<Applier> {
  const { store, tree, feed, bundles, predecessors, gates, onApplied, metrics, clock, log } = deps;
  const kept = await store.load();
  let target: Table = kept?.table ?? emptyTable;
  let whole = kept?.whole ?? true;
  const served = new Map<string, Route>();
  let state: AppliedState = {
    clusterEpoch: 0n,
    generation: 0n,
    digest: "",
    error: "",
    behindHosts: [],
    coming: 0,
    resync: false,
  };
  /** Hosts that may not be served as the target wants. */
  const behind = new Set<string>();
  /** Whether bundles are to be looked at although no route changed: time alone makes some useless. */
  let collectDue = false;
  /** Machines that do not answer this one. */
  let silent: ReadonlySet<string> = new Set();
  /** Hosts that may have to go past other machines than they do. */
  const toRedirect = new Set<string>();
  /** Hosts whose route may be another than on disk. */
  const unsaved = new Set<string>();

  async function serveTarget(): Promise<void> {
    // Together: a whole table may come for one that was not, while this one is put in force.
    const [aim, isWhole] = [target, whole];
    const now = servable(aim.routes, behind, served, fetcher.state);
    for (const host of toRedirect) {
      const route = served.get(host);
      if (route !== undefined && !now.routes.has(host)) now.routes.set(host, route);
    }
    toRedirect.clear();
    fetcher.want(now.bundles);
    if ([...now.routes.values()].some(leadsToEntrance)) await deps.openEntrances();
    // Whatever fails before that is done, it is done by the next round.
    collectDue = (await putInForce(now)) || collectDue;
    await tree.markReady();
    const complete = isWhole && now.problems.size === 0 && now.coming.length === 0;
    await store.save({ table: { ...aim, routes: served }, whole: complete }, unsaved);
    unsaved.clear();
    state = {
      clusterEpoch: aim.clusterEpoch,
      generation: isWhole ? aim.generation : 0n,
      digest: digestOf(tableText(served)),
      error: problemText(now.problems),
      behindHosts: [...now.problems.keys(), ...now.coming].slice(0, behindToldMax),
      coming: now.coming.length,
      resync: false,
    };
    if (collectDue) {
      const nowMs = clock.now().getTime();
      await predecessors.settle(nowMs);
      const routes = [...served.values(), ...target.routes.values()];
      const projects = whole ? new Set(routes.map(({ projectId }) => projectId)) : null;
      await bundles.collect(bundleUses(routes), projects, nowMs, predecessors.bundles());
      collectDue = false;
    }
  }

  /** Whether the gates know what is used: what an earlier process left may be in use no more. */
  let gatesRead = false;
  const gateOf = (each: Route | string): string =>
    (typeof each === "string" ? served.get(each)?.gate : each.gate) ?? "";

  /** Changes the tree and takes over what succeeded. Returns whether a bundle came or went. */
  async function putInForce(now: Servable): Promise<boolean> {
    const names = new Map<string, string>();
    for (const [host, route] of now.routes) {
      const named = route && targetName(withoutSilent(route, silent), bundles.hasRules);
      if (named && "name" in named) names.set(host, named.name);
    }
    const coming = [...now.routes.values()].filter((route) => route !== null);
    const guarded = !gatesRead || [...coming, ...now.routes.keys()].some((each) => gateOf(each) !== "");
    // The cookies of a gate are there before its hosts name it, and as long as one does.
    if (guarded) gates.use(wicketsOf([...served.values(), ...coming]));
    const failures = tree.serve([...now.routes.keys()], names);
    // Before anything counts as served: what this fails for is done again.
    try {
      if (now.routes.size > 0) await feed.tell(now.routes.keys());
    } catch (cause) {
      for (const host of now.routes.keys()) toRedirect.add(host);
      throw cause;
    }
    let bundlesChanged = false;
    for (const [host, route] of now.routes) {
      const problem = failures.get(host);
      if (problem !== undefined) {
        now.problems.set(host, problem);
        continue;
      }
      predecessors.replaced(host, served.get(host), route, clock.now().getTime());
      bundlesChanged ||= route?.target.case === "static" || served.get(host)?.target.case === "static";
      if (route === null) served.delete(host);
      else served.set(host, route);
      // A newer table may want something else by now.
      if (target.routes.get(host) === (route ?? undefined)) behind.delete(host);
      unsaved.add(host);
    }
    if (guarded) gates.use(wicketsOf(served.values()));
    gatesRead = true;
    if (failures.size > 0) rounds.soon();
    // It may be one that only was to go past a machine: nothing else remembers that.
    for (const host of failures.keys()) toRedirect.add(host);
    return bundlesChanged;
  }

  const rounds = createRounds(clock, async () => {
    const { generation } = target;
    const startedAtMs = clock.steadyMs();
    try {
      await serveTarget();
      metrics?.applySeconds.observe((clock.steadyMs() - startedAtMs) / 1000);
      log.debug({ generation: String(generation), hosts: served.size, error: state.error }, "table applied");
      onApplied(state);
    } catch (err) {
      metrics?.applyErrors.inc();
      log.error({ generation: String(generation), err }, "table not applied");
      onApplied({ ...state, error: "the edge could not keep the table" });
      rounds.soon();
    }
  });
  const fetcher = deps.createFetcher(rounds.poke);
  const collecting = every(clock, collectEveryMs, () => {
    collectDue = true;
    rounds.poke();
  });
  // The tree may hold anything that an earlier process left. Without a kept table it stays until there is one.
  for (const host of [...tree.hosts(), ...target.routes.keys()]) behind.add(host);
  if (kept !== null) await rounds.run();

  return {
    routes: () => served,
    state: () => state,
    poke: rounds.poke,
    avoid(machines) {
      const changed = new Set([...machines, ...silent].filter((each) => machines.has(each) !== silent.has(each)));
      silent = machines;
      for (const [host, { target }] of served) {
        if (target.case === "proxy" && target.value.upstreams.some((upstream) => changed.has(machineOf(upstream))))
          toRedirect.add(host);
      }
      if (toRedirect.size > 0) rounds.poke();
    },
    submit(message) {
      const decision = decide(target, whole, message);
      if ("refuse" in decision) {
        metrics?.tablesRefused.inc();
        log.warn({ generation: String(message.generation), reason: decision.refuse }, "table refused");
        onApplied({ ...state, error: decision.refuse, resync: decision.resync });
        return;
      }
      for (const host of decision.changed) behind.add(host);
      const from = String(target.generation);
      target = decision.accept;
      whole = true;
      log.info({ from, to: String(target.generation), hosts: target.routes.size }, "table accepted");
      rounds.poke();
    },
    async [Symbol.asyncDispose]() {
      collecting[Symbol.dispose]();
      await rounds[Symbol.asyncDispose]();
      await fetcher[Symbol.asyncDispose]();
    },
  };
}

const leadsToEntrance = (route: Route | null): boolean =>
  route?.target.case === "proxy" && route.target.value.entrances.length > 0;

const wicketsOf = (routes: Iterable<Route>): Wicket[] =>
  [...routes].flatMap(({ gate, channel }) => (gate === "" ? [] : [{ revision: gate, channel }]));

function problemText(problems: ReadonlyMap<string, string>): string {
  const told = [...problems].slice(0, problemsTold).map(([host, problem]) => `${host}: ${problem}`);
  const untold = problems.size - told.length;
  return [...told, ...(untold > 0 ? [`and ${untold} more`] : [])].join("; ");
}

/** Which projects need which bundle. */
function bundleUses(routes: readonly Route[]): Map<string, Set<string>> {
  const uses = new Map<string, Set<string>>();
  for (const { target, projectId } of routes) {
    const name = target.case === "static" ? bundleName(target.value.digest) : null;
    if (name !== null) uses.set(name, (uses.get(name) ?? new Set()).add(projectId));
  }
  return uses;
}

interface Rounds extends AsyncDisposable {
  /** Asks for a round that begins after now. */
  poke(): void;
  /** Asks for one in a while, because the last failed. */
  soon(): void;
  /** One round, to its end. */
  run(): Promise<void>;
}

/** Runs `round` one at a time; asked during one, once more after it. */
function createRounds(clock: Clock, round: () => Promise<void>): Rounds {
  let running: Promise<void> | null = null;
  let asked = false;
  let closed = false;
  let timer: Timer | undefined;

  const run = async (): Promise<void> => {
    asked = true;
    running ??= (async () => {
      while (asked && !closed) {
        asked = false;
        await round();
      }
    })().finally(() => {
      running = null;
    });
    await running;
  };
  const poke = (): void => {
    if (!closed) run().catch(() => {});
  };
  return {
    run,
    poke,
    soon() {
      timer?.[Symbol.dispose]();
      if (!closed) timer = clock.after(retryAfterMs, poke);
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      timer?.[Symbol.dispose]();
      await running;
    },
  };
}
