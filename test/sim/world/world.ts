import { readLink } from "@svc/control/fleet/cluster/read-link";
import { nodeChange } from "@svc/control/fleet/nodes/actions/rules";
import { isBehind, saysHowFarItIs } from "@svc/control/fleet/nodes/circumstances";
import { readRouting } from "@svc/control/fleet/routes/routing";
import { wakeBranchesOn } from "@svc/control/tenants/databases/testing/memory/tables";
import { type NodeAction, type NodeAxes, nodeActionProblem } from "@svc/proto";
import type { SessionRequest as EdgeRequest } from "@svc/proto/edge";
import { type SessionRequest as NodeRequest, Observed } from "@svc/proto/node";
import { recoverOften } from "../control/recovery.ts";
import { Replica } from "../control/replica.ts";
import { Kernel, Process, type Work, wait, waitFor } from "../kernel/kernel.ts";
import { enter } from "../kernel/ports.ts";
import type { Random } from "../kernel/random.ts";
import { AgentMachine } from "../machines/agent.ts";
import { Artifacts } from "../machines/artifacts.ts";
import { type Named, VirtualCall } from "../machines/call.ts";
import {
  Connection,
  type Message,
  Network,
  type NetworkTrouble,
  type Side,
  type Stream,
  type StreamEvents,
} from "../machines/connection.ts";
import { EdgeMachine } from "../machines/edge.ts";
import type { Footing } from "../machines/footing.ts";
import { EtcdStore, type Snapshot, Values } from "../stores/etcd.ts";
import type { StoreTrouble } from "../stores/etcd-path.ts";
import { Postgres } from "../stores/postgres.ts";
import { restChanges, Writers } from "./changes.ts";
import { Checks } from "./checks.ts";
import type { ServerTrouble } from "./databases.ts";
import { act } from "./deeds.ts";
import { restJobs } from "./jobs.ts";
import { checkRest, checkSettled } from "./liveness.ts";
import { type Deed, faultsMs, type Plan } from "./schedule.ts";

/** From the end of all faults to the moment when everything has to be well. */
const settleMs = 120_000;
/** And to the moment when the slowest deadlines of the product are over, and nothing more may happen. */
const restMs = 260_000;
const ackMs = 2_000;
const backupEveryMs = 15_000;
const agentDrift = 0.01;
const serverDrift = 0.005;

/** Everything that there is, driven by one kernel. */
export class World {
  readonly kernel: Kernel;
  readonly checks: Checks;
  readonly values = new Values();
  readonly etcd: EtcdStore;
  readonly postgres: Postgres;
  readonly operator: Process;
  readonly network: Network;
  readonly artifacts: Artifacts;
  readonly trouble: { etcd: StoreTrouble; postgres: StoreTrouble; network: NetworkTrouble; servers: ServerTrouble } = {
    servers: { unknownShare: 0, slowShare: 0 },
    etcd: { unknownShare: 0, slowShare: 0 },
    postgres: { unknownShare: 0, slowShare: 0 },
    network: { slowShare: 0, duplicateShare: 0 },
  };
  readonly replicas: Replica[] = [];
  readonly nodes: AgentMachine[] = [];
  readonly edges: EdgeMachine[] = [];
  readonly clones = new Set<string>();
  readonly connections = new Set<Connection>();
  readonly backups: Snapshot[] = [];
  readonly random: Random;
  readonly databaseRandom: Random;
  crashAtJournalShare = 0;
  /** Faults are over. */
  isCalm = false;
  /** Since when, in true time. */
  calmSinceMs = 0;
  /** An operator restores etcd, and keeps control stopped meanwhile. */
  isRestoring = false;
  private readonly machines = new Map<string, AgentMachine>();

  readonly seed: number;
  readonly plan: Plan;
  readonly footing: Footing;

