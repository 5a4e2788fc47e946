import type { EdgeState, Route } from "@svc/proto/edge";
import { type AppliedState, type Applier, startApplier } from "@svc/router/apply";
import { keepConfigured } from "@svc/router/caddy";
import { openControlLink } from "@svc/router/control-link";
import { targetName } from "@svc/router/names";
import { openRotation, type Rotation } from "@svc/router/rotation/rotation";
import { createStanding, type Standing } from "@svc/router/rotation/standing";
import { emptyTable, type Table } from "@svc/router/table";
import { createTableFeed } from "@svc/router/table-feed";
import { createTableStore, type TableStore } from "@svc/router/table-store";
import { openTree } from "@svc/router/tree";
import { createWatch, type Watch } from "@svc/router/watch";
import { createWake } from "@svc/runtime/wake";
import { FencedError, type Identity } from "@svc/uplink";
import type { Process } from "../kernel/kernel.ts";
import { enter, virtualClock, virtualRandom } from "../kernel/ports.ts";
import type { World } from "../world/world.ts";
import { Caddy } from "./caddy.ts";
import type { Message } from "./connection.ts";
import { virtualLog } from "./log.ts";
import { TableDisk } from "./table-disk.ts";
import { urlOf, virtualTransport } from "./uplink.ts";

/** How soon what runs the router starts it again. */
const startsAgainMs = 2_000;

/** How long its health says that it leaves before anything is closed. */
const leaveMs = 10_000;

/** Lasts longer than any world, so nobody renews it; there is no key to it. */
const certificatePem = `-----BEGIN CERTIFICATE-----
MIIBDTCBtaADAgECAgEBMAoGCCqGSM49BAMCMA8xDTALBgNVBAMTBGVkZ2UwHhcN
MjUxMjMxMDAwMDAwWhcNNDYwMTAxMDAwMDAwWjAPMQ0wCwYDVQQDEwRlZGdlMFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEXN02VwmsVrMhi3czpzjFhNY7G3JUxKLO
QBA3yABzUwRU38EKVPtE/nECx2E7L43uh8lCVmAqY4s2PqodlLS8HqMCMAAwCgYI
KoZIzj0EAwIDRwAwRAIgWLPP9tCHGxsnYXnXGlNEsazEWCD0CZklyuA+gxICl38C
IB9TLiWRwZzpp3sKpKOLioaPFo0Lh+zMyWx62U/L2+M9
-----END CERTIFICATE-----
`;

/** How long the longest of what is open goes on: not at all, like requests, like downloads, or like a stream without an end. */
const openForMs = ({ random }: Process): number =>
  random.pick([0, random.between(0, 5_000), random.between(0, 90_000), Number.POSITIVE_INFINITY]);

/**
 * One machine with a router and its Caddy. What the router does is the product's, from the session to the file of the table and to
 * what Caddy is told: here are only its ports.
 */
export class EdgeMachine {
  readonly process: Process;
  readonly caddy: Caddy;
  readonly disk: TableDisk;
  /** The part of its disk that says whether visitors are to come. */
  readonly placeDisk: TableDisk;
  isOff = false;
  resyncs = 0;
  private boots = 1;
  private applier: Applier | null = null;
  private rotation: Rotation | null = null;
  private standing: Standing | null = null;
  private isFenced = false;
  /** The newest table that control was told of as being served. */
  private reported: Table = emptyTable;

  readonly world: World;
  readonly id: string;

  constructor(world: World, id: string, clock: { drift: number; wallOffsetMs: number }) {
    this.world = world;
    this.id = id;
    this.process = world.newProcess(id, clock);
    this.process.alive = false;
    this.process.onUncaught = (error) => {
      world.checks.onUncaught(id, error);
      this.end(error);
    };
    // What is open stays where it is, in Caddy, which outlives the router.
    this.caddy = new Caddy(world.kernel, id, (upstream) => world.leaveOpen(upstream, openForMs(this.process)));
    this.disk = new TableDisk(world.kernel, this.process);
    this.placeDisk = new TableDisk(world.kernel, this.process);
  }

