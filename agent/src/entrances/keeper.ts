import { isDeepStrictEqual } from "node:util";
import type { Entrances } from "@svc/proto/entrances";
import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import { generationAfter } from "../databases/generation.ts";
import type { ProxyDir } from "../databases/proxy-dir.ts";
import type { Journal } from "../journal/journal.ts";
import type { PlacementRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import { isLoopback } from "../network/loopback.ts";
import { entrancesOf, goesBehindEntrance, joined } from "./rules.ts";

/** The entrances of this node: where its database proxy listens for edges, on behalf of containers. */
export interface EntranceKeeper {
  /** What control says with each assignment. Journaled when this returns. */
  hear(edgesKnow: boolean): void;
  /** Whether a container that begins now is to be behind one. */
  isWanted(): Promise<boolean>;
  /** Something may have another entrance, or none any more. */
  wake(): void;
  /** Every container of this node has been looked at: entrances that none has are nobody's. */
  surveyed(): void;
  /** Waits until the proxy listens at the port, ten seconds at most, or until the signal aborts. False: it does not. */
  isOpen(port: number, signal: AbortSignal): Promise<boolean>;
  /** Writes them whenever there are others, until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** A placement may be forgotten without a word. */
const lookEveryMs = 30_000;
const openWithinMs = 10_000;
const stateLookMs = 50;
const edgesSetting = "edges-know-entrances";

export function createEntranceKeeper(options: {
  clock: Clock;
  /** The node's own. */
  address: string;
  /** Whether containers that begin are put behind entrances at all. */
  isOn: boolean;
  journal: Pick<Journal, "findSetting" | "saveSetting">;
  dir: Pick<ProxyDir, "readEntrances" | "writeEntrances" | "readEntrancesState">;
  placements(): PlacementRecord[];
  log: Log;
}): EntranceKeeper {
  const { clock, address, isOn, journal, dir, log } = options;
  const changed = createWake(clock);
  let written: Entrances | null = null;
  let isSurveyed = false;

  const write = async (): Promise<void> => {
    if (isLoopback(address)) return;
    const before = written ?? (await dir.readEntrances());
    const own = entrancesOf(options.placements());
    // Without its journal this agent finds containers only by and by, while their visitors come in.
    const entrances = isSurveyed || before === null ? own : joined(own, before.entrances);
    if (before === null && entrances.length === 0) return;
    if (before !== null && before.address === address && isDeepStrictEqual(before.entrances, entrances)) {
      written = before;
      return;
    }
    const inForce = (await dir.readEntrancesState())?.generation ?? "0";
    const generation = generationAfter(before?.generation ?? "0", inForce);
    const next = { generation, address, entrances };
    await dir.writeEntrances(next);
    written = next;
    log.info({ generation, entrances: entrances.length }, "the node has other entrances");
  };

  const isInForce = async (port: number): Promise<boolean> => {
    if (written === null || !written.entrances.some((each) => each.port === port)) return false;
    const state = await dir.readEntrancesState();
    return state !== null && BigInt(state.generation) >= BigInt(written.generation) && !state.missing.includes(port);
  };

  return {
    hear(edgesKnow) {
      const said = String(edgesKnow);
      if (journal.findSetting(edgesSetting) !== said) journal.saveSetting(edgesSetting, said);
    },
    async isWanted() {
      const proxyKnows = (await dir.readEntrancesState()) !== null;
      return goesBehindEntrance({ address, isOn, edgesKnow: journal.findSetting(edgesSetting) === "true", proxyKnows });
    },
    wake: changed.signal,
    surveyed() {
      if (!isSurveyed) changed.signal();
      isSurveyed = true;
    },
    async isOpen(port, signal) {
      const untilMs = clock.steadyMs() + openWithinMs;
      changed.signal();
      while (!signal.aborted) {
        if (await isInForce(port)) return true;
        if (clock.steadyMs() >= untilMs) break;
        await pause(clock, stateLookMs, signal);
      }
      return false;
    },
    run: (signal) =>
      runLoop(
        {
          ...{ clock, wake: changed, periodMs: lookEveryMs, signal },
          onError: (cause) => log.error({ err: cause }, "the entrances of this node cannot be written"),
        },
        write,
      ),
  };
}
