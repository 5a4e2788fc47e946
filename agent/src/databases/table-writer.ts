import { isDeepStrictEqual } from "node:util";
import type { DatabaseProxyTable } from "@svc/proto/database-proxy";
import type { DatabaseTable } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import type { Journal } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import { generationAfter } from "./generation.ts";
import type { ProxyDir } from "./proxy-dir.ts";
import { type Bridge, type Here, nothingTold, proxyEntries, type Told, takeTable } from "./table.ts";
import { knownDatabases, saveDatabases } from "./told.ts";

/** What this node's database proxy goes by. It is kept and used without control, also by a later life of this agent. */
export interface DatabaseTables {
  /** Takes control's whole word on databases: it is journaled when this returns. */
  take(table: DatabaseTable): void;
  /** A network or an instance came or went. */
  wake(): void;
  /**
   * Waits until the proxy lets containers of a network in to a database, ten seconds at most, or until the signal aborts.
   * False: it does not; the log has it.
   */
  reachable(databaseId: string, network: Pick<Bridge, "projectId" | "channel">, signal: AbortSignal): Promise<boolean>;
  /** Writes the table whenever it becomes another, until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** The directories of the doors of copies. */
export interface CopyDoors {
  /** Makes them, or what a reboot left of them right. */
  lay(copyIds: readonly string[]): Promise<void>;
  /** Removes all but these, and but those whose keeper is here. */
  removeOthers(copyIds: readonly string[]): Promise<void>;
}

/** Events can be lost, and networks be removed by others. */
const lookEveryMs = 30_000;
const reachableMs = 10_000;
const stateLookMs = 100;

export function createDatabaseTables(options: {
  clock: Clock;
  journal: Pick<Journal, "findSetting" | "saveSetting">;
  dir: ProxyDir;
  here: Pick<Here, "nodeId" | "peerPort" | "socketOf" | "doorOf">;
  bridges(): Promise<Bridge[]>;
  doors: CopyDoors;
  /** Lets programs of this machine speak to the proxies that the journal knows by now. */
  openWays(): Promise<void>;
  log: Log;
}): DatabaseTables {
  const { clock, journal, dir, here, log } = options;
  const changed = createWake(clock);
  let told: Told | null = knownDatabases(journal);
  /** What is on the disk, with the bridges that it was made of. */
  let written: { table: DatabaseProxyTable; bridges: readonly Bridge[] } | null = null;

  const write = async (): Promise<void> => {
    await writeGone();
    const bridges = await options.bridges();
    const before = written?.table ?? (await dir.readTable());
    // Without a word of control, and without the journal of a former life, what is there is the best there is.
    const entries =
      told === null && before !== null ? before.entries : proxyEntries(told?.entries ?? [], { ...here, bridges });
    const doors = entries.flatMap(({ copies }) =>
      copies.flatMap(({ copyId, door }) => (door === null ? [] : [copyId])),
    );
    await options.doors.lay(doors).catch(notLaid);
    const table =
      before !== null && isDeepStrictEqual(before.entries, entries) ? before : await replace(before, entries);
    written = { table, bridges };
    // Nobody has said yet which there are to be.
    if (told !== null) await options.doors.removeOthers(doors);
  };

  /** Who is gone comes in no more, whatever becomes of the table. */
  const writeGone = async (): Promise<void> => {
    // Without a word of control what is there is the best there is.
    if (told === null) return;
    const gone = { ids: [...told.goneIds] };
    if (isDeepStrictEqual(await dir.readGone(), gone)) return;
    await dir.writeGone(gone);
    log.info({ machines: gone.ids.length }, "the database proxy is told of other machines that are gone");
  };

  // The way of apps to their databases waits for no copy.
  const notLaid = (cause: unknown): void => log.warn({ err: cause }, "the doors of copies cannot be made");

  const replace = async (
    before: DatabaseProxyTable | null,
    entries: DatabaseProxyTable["entries"],
  ): Promise<DatabaseProxyTable> => {
    // What the proxy has in force counts, too: it refuses what is older than that.
    const inForce = (await dir.readState())?.generation ?? "0";
    const table = { generation: generationAfter(before?.generation ?? "0", inForce), entries };
    if (!isDeepStrictEqual(peersOf(before?.entries ?? []), peersOf(entries))) {
      const notOpen = (cause: unknown): void => log.warn({ err: cause }, "the way to other proxies cannot be opened");
      await options.openWays().catch(notOpen);
    }
    await dir.writeTable(table);
    log.info({ generation: table.generation, databases: entries.length }, "the table of the database proxy is another");
    return table;
  };

  /** The generation that is on the disk, once that lets the network in. */
  const generationFor = (databaseId: string, { projectId, channel }: Pick<Bridge, "projectId" | "channel">) => {
    if (written === null) return null;
    const own = written.bridges.find((bridge) => bridge.projectId === projectId && bridge.channel === channel);
    const entry = written.table.entries.find((each) => each.databaseId === databaseId);
    const isIn = own !== undefined && entry?.bridges.includes(own.address) === true;
    return isIn ? BigInt(written.table.generation) : null;
  };
  const isInForce = async (databaseId: string, network: Pick<Bridge, "projectId" | "channel">): Promise<boolean> => {
    const generation = generationFor(databaseId, network);
    if (generation === null) return false;
    const state = await dir.readState();
    return state !== null && BigInt(state.generation) >= generation;
  };

  return {
    take(table) {
      const { told: next, refused } = takeTable(told ?? nothingTold, table);
      for (const databaseId of refused) log.warn({ databaseId }, "what control says of a database is not taken");
      saveDatabases(journal, next);
      told = next;
      changed.signal();
    },
    wake: changed.signal,
    async reachable(databaseId, { projectId, channel }, signal) {
      const network = { projectId, channel };
      const untilMs = clock.steadyMs() + reachableMs;
      changed.signal();
      while (!signal.aborted) {
        if (await isInForce(databaseId, network)) return true;
        if (clock.steadyMs() >= untilMs) break;
        await pause(clock, stateLookMs, signal);
      }
      if (!signal.aborted)
        log.warn({ databaseId, ...network }, "the database proxy does not know the way yet: not waiting for it");
      return false;
    },
    run: (signal) =>
      runLoop(
        {
          ...{ clock, wake: changed, periodMs: lookEveryMs, signal },
          onError: (cause) => log.error({ err: cause }, "the table of the database proxy cannot be written"),
        },
        write,
      ),
  };
}

/** Proxies of other machines, as the table names them. */
const peersOf = (entries: DatabaseProxyTable["entries"]): string[] =>
  [...new Set(entries.flatMap(({ at }) => (at !== null && "host" in at ? [`${at.host} ${at.port}`] : [])))].toSorted();