  /** What the router knows that visitors are served. */
  get routes(): ReadonlyMap<string, Route> {
    return this.applier?.routes() ?? new Map();
  }

  /** Whether whoever asks for its health sends visitors. */
  get isReady(): boolean {
    return this.process.alive && this.standing?.unready() === "";
  }

  /** Whether it sends its visitors away, or has. */
  get isLeaving(): boolean {
    return this.rotation !== null && this.rotation.phase() !== "serving";
  }

  get generation(): bigint {
    return this.applier?.state().generation ?? 0n;
  }

  start(): void {
    const { process } = this;
    if (process.alive || this.isOff) return;
    process.start();
    const { life } = process;
    this.applier = this.rotation = this.standing = null;
    enter(process, () => {
      this.live().catch((error: unknown) => {
        if (process.alive && process.life === life) this.end(error);
      });
    });
  }

  /** Everything that the router does in one life; see `router/src/{edge,start}.ts`. */
  private async live(): Promise<void> {
    const { world, process, caddy, id } = this;
    const { scope } = process;
    const clock = virtualClock(process);
    const random = virtualRandom(process);
    const log = virtualLog(process);
    const { signal } = new AbortController();
    const tree = openTree(clock, caddy.treeFiles(), "/immutable", log);
    let watch: Watch | null = null;
    const applier = await startApplier({
      ...{ clock, log, tree },
      store: this.watched(createTableStore(this.disk.open(scope), log)),
      feed: createTableFeed(clock, caddy.module(scope), tree, log),
      // This world has no sites of files, no passwords and no entrances.
      bundles: {
        ...{ immutablesDir: "/immutable", has: () => false, hasRules: () => false },
        ...{ add: async () => {}, collect: async () => {} },
      },
      predecessors: { replaced() {}, settle: async () => {}, bundles: () => new Set() },
      gates: { use() {} },
      openEntrances: async () => {},
      createFetcher: () => ({ state: () => "coming", want() {}, [Symbol.asyncDispose]: async () => {} }),
      onApplied: (state) => {
        this.checkServed(state);
        watch?.report(state);
        world.onTableKept(this);
      },
    });
    this.applier = applier;
    const configure = createWake(clock);
    const rotation = await openRotation({
      ...{ file: this.placeDisk.open(scope), waitMs: leaveMs, onChange: configure.signal, clock, log },
    });
    this.rotation = rotation;
    let isConfigured = false;
    const standing = createStanding({
      ...{ rotation, applier, gates: { missing: () => 0 }, certificates: { problem: () => null }, wantsSalts: false },
      ...{ isCaddyConfigured: () => isConfigured, clock },
    });
    this.standing = standing;
    void keepConfigured({
      ...{ admin: caddy.admin(clock, scope), wake: configure, signal, log },
      isClosing: rotation.isClosing,
      render: async (closing) => ({ closing }),
      revision: () => "",
      onConfigured(closing) {
        rotation.configured(closing);
        isConfigured = true;
      },
      onUnreachable() {
        isConfigured = false;
      },
    });
    // Its identity is forgotten: it serves what it has, and waits for a token.
    if (this.isFenced) return;
    const link = openControlLink({
      ...{ clock, random, dir: "/var/lib/svc-edge/identity", log },
      identity: { ...({ id, name: id, role: "edge" } as Identity), certificatePem },
      linkUrls: world.replicas.map(({ name }) => urlOf(name)),
      onIdentity() {},
      connect: (_clock, _identity, endpoints) => ({
        transport: virtualTransport(scope, world, endpoints, {
          open: (replica, on) => world.connectEdge(this, replica, on),
          sent: (message) => this.sent(message),
          received() {},
        }),
        close() {},
      }),
    });
    watch = createWatch({
      ...{ endpoints: link.endpoints, transport: link.transport, renewal: link.renewal, applier, clock, random, log },
      ...{ address: `${id}.test`, version: "0", bootId: `${id}-boot${this.boots}` },
      gates: { learn: async () => {} },
      standing,
      certificates: { learn: async () => "" },
      challenges: { learn: async () => [] },
      traffic: { open() {}, acknowledged() {}, closed() {} },
      onRegistry() {},
    });
    try {
      await watch.follow(signal);
    } catch (cause) {
      if (!(cause instanceof FencedError)) throw cause;
      this.isFenced = true;
    }
  }

