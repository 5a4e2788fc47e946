import { chmod, rename, rm, stat } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { TableIndex } from "../table/lookup.ts";
import { connected } from "./connected.ts";

/** The Unix sockets at which keepers of this machine's copies dial, one for each copy. */
export interface CopyDoors {
  /** Opens what the table names and closes what it does not. False: a directory is not there yet, so it has to be called again. */
  follow(index: TableIndex): Promise<boolean>;
  /** Closes all of them; connections that are there go on. */
  close(): Promise<void>;
}

interface Door {
  server: Server;
  /** Tells it from the socket of a process that took over. */
  inode: bigint;
}

/** Of one door at once: more than the server's machine lets in, so that it is that which says so. */
const connectionsMax = 16;
/** For its owner and its group, which is that of its directory: whoever is behind it in a keeper's container. */
const socketMode = 0o660;
/** Whoever listens at a socket of this machine takes no time to be connected to. */
const lookMs = 1_000;

export function listenForKeepers(options: {
  clock: Clock;
  onKeeper(path: string, keeper: Socket): void;
  metrics: Metrics;
  log: Log;
}): CopyDoors {
  const { clock, onKeeper, metrics, log } = options;
  const doors = new Map<string, Door>();
  const complained = new Set<string>();

  async function open(path: string): Promise<boolean> {
    const server = createServer({ allowHalfOpen: true }, (keeper) => {
      keeper.on("error", () => {});
      onKeeper(path, keeper);
    });
    server.maxConnections = connectionsMax;
    // Made under a name of its own and then renamed: so it takes the place of what a process before left or still has, at one
    // moment, and its end takes nobody else's away.
    const own = `${path}.${process.pid}`;
    try {
      await rm(own, { force: true });
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(own, resolve);
      });
      await chmod(own, socketMode);
      const { ino: inode } = await stat(own, { bigint: true });
      await rename(own, path);
      doors.set(path, { server, inode });
    } catch (err) {
      server.close();
      // The agent lays the directory, and the table may be ahead of it.
      if (!complained.has(path)) log.warn({ err, path }, "cannot listen for a keeper yet");
      complained.add(path);
      return false;
    }
    complained.delete(path);
    server.on("error", (err) => log.error({ err, path }, "a door of a copy failed"));
    return true;
  }

  async function close(path: string): Promise<void> {
    const door = doors.get(path);
    if (door === undefined) return;
    doors.delete(path);
    door.server.close();
    const found = await inodeOf(path);
    if (found === door.inode) await rm(path, { force: true });
  }

  /** Whether a keeper who dials there is listened to: by this process, or by one that took over. */
  async function isOpen(path: string): Promise<boolean> {
    const door = doors.get(path);
    if (door === undefined) return false;
    const found = await inodeOf(path);
    return found === door.inode || (found !== null && (await isListenedAt(clock, path)));
  }

  async function follow({ byDoor }: TableIndex): Promise<boolean> {
    for (const path of [...doors.keys()]) if (!byDoor.has(path)) await close(path);
    let missing = 0;
    for (const path of byDoor.keys()) {
      if (await isOpen(path)) continue;
      await close(path);
      if (!(await open(path))) missing += 1;
    }
    for (const path of complained) if (!byDoor.has(path)) complained.delete(path);
    metrics.copyDoors.set(doors.size);
    metrics.copyDoorsMissing.set(missing);
    return missing === 0;
  }

  return {
    follow,
    async close() {
      for (const path of [...doors.keys()]) await close(path);
    },
  };
}

/** Null when nothing is there. */
const inodeOf = async (path: string): Promise<bigint | null> =>
  (await stat(path, { bigint: true }).catch(() => null))?.ino ?? null;

async function isListenedAt(clock: Clock, path: string): Promise<boolean> {
  const probe = connect({ path });
  const isThere = await connected(probe, "connect", clock.abortAfter(lookMs));
  probe.destroy();
  return isThere;
}
