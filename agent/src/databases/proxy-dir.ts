import { constants } from "node:fs";
import { chmod, mkdir, open, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import {
  type DatabaseProxyGone,
  type DatabaseProxyState,
  type DatabaseProxyTable,
  databaseProxyFiles,
  databaseProxyGone,
  databaseProxyState,
  databaseProxyTable,
} from "@svc/proto/database-proxy";
import { type Entrances, type EntrancesState, entranceFiles, entrances, entrancesState } from "@svc/proto/entrances";
import { isFileError, writeDurably } from "@svc/runtime/durable-file";
import type { Ids } from "../engine/context-owner.ts";

/** What a node shows of itself, in PEM. */
export interface ProxyCredentials {
  certificatePem: string;
  privateKeyPem: string;
  caPem: string;
  /** What edges know it by; empty: nothing. */
  entrancePem: string;
}

/** The directory that the agent shares with the database proxy of its node. Whoever owns it is the proxy. */
export interface ProxyDir {
  /** The user and the group that the proxy is of. */
  ids(): Promise<Ids>;
  /** Null when there is none, or nothing that is one. */
  readTable(): Promise<DatabaseProxyTable | null>;
  writeTable(table: DatabaseProxyTable): Promise<void>;
  /** Null when there is none, or nothing that is one. */
  readGone(): Promise<DatabaseProxyGone | null>;
  writeGone(gone: DatabaseProxyGone): Promise<void>;
  /** What the proxy said of itself last, which may have ended since; null when it never said anything. */
  readState(): Promise<DatabaseProxyState | null>;
  /** Null when there are none, or nothing that is some. */
  readEntrances(): Promise<Entrances | null>;
  writeEntrances(entrances: Entrances): Promise<void>;
  /** What the proxy said last of its entrances; null when it never said anything of any. */
  readEntrancesState(): Promise<EntrancesState | null>;
  /** Gives it what other nodes know it by. Nobody else of this machine may read the key. */
  writeCredentials(credentials: ProxyCredentials): Promise<void>;
  forgetCredentials(): Promise<void>;
}

/** Ten thousand databases have some six in a table. */
const fileMaxBytes = 32 * 1024 * 1024;

export function openProxyDir(dir: string): ProxyDir {
  const files = { ...databaseProxyFiles, entrances: entranceFiles.entrances, entrancesState: entranceFiles.state };
  const pathOf = (name: keyof typeof files) => join(dir, files[name]);

  const entrancePath = join(dir, entranceFiles.certificate);

  /** Made when it is missing, for a proxy that comes later and as somebody else. */
  const ownerOf = async (): Promise<Ids> => {
    const made = await mkdir(dir, { recursive: true });
    // Whatever this process masks: the proxy has to get in, and what is secret says so itself.
    if (made !== undefined) await chmod(dir, 0o755);
    const { uid, gid } = await stat(dir);
    return { uid, gid };
  };

  const read = async <T>(name: keyof typeof files, parse: (value: unknown) => T | null) => {
    const text = await readPlainFile(pathOf(name));
    return text === null ? null : parse(toJson(text));
  };

  const write = async (name: keyof typeof files, value: object): Promise<void> => {
    await ownerOf();
    await writeDurably(pathOf(name), `${JSON.stringify(value)}\n`, { mode: 0o644 });
  };

  return {
    ids: ownerOf,
    readTable: () => read("table", (value) => databaseProxyTable.safeParse(value).data ?? null),
    writeTable: (table) => write("table", table),
    readGone: () => read("gone", (value) => databaseProxyGone.safeParse(value).data ?? null),
    writeGone: (gone) => write("gone", gone),
    readState: () => read("state", (value) => databaseProxyState.safeParse(value).data ?? null),
    readEntrances: () => read("entrances", (value) => entrances.safeParse(value).data ?? null),
    writeEntrances: (wanted) => write("entrances", wanted),
    readEntrancesState: () => read("entrancesState", (value) => entrancesState.safeParse(value).data ?? null),
    async writeCredentials({ certificatePem, privateKeyPem, caPem, entrancePem }) {
      const found = await ownerOf();
      const owner = found.uid === process.getuid?.() ? {} : { owner: found };
      // The proxy takes them once they fit together.
      await writeDurably(pathOf("ca"), caPem, owner);
      await writeDurably(pathOf("key"), privateKeyPem, owner);
      if (entrancePem === "") await rm(entrancePath, { force: true });
      else await writeDurably(entrancePath, entrancePem, owner);
      await writeDurably(pathOf("certificate"), certificatePem, owner);
    },
    async forgetCredentials() {
      for (const path of [...(["certificate", "key", "ca"] as const).map(pathOf), entrancePath])
        await rm(path, { force: true });
    },
  };
}

/** The text of a file, and of nothing else that somebody may have put into its place; null when there is none. */
async function readPlainFile(path: string): Promise<string | null> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const { size } = await file.stat();
    return (await file.stat()).isFile() && size <= fileMaxBytes ? await file.readFile("utf8") : null;
  } catch (cause) {
    if (isFileError(cause, "ENOENT", "ELOOP")) return null;
    throw cause;
  }
}

function toJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