  constructor(seed: number, plan: Plan, footing: Footing) {
    this.seed = seed;
    this.plan = plan;
    this.footing = footing;
    this.kernel = new Kernel(seed);
    this.random = this.kernel.random.fork("world");
    this.databaseRandom = this.kernel.random.fork("databases");
    this.checks = new Checks(this);
    this.network = new Network(this.kernel, this.trouble.network);
    this.artifacts = new Artifacts(this.kernel, this.trouble.servers);
    this.etcd = new EtcdStore(this.kernel, this.newProcess("etcd", this.clock("etcd", serverDrift)));
    this.postgres = new Postgres(
      this.kernel,
      this.newProcess("postgres", this.clock("postgres", serverDrift)),
      this.trouble.postgres,
    );
    this.operator = this.newProcess("operator", this.clock("operator", serverDrift));
    this.etcd.onCommit = this.checks.etcd.onCommit;
    this.postgres.tables.onReplace = this.checks.rows.onReplace;
    this.postgres.onCommit = this.checks.onTransaction;
    for (let at = 1; at <= plan.replicas; at += 1) {
      this.replicas.push(new Replica(this, `control${at}`, this.clock(`control${at}`, serverDrift)));
    }
    for (let at = 1; at <= plan.nodes; at += 1) this.addNode(`n${at}`);
    for (let at = 1; at <= plan.edges; at += 1) {
      const id = `e${at}`;
      this.edges.push(new EdgeMachine(this, id, this.clock(id, agentDrift)));
      this.addRow(id, "edge", 0);
    }
    for (let at = 1; at <= plan.sites; at += 1) {
      const projectId = this.postgres.tables.id("p");
      const host = `p${at}.test`;
      this.postgres.tables.sites.set(host, {
        host,
        projectId,
        replicas: this.random.int(1, 3),
        memoryMb: this.random.pick([128, 256, 400]),
        drainSeconds: this.random.pick([0, 10, 30, 60]),
        deploymentId: null,
        stopped: false,
        changedAt: this.postgres.now(),
      });
    }
  }

  private clock(id: string, drift: number): { drift: number; wallOffsetMs: number } {
    const random = this.kernel.random.fork(`clock of ${id}`);
    return { drift: random.between(-drift, drift), wallOffsetMs: random.between(-500, 500) };
  }

  newProcess(id: string, clock: { drift: number; wallOffsetMs: number }): Process {
    return new Process(this.kernel, id, clock);
  }

  private addRow(id: string, role: "node" | "edge", memoryMb: number): void {
    this.postgres.tables.nodes.set(id, {
      ...{
        id,
        role,
        memoryMb,
        lifecycle: "active",
        incarnation: 1,
        schedulable: true,
        unschedulableSinceMs: null,
      },
      ...{ drain: "none", drainGeneration: 0, drainDeadline: null, quarantinedAt: null, diskFull: false, seenAt: null },
      entering: role === "edge",
      createdAt: this.postgres.now(),
    });
  }

  addNode(id: string): AgentMachine {
    const memoryMb = this.kernel.random.fork(`memory of ${id}`).pick([1_024, 1_536, 2_048]);
    const machine = new AgentMachine(this, id, id, 1, memoryMb, this.clock(id, agentDrift));
    this.nodes.push(machine);
    this.machines.set(id, machine);
    this.addRow(id, "node", memoryMb);
    const row = this.postgres.tables.nodes.get(id);
    if (row !== undefined) row.seenAt = this.postgres.now();
    return machine;
  }

  /** Another machine with everything that the first one has on its disk. */
  clone(machine: AgentMachine): void {
    const id = `${machine.nodeId}-clone${this.clones.size + 1}`;
    const copy = new AgentMachine(
      this,
      id,
      machine.nodeId,
      machine.incarnation,
      machine.memoryMb,
      this.clock(id, agentDrift),
    );
    machine.disk.copyTo(copy.disk);
    this.clones.add(id);
    this.clones.add(machine.machineId);
    this.machines.set(id, copy);
    this.nodes.push(copy);
    copy.start();
  }

  isCloned(machineId: string): boolean {
    return this.clones.has(machineId);
  }

