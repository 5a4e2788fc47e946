import { create } from "@bufbuild/protobuf";
import { neededVolumes } from "@svc/agent/databases/needed";
import { freshMemory, type PlacementRecord } from "@svc/agent/journal/records";
import { type KnownVolume, volumesToRemove } from "@svc/control/fleet/database-volumes/rules";
import { copyHours, volumeHours } from "@svc/control/tenants/databases/changes/kept";
import { copyVolume, databaseVolume } from "@svc/proto";
import { Observed, PlacementSchema, PlacementStatusSchema } from "@svc/proto/node";
import type { Model } from "./explore.ts";

/**
 * What is left on the disk of one machine: the volume of a branch that is restored or moved there from a copy, that copy, and
 * whoever restores from it: real `volumesToRemove`, `neededVolumes` and the times for which things are kept. Sessions of control
 * servers read what may go, and their agent, which hears late what it is to run, goes by any word that any of them has ever read: so in
 * whatever order words come, however late, and whoever dies. An operator finds the copy in its time and begins the restore some
 * minutes later.
 *
 * Time jumps to where something changes: just before the end of the time for which a thing is kept, there, and at the end of the
 * grace after it.
 */
interface State {
  /** Hours; a grace is a part of one. */
  now: number;
  /** Null: it was dropped. Generation 1 is on the machine, and any further one that is made from a copy there. */
  branch: { generation: number; has: "volume" | "error" } | null;
  /** By generation less one. */
  volumes: readonly Kept[];
  copies: readonly Kept[];
  change: { copy: number; is: "stopping" | "restoring" } | null;
  /** Tasks of the branch's servers that are not over, the oldest first. */
  servers: readonly ServerTask[];
  /** An operator has found this copy, at that time. */
  found: { copy: number; at: number } | null;
  changes: number;
  /** Names that a session has read once among those that may go. */
  told: readonly string[];
  wrong: string | null;
}

/** A volume, as the database knows it and as it is. */
interface Kept {
  /** When whatever had it ended; null: it has not. */
  purgeAt: number | null;
  /** What people were told of how long it is kept. */
  promisedUntil: number;
  isOnDisk: boolean;
}

interface ServerTask {
  generation: number;
  copy: number | null;
  isWanted: boolean;
  /** The agent has it in its journal. */
  isHeard: boolean;
}

export type VolumesMutant =
  | "tells when the time is over"
  | "forgets the copy that a server comes out of"
  | "takes no change for a reason"
  | "removes the old volume at the switch"
  | "keeps copies as short as volumes";

const branchId = "5a1d0c37-0000-4000-8000-00000000000a";
const copyIds = ["11111111-0000-4000-8000-000000000001"] as const;
const graceHours = 1 / 6;
const changesMax = 2;
/** What docs/databases.md says, in hours. */
const promised = { copy: 168, movedVolume: 24, restoredVolume: 168, dropped: 72 } as const;
const dropHours = 72;

