import { redeem } from "@svc/control/fleet/nodes/rules";
import { request } from "../control/lifecycle.ts";
import type { Replica } from "../control/replica.ts";
import { at } from "../kernel/random.ts";
import type { AgentMachine } from "../machines/agent.ts";
import type { Tables } from "../stores/postgres.ts";
import { actOnBackups, isBackupDeed } from "./backups.ts";
import { actOnChanges, isChangeDeed } from "./changes.ts";
import { actOnCopies, isCopyDeed } from "./copies.ts";
import { actOnDatabases, isDatabaseDeed } from "./databases.ts";
import { actOnJobs, defineJobs } from "./jobs.ts";
import type { Deed } from "./schedule.ts";
import type { World } from "./world.ts";

/** Does one thing to the world. */
export function act(world: World, deed: Deed): void {
  const { kind, a, b, ms, x } = deed;
  if (isDatabaseDeed(kind)) {
    actOnDatabases(world, kind, deed);
    return;
  }
  if (isBackupDeed(kind)) {
    actOnBackups(world, kind, deed);
    return;
  }
  if (isChangeDeed(kind)) {
    actOnChanges(world, kind, deed);
    return;
  }
  if (isCopyDeed(kind)) {
    actOnCopies(world, kind, deed);
    return;
  }
  const { kernel, network, trouble } = world;
  const node = at(world.nodes, a);
  const edge = at(world.edges, a);
  const replica = at(world.replicas, b);
  const daemon = x < 0.75 ? node : edge;
  if (node === undefined || edge === undefined || replica === undefined || daemon === undefined) return;
  switch (kind) {
    case "rateEtcdUnknown":
      trouble.etcd.unknownShare = x;
      return;
    case "rateEtcdSlow":
      trouble.etcd.slowShare = x;
      return;
    case "ratePostgresUnknown":
      trouble.postgres.unknownShare = x;
      return;
    case "ratePostgresSlow":
      trouble.postgres.slowShare = x;
      return;
    case "rateNetworkSlow":
      trouble.network.slowShare = x;
      return;
    case "rateDuplicate":
      trouble.network.duplicateShare = x;
      return;
    case "rateEngineSlow":
      for (const each of world.nodes) each.docker.slowShare = x;
      return;
    case "rateCrashAtJournal":
      world.crashAtJournalShare = x;
      return;
    case "closePath":
      network.close(daemon.process.id, replica.name, ms);
      network.close(replica.name, daemon.process.id, ms);
      return;
    case "closeOneWay":
      if (b % 2 === 0) network.close(daemon.process.id, replica.name, ms);
      else network.close(replica.name, daemon.process.id, ms);
      return;
    case "dropConnection":
      world.breakConnections(daemon.process, true);
      return;
    case "halfOpen":
      world.breakConnections(daemon.process, false);
      return;
    case "slowReader":
      network.slowUntilMs.set(b % 2 === 0 ? daemon.process.id : replica.name, {
        untilMs: kernel.nowMs + ms,
        byMs: x * 4_000,
      });
      return;
    case "isolateNode":
      isolate(world, node, ms);
      return;
    case "isolateMany":
      for (const each of world.nodes.slice(0, 1 + (b % world.nodes.length))) isolate(world, each, Math.max(ms, 25_000));
      return;
    case "crashAgent":
      node.crash(x < 0.8);
      kernel.at(Math.min(ms, 20_000), "start again", () => node.start());
      return;
    case "crashReplica":
      replica.crash(x < 0.8);
      kernel.at(Math.min(ms, 30_000), "start again", () => replica.start());
      return;
    case "crashEdge":
      edge.crash(x < 0.8);
      kernel.at(Math.min(ms, 20_000), "start again", () => edge.start());
      return;
    case "powerEdge":
      edge.powerOff();
      kernel.at(Math.max(ms, 3_000), "power on", () => edge.powerOn());
      return;
    case "crashCaddy":
      edge.caddy.crash();
      kernel.at(Math.min(ms, 20_000), "start again", () => {
        if (!edge.isOff) edge.caddy.start();
      });
      return;
    case "hangCaddy":
      edge.caddy.hungUntilMs = kernel.nowMs + ms;
      return;
    case "refuseCaddy":
      edge.caddy.refusesUntilMs = kernel.nowMs + ms;
      return;
    case "fillEdgeDisk":
      edge.disk.isFull = edge.placeDisk.isFull = true;
      kernel.at(ms, "disk freed", () => {
        edge.disk.isFull = edge.placeDisk.isFull = false;
      });
      return;
    case "freezeAgent":
      daemon.process.freeze(Math.min(ms, 40_000), false);
      return;
    case "freezeReplica":
      replica.process.freeze(Math.min(ms, 25_000), false);
      return;
    case "suspendNode":
      node.process.freeze(Math.min(ms, 60_000), true);
      return;
    case "powerCycle":
      node.powerOff();
      kernel.at(Math.max(ms, 3_000), "power on", () => node.powerOn());
      return;
    case "powerOff":
      node.powerOff();
      if (x < 0.5) node.staysDown = true;
      return;
    case "cloneNode":
      if (node.process.alive && world.clones.size === 0) world.clone(node);
      return;
    case "jumpAgent":
      daemon.process.wallOffsetMs += (x - 0.5) * 7_200_000;
      world.checks.agents.onClockSet(daemon.process.id);
      return;
    case "jumpReplica":
      replica.process.wallOffsetMs += (x - 0.5) * 240_000;
      return;
    case "hangEngine":
      node.docker.hungUntilMs = kernel.nowMs + ms;
      return;
    case "restartEngine":
      node.docker.restart(Math.min(ms, 15_000));
      return;
    case "loseEngineData":
      node.docker.loseData();
      return;
    case "deafEngine":
      node.docker.deafUntilMs = kernel.nowMs + ms;
      return;
    case "failEngine":
      node.docker.failingUntilMs = kernel.nowMs + ms;
      return;
    case "pruneEngine":
      node.docker.prune();
      return;
    case "takePorts":
      for (let port = 20_000; port < 20_040; port += 1)
        if ((port * 7 + b) % 40 < 20 * x) node.docker.foreignPorts.add(port);
      kernel.at(ms, "ports given back", () => node.docker.foreignPorts.clear());
      return;
    case "crashProgram":
      node.docker.crashProgram(b);
      return;
    case "sicken":
      node.docker.sicken(b, ms);
      return;
    case "fillDisk":
      node.disk.isFull = true;
      kernel.at(ms, "disk freed", () => {
        node.disk.isFull = false;
      });
      return;
    case "etcdLeaderChange":
      world.etcd.isUp = false;
      kernel.at(Math.min(ms, 2_500), "etcd elected", () => {
        world.etcd.isUp = true;
        world.etcd.extendAll();
        if (x < 0.6) world.etcd.breakWatches();
      });
      return;
    case "etcdDown":
      world.etcd.isUp = false;
      world.etcd.breakWatches();
      kernel.at(ms, "etcd up", () => {
        world.etcd.isUp = true;
        world.etcd.extendAll();
        if (x < 0.4) world.etcd.compact();
      });
      return;
    case "cutEtcd":
      replica.path.cutUntilMs = kernel.nowMs + ms;
      if (x < 0.5) replica.path.breakWatches();
      return;
    case "breakWatches":
      replica.path.breakWatches();
      return;
    case "stallWatches":
      replica.path.stallWatches(ms);
      return;
    case "staleReads":
      // A member that has fallen behind answers, and what it sends is old as well.
      replica.path.stallWatches(Math.max(ms, 14_000));
      // Agents and edges come to this replica while another one has told them newer things.
      for (const afterMs of [2_000 + x * 4_000, 8_000 + x * 4_000, Math.max(ms, 14_000) + 500]) {
        kernel.at(afterMs, "move on", () => {
          for (const each of [...world.nodes, ...world.edges]) world.breakConnections(each.process, true);
        });
      }
      replica.path.stale = {
        untilMs: kernel.nowMs + Math.max(ms, 14_000),
        backup: world.backups.filter(({ clusterId }) => clusterId === world.etcd.clusterId).at(-1 - (a % 2)) ?? null,
      };
      return;
    case "compact":
      world.etcd.compact();
      return;
    case "restore":
      world.restore(a % 4, x < 0.5 ? 1_000_000n : 0n);
      return;
    case "postgresDown":
      world.postgres.isUp = false;
      kernel.at(Math.min(ms, 30_000), "postgres up", () => {
        world.postgres.isUp = true;
      });
      return;
    case "cutPostgres":
      replica.databaseCutUntilMs = kernel.nowMs + ms;
      return;
    case "deploy":
      deploy(world, replica, a, x, false);
      return;
    case "deployRelease":
      deploy(world, replica, a, x, true);
      return;
    case "cancelDeploy":
      change(replica, (tables) => {
        const open = [...tables.deployments.values()].filter(({ status }) =>
          ["queued", "building", "deploying"].includes(status),
        );
        const row = at(open, a);
        if (row !== undefined) row.cancelRequested = true;
      });
      return;
    case "stopSite":
      change(replica, (tables) => {
        const site = at([...tables.sites.values()], a);
        if (site !== undefined) request(world, tables, site, "stop");
      });
      return;
    case "startSite":
      change(replica, (tables) => {
        const site = at([...tables.sites.values()], a);
        if (site !== undefined) request(world, tables, site, "start");
      });
      return;
    case "cordon":
      world.actOnNode(replica, node.nodeId, "cordon");
      return;
    case "uncordon":
      world.actOnNode(replica, node.nodeId, "uncordon");
      return;
    case "drain":
      world.actOnNode(replica, node.nodeId, "drain");
      return;
    case "cancelDrain":
      world.actOnNode(replica, node.nodeId, "cancel-drain");
      return;
    case "fence":
      for (const each of world.nodes) {
        const { link } = replica.fleet.nodeLink(each.nodeId);
        if (link === "unreachable" || (x < 0.5 && world.isCloned(each.machineId))) {
          world.actOnNode(replica, each.nodeId, "force-fence");
          return;
        }
      }
      return;
    case "removeNode":
      world.actOnNode(replica, node.nodeId, "remove");
      return;
    case "cordonEdge":
      world.actOnNode(replica, edge.id, "cordon");
      return;
    case "uncordonEdge":
      world.actOnNode(replica, edge.id, "uncordon");
      return;
    case "drainEdge":
      world.actOnNode(replica, edge.id, "drain");
      return;
    case "cancelDrainEdge":
      world.actOnNode(replica, edge.id, "cancel-drain");
      return;
    case "joinTwice":
      joinTwice(world);
      return;
    case "runJob":
    case "cancelRun":
    case "switchJob":
    case "awayPostgres":
      actOnJobs(world, replica, kind, { a, ms, x });
      return;
  }
}

