import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DatabaseProxyEntry, type DatabaseProxyState, databaseProxyState } from "@svc/proto/database-proxy";
import { writeDurably } from "@svc/runtime/durable-file";
import { type Config, readConfig } from "../config.ts";
import { createLog } from "../log.ts";
import { type DatabaseProxy, start } from "../start.ts";
import { goneFile, tableFile } from "../table/load.ts";
import { waitFor } from "./wait-for.ts";

export const ports = { postgres: 25_432, mariadb: 23_306 };

/**
 * Stands for the address of a bridge: one of loopback that no other test process has. Ports may be shared by proxies, so
 * nothing would say that two are at one address.
 */
export const bridge = (number: number): string =>
  `127.${10 + number}.${(process.pid >> 8) & 255}.${process.pid & 255 || 255}`;

/** What the agent does for the proxy of its machine. */
export interface Place extends AsyncDisposable {
  dir: string;
  config: Config;
  /** Writes the next table; resolves as soon as it is in force. */
  put(entries: readonly DatabaseProxyEntry[]): Promise<void>;
  /** Writes it, and does not wait. Its generation. */
  write(entries: readonly DatabaseProxyEntry[]): Promise<string>;
  /** Writes which machines are gone, and does not wait. */
  refuse(ids: readonly string[]): Promise<void>;
  state(): Promise<DatabaseProxyState>;
  env: Record<string, string>;
}

export async function aPlace(settings: Record<string, string> = {}): Promise<Place> {
  const dir = await mkdtemp(join(tmpdir(), "svc-dbproxy-"));
  const env = {
    SVC_DBPROXY_DIR: dir,
    SVC_DBPROXY_POSTGRES_PORT: String(ports.postgres),
    SVC_DBPROXY_MARIADB_PORT: String(ports.mariadb),
    SVC_LOG_LEVEL: "silent",
    ...settings,
  };
  let generation = 0;
  const place: Place = {
    ...{ dir, env, config: readConfig(env) },
    async write(entries) {
      generation += 1;
      await writeDurably(tableFile(dir), JSON.stringify({ generation: String(generation), entries }));
      return String(generation);
    },
    async put(entries) {
      const written = await place.write(entries);
      await waitFor(async () => (await place.state()).generation === written);
    },
    refuse: (ids) => writeDurably(goneFile(dir), JSON.stringify({ ids })),
    state: async () => databaseProxyState.parse(JSON.parse(await readFile(join(dir, "state.json"), "utf8"))),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
  return place;
}

export const startProxy = ({ config }: Place): Promise<DatabaseProxy> => start(config, { log: createLog("silent") });