  /** An edge sends nobody to `upstream` any more, and keeps what is open there. */
  leaveOpen(upstream: string, forMs: number): void {
    const [address, port] = upstream.split(":");
    for (const node of this.nodes) if (node.address === address) node.docker.keepOpen(Number(port), forMs);
  }

  machineOf(machineId: string): AgentMachine | undefined {
    return this.machines.get(machineId);
  }

  // ------------------------------------------------------------- connections

  connectAgent({ process, nodeId: id, incarnation }: AgentMachine, replica: string, on: StreamEvents): Stream | null {
    return this.connect<NodeRequest>(process, replica, { role: "node", id, incarnation }, on, "serveNode");
  }

  connectEdge({ process, id }: EdgeMachine, replica: string, on: StreamEvents): Stream | null {
    return this.connect<EdgeRequest>(process, replica, { role: "edge", id, incarnation: 1 }, on, "serveEdge");
  }

  private connect<Req extends NodeRequest | EdgeRequest>(
    from: Process,
    name: string,
    named: Named,
    on: StreamEvents,
    serve: "serveNode" | "serveEdge",
  ): Stream | null {
    const replica = this.replicas.find((each) => each.name === name);
    const streams = replica?.streams ?? null;
    if (replica === undefined || streams === null || !replica.process.alive || !replica.isReady) return null;
    const client: Side = {
      process: from,
      life: from.life,
      receive: (message) => on.message(message as Message),
      closed: on.closed,
    };
    const { process } = replica;
    let call: VirtualCall<Req, Partial<Req>> | null = null;
    const server: Side = {
      process,
      life: process.life,
      receive: (message) =>
        enter(process, () => {
          if (call === null) {
            call = new VirtualCall(connection, named, this.checks.agents.watchCall(named.id));
            (streams[serve] as (call: unknown) => void)(call);
          }
          call.receive(message as Message);
        }),
      closed: () => enter(process, () => call?.closed()),
    };
    const connection = new Connection(this.network, client, server);
    this.connections.add(connection);
    if (this.connections.size > 64)
      for (const each of this.connections) if (!each.isOpen) this.connections.delete(each);
    return {
      send: (message) => connection.send("forth", message),
      close: () => connection.close(client),
    };
  }

  breakConnections(process: Process, isNoticed: boolean): void {
    for (const connection of [...this.connections]) {
      const { client, server } = connection;
      if (client.process !== process && server.process !== process) continue;
      connection.break(isNoticed, client.process === process ? client : server);
      this.connections.delete(connection);
    }
  }

  /** The worst moments for a crash are those right after something was written down. */
  onJournalWrite(machine: AgentMachine): void {
    for (const [id, { status }] of machine.disk.durable.placements) {
      if (status.observed >= Observed.COMPLETED) this.checks.agents.onEnded(id);
    }
    this.mayCrash(machine, this.crashAtJournalShare);
  }

  /** Likewise those right after an edge has said what it serves. Tables come much more rarely than what is journaled. */
  onTableKept(edge: EdgeMachine): void {
    this.mayCrash(edge, Math.min(1, this.crashAtJournalShare * 4));
  }

  private mayCrash(machine: AgentMachine | EdgeMachine, share: number): void {
    if (this.isCalm || share === 0) return;
    const { random, life } = machine.process;
    if (!random.chance(share)) return;
    this.kernel.at(random.pick([0.01, random.between(0, 20), random.between(0, 300)]), "crash at journal", () => {
      if (this.isCalm || machine.process.life !== life || !machine.process.alive) return;
      machine.crash(true);
      this.kernel.at(random.between(50, 4_000), "start again", () => machine.start());
    });
  }

  // --------------------------------------------------------------- operators

  /** What an operator's action on a node comes to; the reason when it is refused. */
  actOnNode(replica: Replica, id: string, action: NodeAction): void {
    replica.scope.spawn(this.acting(replica, id, action), () => {});
  }