function isolate(world: World, node: AgentMachine, ms: number): void {
  for (const { name } of world.replicas) {
    world.network.close(node.process.id, name, ms);
    world.network.close(name, node.process.id, ms);
  }
}

function change(replica: Replica, work: (tables: Tables) => void): void {
  if (!replica.process.alive) return;
  replica.scope.spawn(
    replica.transact((tables, notify) => {
      work(tables);
      notify("work");
      notify("task");
    }),
    () => {},
  );
}

function deploy(world: World, replica: Replica, index: number, x: number, hasRelease: boolean): void {
  // Somebody tries again elsewhere when one replica does not answer.
  const alive = replica.process.alive ? replica : world.replicas.find(({ process }) => process.alive);
  if (alive === undefined) return;
  change(alive, (tables) => {
    const site = at([...tables.sites.values()], index);
    if (site === undefined) return;
    const now = world.postgres.now();
    const id = tables.id("d");
    tables.deployments.set(id, {
      ...{ id, number: tables.deployments.size + 1, projectId: site.projectId, status: "queued", statusSince: now },
      ...{ memoryMb: site.memoryMb, hasRelease },
      replicas: x < 0.3 ? 1 + (index % 3) : site.replicas,
      ...{ heldAt: null, drainSeconds: site.drainSeconds },
      ...{ cancelRequested: false, releaseAttempt: 0, releaseNodeId: null, error: null },
      releaseStatus: hasRelease ? "pending" : "not_configured",
    });
    defineJobs(world, tables, id, site);
    tables.enqueue("deploy", id, `deploy/${site.projectId}`, world.postgres.now());
  });
}

/** Two machines, or one that lost the answer, use one bootstrap token. */
function joinTwice(world: World): void {
  const { postgres, kernel } = world;
  const tokenId = postgres.tables.id("token");
  postgres.tables.tokens.set(tokenId, {
    ...{ id: tokenId, revokedAt: null, usedAt: null, usedKeyHash: null, nodeId: null },
    expiresAt: new Date(postgres.nowMs() + 3_600_000),
  });
  const keys = [Buffer.from("one"), Buffer.from("one"), Buffer.from("two")];
  for (const [turn, keyHash] of keys.entries()) {
    kernel.at(world.random.between(0, 3_000), "join", () => {
      const token = postgres.tables.tokens.get(tokenId);
      if (token === undefined) return;
      const answer = redeem(token, { secretMatches: true, keyHash, now: postgres.now() });
      if ("refuse" in answer) return;
      if (answer.admit === "new") {
        token.usedAt = postgres.now();
        token.usedKeyHash = keyHash;
        token.nodeId = `joined-${tokenId}-${turn}`;
      }
      world.checks.rows.onAdmitted(tokenId, token.nodeId ?? "");
    });
  }
}