  /** What the router says to control, with what that knows of it by its certificate. */
  private sent({ case: kind, value }: Message): Message {
    const { checks } = this.world;
    if (kind === "hello") {
      const hello = value as { clusterEpoch: bigint; generation: bigint };
      this.tells(hello.clusterEpoch, hello.generation);
      return { case: kind, value: { ...hello, edgeId: this.id } };
    }
    if (kind === "applied") {
      const { generation, error, resync } = value as { generation: bigint; error: string; resync: boolean };
      if (resync) this.resyncs += 1;
      if (error !== "") this.world.kernel.note(() => `${this.id}: ${error}`);
      this.tells(this.applier?.state().clusterEpoch ?? 0n, generation);
      checks.edges.onServed(this.id, generation);
    }
    if (kind === "edgeState") checks.edges.onStanding(this, value as EdgeState);
    return { case: kind, value };
  }

  private tells(clusterEpoch: bigint, generation: bigint): void {
    const told = { ...emptyTable, clusterEpoch, generation };
    if (isOlder(this.reported, told)) this.reported = told;
  }

  /** A store of tables that the checks look at. */
  private watched(store: TableStore): TableStore {
    const { checks } = this.world;
    let before = emptyTable;
    return {
      ...store,
      load: async () => {
        const kept = await store.load();
        before = kept?.table ?? emptyTable;
        if (isOlder(before, this.reported)) checks.edges.onTableLost(this.id, before, this.reported);
        return kept;
      },
      save: async (kept, changed) => {
        if (isOlder(kept.table, before)) checks.edges.onTableBack(this.id, before, kept.table);
        before = kept.table;
        await store.save(kept, changed);
      },
    };
  }

  /** What is told without a word of failure is what visitors are served. */
  private checkServed({ error, generation }: AppliedState): void {
    const { caddy, applier, world } = this;
    if (error !== "" || applier === null) return;
    const routes = applier.routes();
    for (const host of new Set([...routes.keys(), ...caddy.hosts()])) {
      const route = routes.get(host);
      const named = route === undefined ? null : targetName(route);
      const wanted = named !== null && "name" in named ? named.name : null;
      if (caddy.targetOf(host) !== wanted)
        world.checks.edges.onOtherServed(this.id, `${host}, of table ${generation}`, caddy.targetOf(host), wanted);
    }
  }

  private end(error: unknown): void {
    const { kernel, checks } = this.world;
    kernel.note(() => `${this.id}: the router ends: ${error}`);
    checks.onUncaught(this.id, error);
    this.crash(true);
    kernel.at(startsAgainMs, "start again", () => this.start());
  }

  /** The router ends; what was last in force goes on being served by Caddy. */
  crash(isNoticed: boolean): void {
    if (!this.process.alive) return;
    this.process.kill();
    this.disk.crash();
    this.placeDisk.crash();
    this.world.breakConnections(this.process, isNoticed);
  }

  powerOff(): void {
    this.crash(false);
    this.isOff = true;
    this.caddy.powerOff();
  }

  powerOn(): void {
    if (!this.isOff) return;
    this.isOff = false;
    this.boots += 1;
    this.caddy.start();
    this.start();
  }

  /** Every fault of it ends. */
  heal(): void {
    for (const disk of [this.disk, this.placeDisk]) {
      disk.isFull = false;
      disk.slowShare = 0;
    }
    this.caddy.hungUntilMs = 0;
    this.caddy.refusesUntilMs = 0;
    this.powerOn();
    this.caddy.start();
    this.start();
  }
}

const isOlder = (one: Table, other: Table): boolean =>
  one.clusterEpoch < other.clusterEpoch ||
  (one.clusterEpoch === other.clusterEpoch && one.generation < other.generation);