  private *acting(replica: Replica, id: string, action: NodeAction): Work {
    // As `control/src/fleet/nodes/actions/act.ts` has it.
    const isLetIn = action === "uncordon" && this.edges.some((edge) => edge.id === id);
    const routing = isLetIn ? yield* wait(waitFor(() => readRouting(replica.etcd, []))) : replica.fleet;
    const isFence = action === "force-fence";
    const { link: seen } = isFence
      ? yield* wait(waitFor(() => readLink(replica.etcd, replica.fleet, id)))
      : replica.fleet.nodeLink(id);
    yield* replica.transact((tables, notify) => {
      const row = tables.nodes.get(id);
      if (row === undefined) return;
      const { fleet, views } = replica;
      const link = row.quarantinedAt !== null ? "quarantined" : seen;
      const axes: NodeAxes = { lifecycle: row.lifecycle, schedulable: row.schedulable, drain: row.drain, link };
      const heldCount = views.placementsByNode.of(id).size + views.runsByNode.of(id).size;
      const problem = nodeActionProblem(action, {
        role: row.role,
        axes,
        heldCount,
        databaseCount: [...tables.branches.rows.values()].filter(({ node_id }) => node_id === id).length,
        isBehind: row.role === "edge" && isBehind({ ...fleet, ...routing }, id),
        hasOtherEdge: tables.edgesInRotation().some((other) => other !== id),
      });
      this.kernel.note(() => `operator: ${action} ${id}: ${problem ?? "done"}`);
      if (problem !== null) return;
      const facts = {
        role: row.role,
        incarnation: row.incarnation,
        drain_generation: row.drainGeneration,
        reason: null,
      };
      const takesItsTime = saysHowFarItIs(fleet, id);
      const { set } = nodeChange(action, { ...facts, takesItsTime }, { deadlineSeconds: 90 }, this.postgres.now());
      row.lifecycle = set.lifecycle ?? row.lifecycle;
      row.incarnation = set.incarnation ?? row.incarnation;
      row.schedulable = set.schedulable ?? row.schedulable;
      row.drain = set.drain ?? row.drain;
      row.drainGeneration = set.drain_generation ?? row.drainGeneration;
      if (set.drain_deadline !== undefined) row.drainDeadline = set.drain_deadline;
      row.unschedulableSinceMs =
        row.schedulable && row.lifecycle === "active" ? null : (row.unschedulableSinceMs ?? this.kernel.nowMs);
      if (row.lifecycle !== "active") this.checks.seen.goneSinceMs.set(id, this.kernel.nowMs);
      notify("task");
      notify("route");
      if (row.lifecycle !== "active" || row.role === "edge") notify("node");
      if (row.lifecycle === "active") return;
      wakeBranchesOn({ tables, now: this.postgres.now(), notify: () => notify("work") }, id);
    });
  }

  /**
   * As the operator's handbook says: every control server is stopped, the store goes back, `after-restore` tells it again
   * what Postgres knows, and control is started.
   */
  restore(age: number, bump: bigint): void {
    const backup = this.backups[Math.max(this.backups.length - 1 - age, 0)];
    if (backup === undefined || this.isRestoring) return;
    this.isRestoring = true;
    for (const replica of this.replicas) replica.crash(true);
    const { kernel, operator } = this;
    kernel.at(1_000, "restore", () => {
      this.etcd.restore(backup, bump);
      this.checks.etcd.onRestore();
      operator.scope.spawn(
        recoverOften(this, operator),
        (error) => {
          throw error;
        },
        () => {
          this.isRestoring = false;
          for (const replica of this.replicas)
            kernel.at(this.random.between(100, 3_000), "start again", () => replica.start());
        },
      );
    });
  }

  // ------------------------------------------------------------------- a run

