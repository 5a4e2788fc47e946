import type { Route, RouteTable } from "@svc/proto/edge";
import { emptyTable, type Table } from "@svc/router/table";
import type { Process } from "../kernel/kernel.ts";
import type { World } from "../world/world.ts";
import { type Message, runSession } from "./link.ts";

const upstreamsOf = (routes: EdgeMachine["served"]): Set<string> =>
  new Set([...routes.values()].flatMap(({ target }) => (target.case === "proxy" ? target.value.upstreams : [])));

/** How long the longest of what is open goes on: not at all, like requests, like downloads, or like a stream without an end. */
const openForMs = ({ random }: Process): number =>
  random.pick([0, random.between(0, 5_000), random.between(0, 90_000), Number.POSITIVE_INFINITY]);

/** One edge: serves the last table that it accepted, whatever becomes of control. Mirrors `router/src/{apply,watch}.ts`. */
export class EdgeMachine {
  readonly process: Process;
  /** What visitors are served; outlives the process as the tree on disk does. */
  served: ReadonlyMap<string, Route> = new Map();
  servedGeneration = 0n;
  private target: Table = emptyTable;
  private disk: Table = emptyTable;
  private lives = 0;
  isOff = false;
  resyncs = 0;
  private isApplying = false;
  private isAsked = false;
  private applied = { clusterEpoch: 0n, generation: 0n, error: "", resync: false };
  private send: ((message: Message) => void) | null = null;

  readonly world: World;
  readonly id: string;

  constructor(world: World, id: string, clock: { drift: number; wallOffsetMs: number }) {
    this.world = world;
    this.id = id;
    this.process = world.newProcess(id, clock);
    this.process.alive = false;
  }

  start(): void {
    if (this.process.alive || this.isOff) return;
    this.process.start();
    this.lives += 1;
    this.send = null;
    this.isApplying = false;
    this.isAsked = false;
    // What was in force and not on disk yet is taken back: nobody was told of it.
    this.target = this.disk;
    this.serve(this.disk);
    const { clusterEpoch, generation } = this.disk;
    this.applied = { clusterEpoch, generation, error: "", resync: false };
    const { scope } = this.process;
    scope.spawn(
      runSession({
        scope,
        connect: (turn, on) => this.world.connectEdge(this, turn, on),
        hello: () => ({
          case: "hello",
          value: {
            ...{ instanceId: `${this.id}.${this.lives}`, bootId: "1", address: this.id, version: "1" },
            clusterEpoch: this.applied.clusterEpoch,
            generation: this.applied.generation,
          },
        }),
        renewal: () => ({ case: "renew", value: {} }),
        onMessage: (message, send) => {
          if (message.case === "welcome") this.send = send;
          if (message.case === "table") this.submit(message.value as RouteTable);
        },
        onClose: () => {
          this.send = null;
        },
        onFenced: function* () {},
      }),
    );
  }

  private submit(message: RouteTable): void {
    const before = this.target;
    const decision = this.world.cores.decide(this.target, true, message);
    if ("refuse" in decision) {
      this.resyncs += 1;
      this.report({ ...this.applied, error: decision.refuse, resync: decision.resync });
      return;
    }
    this.target = decision.accept;
    this.world.checks.onTableAccepted(this.id, before, decision.accept);
    this.apply();
  }

  /** Visitors who come go where the table says; what is open stays where it is, in the proxy, which outlives the process. */
  private serve({ routes, generation }: Table): void {
    const before = upstreamsOf(this.served);
    this.served = routes;
    this.servedGeneration = generation;
    const after = upstreamsOf(routes);
    for (const upstream of before) if (!after.has(upstream)) this.world.leaveOpen(upstream, openForMs(this.process));
  }

  private report(state: EdgeMachine["applied"]): void {
    this.send?.({ case: "applied", value: state });
  }

  /** In force first, then on disk, and only then reported. */
  private apply(): void {
    if (this.isApplying) {
      this.isAsked = true;
      return;
    }
    this.isApplying = true;
    const { scope, random } = this.process;
    scope.after(random.between(1, 60), "table in force", () => {
      const aim = this.target;
      this.serve(aim);
      this.world.checks.onServed(this.id, aim);
      scope.after(random.between(1, 40), "table on disk", () => {
        this.disk = aim;
        this.applied = { clusterEpoch: aim.clusterEpoch, generation: aim.generation, error: "", resync: false };
        this.report(this.applied);
        this.isApplying = false;
        if (this.isAsked) {
          this.isAsked = false;
          this.apply();
        }
      });
    });
  }

  /** The process ends; what was last in force goes on being served by the proxy until the next start. */
  crash(isNoticed: boolean): void {
    if (!this.process.alive) return;
    this.process.kill();
    this.world.breakConnections(this.process, isNoticed);
  }
}
