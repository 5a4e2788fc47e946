import type { DatabaseEngine } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { layCopyDoor, removeOtherCopyDoors } from "../databases/copy-door.ts";
import { probeDatabase } from "../databases/probe.ts";
import { laySocketDir } from "../databases/socket-dir.ts";
import { measureVolume } from "../databases/volume-size.ts";
import type { Owner } from "../engine/engine.ts";
import { type Probe, probe } from "../health/probe.ts";
import { type TcpTables, tcpTablesOf } from "../health/sockets.ts";
import { findCopyStatus } from "../keepers/read-status.ts";
import { isPortFree } from "../network/ports.ts";
import { type Gates, gateFiles } from "../runs/gate-files.ts";
import { readBootId } from "./boot-id.ts";

/**
 * What the agent sees of its machine beside the container engine, and does there, for placements and runs. The simulator
 * has machines of its own.
 */
export interface Machine {
  /** Names this boot of it. */
  readonly bootId: string;
  readonly gates: Gates;
  /** Whether nobody listens on it at `address` now. */
  isPortFree(address: string, port: number): Promise<boolean>;
  tcpTables: TcpTables;
  /** The directory of a copy's door; see `layCopyDoor`. */
  layCopyDoor: typeof layCopyDoor;
  /** Removes the directories of the doors of all copies of databases but these. */
  removeOtherCopyDoors(owner: Owner, copyIds: readonly string[]): Promise<void>;
  /** What the keeper of a copy told last, and what a volume takes; both by the volume's directory. */
  findCopyStatus: typeof findCopyStatus;
  measureVolume: typeof measureVolume;
  /** The directory of a database's socket as its server needs it; see `laySocketDir`. */
  laySocketDir: typeof laySocketDir;
  /** Whether the server behind a socket takes sessions. */
  probeDatabase(
    server: { engine: DatabaseEngine; socketPath: string },
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<boolean>;
  /** GETs a container's health path. Any 2xx or 3xx is healthy. */
  probe(upstream: string, path: string, timeoutMs: number, signal: AbortSignal): Promise<Probe>;
}

/** The one that this program runs on. */
export const thisMachine = (clock: Clock): Machine => ({
  bootId: readBootId(),
  gates: gateFiles,
  isPortFree,
  tcpTables: tcpTablesOf,
  layCopyDoor,
  removeOtherCopyDoors,
  findCopyStatus,
  measureVolume,
  laySocketDir,
  probeDatabase: (server, timeoutMs, signal) => probeDatabase({ clock, ...server }, timeoutMs, signal),
  probe: (upstream, path, timeoutMs, signal) => probe(clock, upstream, path, timeoutMs, signal),
});