  /** Everything from the first start to the rest at the end. @throws Violation */
  async run(): Promise<void> {
    const { kernel } = this;
    kernel.afterEvent = () => {
      if (this.checks.found !== null) throw this.checks.found;
    };
    for (const replica of this.replicas) kernel.at(this.random.between(0, 500), "start", () => replica.start());
    for (const node of this.nodes) kernel.at(this.random.between(0, 1_500), "start", () => node.start());
    for (const edge of this.edges) kernel.at(this.random.between(0, 1_500), "start", () => edge.start());
    for (const [index] of [...this.postgres.tables.sites].entries()) {
      this.do({ atMs: this.random.between(3_000, 8_000), kind: "deploy", a: index, b: 0, ms: 0, x: 0 });
    }
    const backup = () => {
      this.backups.push(this.etcd.backup());
      if (!this.isCalm) kernel.at(backupEveryMs, "backup", backup);
    };
    kernel.at(backupEveryMs, "backup", backup);
    for (const deed of this.plan.deeds) this.do(deed);
    if (this.plan.deeds.some(({ kind }) => kind === "createDatabase")) new Writers(this).start();
    const calmAtMs = 20_000 + faultsMs;
    kernel.at(calmAtMs, "calm", () => this.calm());
    await kernel.run(calmAtMs + settleMs);
    checkSettled(this);
    this.checks.jobs.checkSettled();
    restJobs(this);
    restChanges(this);
    if (this.checks.found !== null) throw this.checks.found;
    await kernel.run(calmAtMs + restMs - 100_000);
    // Of what has gone live since then.
    restJobs(this);
    await kernel.run(calmAtMs + restMs - 40_000);
    const before = {
      writes: this.etcd.writes,
      assigns: this.checks.agents.assignsSent,
      resyncs: new Map(this.checks.agents.resyncs),
    };
    await kernel.run(calmAtMs + restMs);
    // What was reported in the last moment is acknowledged in the next.
    if (this.nodes.some(({ reporter }) => (reporter?.backlog() ?? 0) > 0)) await kernel.run(calmAtMs + restMs + ackMs);
    checkRest(this, before);
    this.checks.jobs.checkRest();
    this.checks.backups.checkSettled();
    this.checks.changes.checkRest();
    this.checks.copies.checkSettled();
    if (this.checks.found !== null) throw this.checks.found;
  }

  private do(deed: Deed): void {
    this.kernel.at(deed.atMs, `deed ${deed.kind}`, () => {
      this.kernel.note(() => `--- ${deed.kind} a=${deed.a} b=${deed.b} ms=${deed.ms} x=${deed.x.toFixed(3)}`);
      act(this, deed);
    });
  }

  /** Every fault ends: what was broken is whole again, and what was down comes back. */
  private calm(): void {
    this.isCalm = true;
    this.calmSinceMs = this.kernel.nowMs;
    this.kernel.note(() => "--- calm");
    Object.assign(this.trouble.etcd, { unknownShare: 0, slowShare: 0 });
    Object.assign(this.trouble.postgres, { unknownShare: 0, slowShare: 0 });
    Object.assign(this.trouble.servers, { unknownShare: 0, slowShare: 0 });
    Object.assign(this.trouble.network, { slowShare: 0, duplicateShare: 0 });
    this.network.heal();
    this.etcd.isUp = true;
    this.etcd.extendAll();
    this.postgres.isUp = true;
    this.artifacts.awayUntilMs = 0;
    for (const replica of this.replicas) {
      replica.path.cutUntilMs = Math.min(replica.path.cutUntilMs, this.kernel.nowMs);
      replica.databaseCutUntilMs = 0;
      replica.start();
    }
    for (const edge of this.edges) edge.heal();
    for (const node of this.nodes) {
      node.docker.hungUntilMs = 0;
      node.docker.deafUntilMs = 0;
      node.docker.failingUntilMs = 0;
      node.docker.foreignPorts.clear();
      node.docker.slowShare = 0;
      node.disk.isFull = false;
      if (!node.staysDown) {
        node.docker.isUp = true;
        if (node.isOff) node.powerOn();
        node.start();
      }
    }
  }
}
