import type { Duplex } from "node:stream";
import { servingInstance } from "@svc/agent/databases/instances";
import { verifierOf } from "@svc/control/fleet/databases/verifier";
import { createSecrets } from "@svc/control/stores/secrets";
import {
  type AdminTarget,
  type DatabaseAdmin,
  type OpenLine,
  ServerRefused,
  ServerUnreachable,
} from "@svc/control/tenants/databases/admin-sql";
import { copySlot } from "@svc/proto";
import { createAnswer } from "../kernel/ports.ts";
import type { AgentMachine } from "../machines/agent.ts";
import type { Container } from "../machines/docker.ts";
import { positionOf } from "../machines/keepers.ts";
import type { Role, ServerMade, Volume } from "../machines/servers.ts";
import type { Replica } from "./replica.ts";

/** Nobody replaces it here. */
export const virtualSecrets = createSecrets([Buffer.alloc(32)]);

/** A way to the server of one instance, through its node's agent. */
interface Line {
  machine: AgentMachine;
  databaseId: string;
  epoch: bigint;
}

/** How long a server goes on with what it was told by somebody who has ended. */
const orphanedMs = 2_000;

/** As `createOpenLine` has it: the node's agent decides which instance of a database it is. */
export const virtualLines =
  ({ world, process, name }: Replica): OpenLine =>
  async ({ databaseId, nodeId, epoch }, signal) => {
    const { kernel, network } = world;
    const { scope } = process;
    const answer = createAnswer<Line>(scope);
    const giveUp = () => answer.reject(new ServerUnreachable("no line in time"), 0, "no line");
    if (signal.aborted) throw new ServerUnreachable("no line in time");
    signal.addEventListener("abort", giveUp, { once: true });
    const opensMs = Math.max(network.openAtMs(name, nodeId), network.openAtMs(nodeId, name)) - kernel.nowMs;
    kernel.at(Math.max(0, opensMs) + process.random.between(1, 20), "line", () => {
      if (signal.aborted) return;
      const machine = world.nodes.find((each) => each.nodeId === nodeId && each.isConnected);
      if (machine === undefined) return answer.reject(new ServerUnreachable("its node is away"), 0, "no line");
      const instance = { databaseId, epoch: BigInt(epoch) };
      if (servingInstance([...machine.disk.state.placements.values()], instance) === null)
        return answer.reject(new ServerUnreachable("it does not serve there"), 0, "no line");
      answer.resolve({ machine, ...instance }, 0, "line");
    });
    return (await answer.promise) as unknown as Duplex;
  };

/** What the platform does in a server: slow, cut off before or after it is done, or never answered. */
export function virtualAdmin({ world, process }: Replica): DatabaseAdmin {
  const { kernel, trouble } = world;
  const { random, life, scope } = process;

  /** What can be done only to a server that can be written to. */
  const writable = ({ engine, readOnly }: ServerMade): void => {
    if (engine === "postgres" && readOnly) throw new ServerRefused("cannot execute it in a read-only transaction");
  };

  async function ask<T>(
    { connect }: Pick<AdminTarget, "connect">,
    signal: AbortSignal,
    effect: (volume: Volume, server: ServerMade) => T,
  ): Promise<T> {
    const line = (await connect(signal)) as unknown as Line;
    const answer = createAnswer<T>(scope);
    const cut = () => answer.reject(new ServerUnreachable("the line broke"), 1, "line broke");
    if (signal.aborted) throw new ServerUnreachable("no answer in time");
    signal.addEventListener("abort", () => answer.reject(new ServerUnreachable("no answer in time"), 0, "no answer"), {
      once: true,
    });
    const { unknownShare, slowShare } = trouble.servers;
    const takesMs = random.chance(slowShare) ? random.between(500, 20_000) : random.between(1, 40);
    const lost = random.chance(unknownShare) ? random.pick(["before", "after", "silent"] as const) : null;
    const askedMs = kernel.nowMs;
    kernel.at(takesMs, "asked of a server", () => {
      // Whoever gave up has closed its connection.
      if (signal.aborted || (scope.isOver && kernel.nowMs - askedMs > orphanedMs)) return;
      const found = serverOf(line);
      if (found === null || lost === "before") return cut();
      let value: T;
      try {
        value = effect(found.volume, found.server);
      } catch (error) {
        return answer.reject(error, 1, "server refuses");
      }
      if (lost === "after") return cut();
      if (lost === null) answer.resolve(value, random.between(0.5, 10), "server answers");
    });
    return answer.promise;
  }

  const setRole = (volume: Volume, role: Pick<Role, "verifier" | "connectionLimit" | "isLocked">): void => {
    volume.role = { ...role, by: process, life, atMs: kernel.nowMs };
    kernel.note(() => `${volume.name}: its role has another password by ${process.id}`);
  };

  return {
    createTenant: (target, { verifier, connectionLimit }, signal) =>
      ask(target, signal, (volume, server) => {
        writable(server);
        setRole(volume, { verifier, connectionLimit, isLocked: false });
      }),
    rotate: (target, { verifier }, signal) =>
      ask(target, signal, (volume, server) => {
        writable(server);
        if (volume.role === null) throw new ServerRefused("there is no such role");
        setRole(volume, { ...volume.role, verifier });
        volume.ended += 1;
      }),
    proveLogin: (target, { password }, signal) =>
      ask(
        target,
        signal,
        ({ role }, { engine, databaseId }) =>
          role?.isLocked === false && role.verifier === verifierOf(engine, databaseId, password),
      ),
    freeze: (target, { slot }, signal) =>
      ask(target, signal, (volume, server) => {
        writable(server);
        if (volume.role !== null)
          volume.role = { ...volume.role, isLocked: true, by: process, life, atMs: kernel.nowMs };
        volume.ended += 1;
        kernel.note(() => `${volume.name}: its role is kept out by ${process.id}`);
        const copies = world.nodes.flatMap(({ docker }) => [...docker.databases.copies]);
        const follower = slot === null ? undefined : copies.find(([id]) => copySlot(id) === slot)?.[1].whole;
        return { position: positionOf(server.engine, volume.last), isCopied: follower?.last === volume.last };
      }),
    bringKeeper: (target, { verifier }, signal) =>
      ask(target, signal, (volume, server) => {
        if (volume.keeper === verifier) return;
        writable(server);
        volume.keeper = verifier;
      }),
    releaseSlots: (target, { slots }, signal) =>
      ask(target, signal, (volume) => {
        const known = [...volume.slots].filter((id) => slots.includes(copySlot(id)));
        for (const id of known) volume.slots.delete(id);
        return known.length;
      }),
  };
}

/** The server behind a line, while it is there. */
function serverOf({ machine, databaseId, epoch }: Line): { volume: Volume; server: ServerMade } | null {
  const { docker } = machine;
  const is = ({ server, name }: Container): boolean =>
    server?.databaseId === databaseId && server.epoch === epoch && docker.isAnswering(name);
  const server = docker.only(is)?.server;
  const volume = docker.databases.volumes.get(server?.volume ?? "");
  return server === undefined || volume === undefined ? null : { volume, server };
}