export function volumesLife(mutant: VolumesMutant | null): Model<State> {
  const copyName = (at: number): string => copyVolume(copyIds[at] ?? "");
  const volumeOf = (generation: number): string => databaseVolume(branchId, generation);

  /** As the database is asked, see `loadVolumesOfNodes`. */
  function known({ branch, volumes, copies, change, servers, now }: State): KnownVolume[] {
    const grace = mutant === "tells when the time is over" ? 0 : graceHours;
    const isDue = ({ purgeAt }: Kept): boolean => purgeAt !== null && purgeAt + grace <= now;
    const isOver = ({ purgeAt }: Kept): boolean => purgeAt !== null;
    const seesChanges = mutant !== "takes no change for a reason";
    const ofBranch = volumes.map((volume, at) => ({
      ...{ of: "database" as const, id: branchId, generation: at + 1, isOver: isOver(volume), isDue: isDue(volume) },
      ...{ isCurrent: branch?.generation === at + 1, isChanging: seesChanges && change !== null, isGone: false },
      isUsed: servers.some(({ generation }) => generation === at + 1),
    }));
    const ofCopies = copies.map((copy, at) => ({
      ...{ of: "copy" as const, id: copyIds[at] ?? "", generation: 1, isOver: isOver(copy), isDue: isDue(copy) },
      ...{ isCurrent: false, isChanging: seesChanges && change?.copy === at, isGone: false },
      isUsed: mutant !== "forgets the copy that a server comes out of" && servers.some((server) => server.copy === at),
    }));
    return [...ofBranch, ...ofCopies];
  }

  const records = ({ servers }: State): PlacementRecord[] =>
    servers
      .filter(({ isHeard }) => isHeard)
      .map(({ generation, copy }) => ({
        placement: create(PlacementSchema, {
          spec: {
            case: "database",
            value: {
              ...{ databaseId: branchId, generation },
              ...(copy !== null && mutant !== "forgets the copy that a server comes out of"
                ? { restore: { copyId: copyIds[copy] ?? "" } }
                : {}),
            },
          },
        }),
        status: create(PlacementStatusSchema, { observed: Observed.RUNNING }),
        ...{ memory: freshMemory, orphan: false },
      }));

  const ended = (kept: Kept, now: number, hours: number, promise: number): Kept =>
    kept.purgeAt === null ? { ...kept, purgeAt: now + hours, promisedUntil: now + promise } : kept;
  /** One that has ended before is kept for as long, too, unless its time is over: see `endCopies`. */
  const endedCopy = (copy: Kept, now: number, hours: number, promise: number): Kept =>
    copy.purgeAt !== null && copy.purgeAt > now
      ? { ...copy, purgeAt: Math.max(copy.purgeAt, now + hours) }
      : ended(copy, now, hours, promise);

  /** The next volume, out of a copy; `kind` says what the one of before and the copies are kept for. */
  function switchOver(
    state: State,
    branch: NonNullable<State["branch"]>,
    copy: number,
    kind: "move" | "restore",
  ): State {
    const { now } = state;
    const generation = branch.generation + 1;
    const isHasty = mutant === "removes the old volume at the switch";
    const promise = kind === "move" ? promised.movedVolume : promised.restoredVolume;
    const hours = isHasty ? -graceHours : volumeHours[kind];
    const copiesFor = mutant === "keeps copies as short as volumes" ? volumeHours[kind] : copyHours;
    const volumes = state.volumes.map((volume, at) =>
      at + 1 === branch.generation ? ended(volume, now, hours, promise) : volume,
    );
    return {
      ...state,
      branch: { generation, has: "volume" },
      volumes: [...volumes, { purgeAt: null, promisedUntil: 0, isOnDisk: false }],
      copies: state.copies.map((each) => endedCopy(each, now, copiesFor, promised.copy)),
      change: { copy, is: "restoring" },
      servers: [...state.servers, { generation, copy, isWanted: true, isHeard: false }],
    };
  }

  function* operator(state: State): Generator<readonly [string, State]> {
    const { branch, change, now, found, changes } = state;
    if (branch === null) return;
    if (change === null && found === null && changes < changesMax) {
      for (const [at, { purgeAt, isOnDisk }] of state.copies.entries())
        if (isOnDisk && (purgeAt === null || purgeAt > now))
          yield [`the operator finds copy ${at}`, { ...state, found: { copy: at, at: now } }];
    }
    if (found !== null && change === null)
      yield [
        "a restore begins",
        { ...state, found: null, change: { copy: found.copy, is: "stopping" }, changes: changes + 1 },
      ];
    if (found !== null) yield ["the operator lets it be", { ...state, found: null }];
    if (change === null && found === null) yield ["it is dropped", dropped(state)];
  }

  const dropped = (state: State): State => ({
    ...{ ...state, branch: null },
    servers: state.servers.map((server) => ({ ...server, isWanted: false })),
    volumes: state.volumes.map((volume) => ended(volume, state.now, dropHours, promised.dropped)),
    copies: state.copies.map((copy) => endedCopy(copy, state.now, dropHours, promised.dropped)),
  });

  function* worker(state: State): Generator<readonly [string, State]> {
    const { branch, change, servers } = state;
    if (branch === null || change === null) return;
    const unwanted = servers.map((server) => ({ ...server, isWanted: false }));
    if (change.is === "stopping") {
      if (servers.some(({ isWanted }) => isWanted)) yield ["the server is to end", { ...state, servers: unwanted }];
      if (servers.length === 0) {
        yield ["the next volume of a restore", switchOver(state, branch, change.copy, "restore")];
        yield ["the next volume of a move", switchOver(state, branch, change.copy, "move")];
      }
      yield ["it is cancelled", { ...state, change: null }];
      return;
    }
    const isThere = state.volumes[branch.generation - 1]?.isOnDisk === true;
    yield [
      isThere ? "the change is done" : "the change fails",
      { ...state, change: null, branch: { ...branch, has: isThere ? "volume" : "error" } },
    ];
  }

  function* fleet(state: State): Generator<readonly [string, State]> {
    const { servers, branch, change } = state;
    for (const [at, server] of servers.entries()) {
      const become = (next: Partial<ServerTask>) => servers.with(at, { ...server, ...next });
      if (!server.isHeard && server.isWanted)
        yield ["the agent hears of a server", { ...state, servers: become({ isHeard: true }) }];
      if (!server.isWanted) yield ["a server is over", { ...state, servers: servers.toSpliced(at, 1) }];
      const volume = state.volumes[server.generation - 1];
      if (server.isHeard && volume !== undefined && !volume.isOnDisk && server.copy !== null) {
        const volumes = state.volumes.with(server.generation - 1, { ...volume, isOnDisk: true });
        const isLost = state.copies[server.copy]?.isOnDisk !== true;
        yield [
          "a server restores its copy",
          isLost ? { ...state, wrong: "a copy is gone that a server comes out of" } : { ...state, volumes },
        ];
      }
    }
    if (servers.length > 0 && change === null && servers.every(({ isWanted }) => isWanted) && branch !== null)
      yield [
        "another server over the same volume",
        {
          ...state,
          servers: servers.map((server) => ({ ...server, isWanted: false })),
        },
      ];
    if (
      servers.length === 0 &&
      change === null &&
      branch?.has === "volume" &&
      state.volumes[branch.generation - 1]?.isOnDisk
    )
      yield [
        "a server starts",
        { ...state, servers: [{ generation: branch.generation, copy: null, isWanted: true, isHeard: false }] },
      ];
  }

  function* removing(state: State): Generator<readonly [string, State]> {
    const { told } = state;
    const names = volumesToRemove(known(state)).filter((name) => !told.includes(name));
    if (names.length > 0)
      yield [`a session reads that ${names.join(" and ")} may go`, { ...state, told: [...told, ...names].sort() }];
    const needed = neededVolumes(records(state));
    const removed = (which: "volumes" | "copies", at: number, kept: Kept): State => ({
      ...{ ...state, [which]: state[which].with(at, { ...kept, isOnDisk: false }) },
      wrong: state.wrong ?? loss(state, which, at, kept),
    });
    for (const [at, volume] of state.volumes.entries())
      if (volume.isOnDisk && told.includes(volumeOf(at + 1)) && !needed.has(volumeOf(at + 1)))
        yield [`volume ${at + 1} is removed`, removed("volumes", at, volume)];
    for (const [at, copy] of state.copies.entries())
      if (copy.isOnDisk && told.includes(copyName(at)) && !needed.has(copyName(at)))
        yield [`copy ${at} is removed`, removed("copies", at, copy)];
  }

  /** What is lost with it; null: nothing that anybody may need. */
  function loss(
    { branch, change, servers, now }: State,
    which: "volumes" | "copies",
    at: number,
    kept: Kept,
  ): string | null {
    if (kept.purgeAt === null || now < kept.promisedUntil) return "what is kept for a while is removed before its time";
    if (which === "copies") {
      if (change?.copy === at) return "a copy is removed that a change comes out of";
      return servers.some((server) => server.copy === at && server.isWanted)
        ? "a copy is removed that a server comes out of"
        : null;
    }
    if (branch?.generation === at + 1) return "the volume of a branch is removed";
    return servers.some(({ generation }) => generation === at + 1) ? "the volume of a server is removed" : null;
  }

  /** Jumps to where what is due becomes another; what is asked for takes minutes. */
  function* time(state: State): Generator<readonly [string, State]> {
    const marks = [...state.volumes, ...state.copies]
      .flatMap(({ purgeAt, promisedUntil }) =>
        purgeAt === null ? [] : [purgeAt - graceHours / 2, purgeAt, purgeAt + graceHours, promisedUntil],
      )
      .filter((mark) => mark > state.now);
    if (marks.length === 0) return;
    const now = Math.min(...marks);
    // A request that found something is over within minutes.
    const isLate = state.found !== null && now - state.found.at >= graceHours;
    yield ["time passes", { ...state, now, found: isLate ? null : state.found }];
  }

  const held: Kept = { purgeAt: null, promisedUntil: 0, isOnDisk: true };
  return {
    initial: {
      ...{ now: 0, branch: { generation: 1, has: "volume" }, volumes: [held], copies: [held], change: null },
      servers: [{ generation: 1, copy: null, isWanted: true, isHeard: true }],
      ...{ found: null, changes: 0, told: [], wrong: null },
    },
    *next(state) {
      yield* operator(state);
      yield* worker(state);
      yield* fleet(state);
      yield* removing(state);
      yield* time(state);
    },
    key: (state) => {
      // Only how far away a time is matters.
      const away = (at: number | null) => (at === null ? null : Math.max(-1, at - state.now).toFixed(2));
      const kept = ({ purgeAt, promisedUntil, isOnDisk }: Kept) => [away(purgeAt), away(promisedUntil), isOnDisk];
      return JSON.stringify([
        ...[state.branch, state.volumes.map(kept), state.copies.map(kept), state.change, state.servers],
        ...[state.found && [state.found.copy, away(state.found.at + graceHours)], state.changes],
        ...[state.told, state.wrong],
      ]);
    },
    problem: ({ wrong }) => wrong,
  };
}
