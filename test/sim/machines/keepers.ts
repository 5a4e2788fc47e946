import type { CopyStatus } from "@svc/agent/keepers/status";
import { verifierOf } from "@svc/control/fleet/databases/verifier";
import { admitDial, isHere, type Purpose } from "@svc/dbproxy/table/admission";
import { copyVolume, type DatabaseEngine } from "@svc/proto";
import type { World } from "../world/world.ts";
import { machineIdOf } from "./addresses.ts";
import type { AgentMachine } from "./agent.ts";
import type { Container, Docker } from "./docker.ts";
import type { Copied, Volume, Write } from "./servers.ts";

/** The container of whoever keeps a copy. */
export interface Keeper {
  copyId: string;
  databaseId: string;
  engine: DatabaseEngine;
  password: string;
}

/** Where the log of a server is, in its own words. */
export const positionOf = (engine: DatabaseEngine, last: Write | null): string => {
  const number = last?.number ?? 0;
  return engine === "postgres" ? `0/${number.toString(16).toUpperCase()}` : `0-1-${number}`;
};

/** The server of a database that a gate lets in to, by its own machine's gate or over that of the server's. */
export function serverBehind(
  world: World,
  origin: AgentMachine,
  databaseId: string,
  purpose: Purpose,
): { machine: AgentMachine; container: Container; volume: Volume; epoch: string } | null {
  const entry = origin.gate.entryOf(databaseId);
  if (entry?.at == null || world.isCloned(origin.machineId)) return null;
  const { epoch, at } = entry;
  const machine = isHere(entry)
    ? origin
    : world.nodes.find((each) => "nodeId" in at && machineIdOf(each.nodeId) === at.nodeId);
  const far = machine?.gate.entryOf(databaseId);
  if (machine === undefined || machine.isOff || origin.isOff || far?.at == null || !("socket" in far.at)) return null;
  const originId = machineIdOf(origin.nodeId);
  const admitted = admitDial(far, { ...purpose, epoch }, originId);
  if (machine !== origin && machine.gate.gone.has(originId)) return null;
  if (admitted !== "pass") return null;
  const { socket } = far.at;
  const { docker } = machine;
  const container = docker.only(({ server, name }) => server?.socketPath === socket && docker.isAnswering(name));
  const volume = docker.databases.volumes.get(container?.server?.volume ?? "");
  return container === undefined || volume === undefined ? null : { machine, container, volume, epoch };
}

/** Now and then it has something else to do than to follow: its disk is slow. */
const stallShare = 0.03;
const basesMax = 2;

/** What a keeper does from its start on, as `deploy/database/keep.sh` has it: it makes a base, and follows the log as long as it is let in. */
export function keepCopy(docker: Docker, container: Container, keeper: Keeper): void {
  const { kernel, databases } = docker;
  const { random } = databases;
  const { copyId, databaseId, engine, password } = keeper;
  const { startedAtMs } = container;
  let baseAtMs: number | null = null;
  const follow = (copy: Copied, { last, role, keeper: known, slots }: Volume, atMs: number): void => {
    if (known !== verifierOf(engine, databaseId, password)) return;
    if (copy.hasBegun && !slots.has(copyId)) {
      // What the server had for it is gone: it is another log from here on, and takes another base.
      copy.hasBegun = false;
      copy.bases = copy.bases.map((base) => ({ ...base, untilMs: base.untilMs ?? copy.whole?.atMs ?? base.atMs }));
      baseAtMs = null;
    }
    slots.add(copyId);
    copy.hasBegun = true;
    const newest = copy.bases.at(-1);
    if (newest === undefined || newest.untilMs !== null) {
      baseAtMs ??= kernel.nowMs + random.between(1_000, 8_000);
      if (kernel.nowMs < baseAtMs) return;
      const next = { number: (newest?.number ?? 0) + 1, atMs, untilMs: null };
      copy.bases = [...copy.bases.slice(1 - basesMax), next];
    }
    copy.whole = { last, role: role && { ...role }, keeper: known, atMs };
  };
  const look = (): void => {
    if (container.state !== "running" || container.startedAtMs !== startedAtMs) return;
    const copy = databases.copies.get(copyId);
    const reached = docker.reach(keeper);
    if (copy !== undefined && reached !== null) follow(copy, reached.volume, reached.atMs);
    const pauseMs = random.chance(stallShare) ? random.between(2_000, 14_000) : random.between(300, 2_000);
    kernel.at(pauseMs, "keeper looks", look);
  };
  kernel.at(random.between(5, 300), "keeper looks", look);
}

/** What it has told of the copy in a volume. */
export function copyStatus({ databases }: Docker, path: string): CopyStatus | null {
  for (const [id, { engine, bases, whole }] of databases.copies) {
    if (!path.endsWith(copyVolume(id))) continue;
    const textOf = (ms: number | null | undefined): string => (ms == null ? "" : new Date(ms).toISOString());
    const newest = bases.at(-1);
    const isCut = newest !== undefined && newest.untilMs !== null;
    return {
      state: newest === undefined ? "basing" : isCut ? "broken" : "following",
      ...{ problem: isCut ? "its log is another one" : "", coveredAt: textOf(whole?.atMs) },
      position: whole === null ? "" : positionOf(engine, whole.last),
      bases: bases.map(({ number, atMs, untilMs }) => ({
        number,
        at: textOf(atMs),
        bytes: 1n,
        until: textOf(untilMs),
      })),
    };
  }
  return null;
}
