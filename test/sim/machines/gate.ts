import type { ProxyDir } from "@svc/agent/databases/proxy-dir";
import type { DatabaseProxyEntry, DatabaseProxyTable } from "@svc/proto/database-proxy";
import type { Kernel } from "../kernel/kernel.ts";
import type { Random } from "../kernel/random.ts";

/**
 * The database proxy of one machine, as far as a table is in force there: it reads what the agent writes, and keeps to what it
 * has read, whoever is away. The file outlives it.
 */
export class Gate {
  private file: DatabaseProxyTable | null = null;
  private inForce: DatabaseProxyTable | null = null;
  private life = 1;
  /** Whose certificates count no more here. */
  gone: ReadonlySet<string> = new Set();
  /** Called when another table is in force. */
  onTable: (before: DatabaseProxyTable | null, now: DatabaseProxyTable) => void = () => {};

  private readonly kernel: Kernel;
  private readonly random: Random;

  constructor(kernel: Kernel, random: Random) {
    this.kernel = kernel;
    this.random = random;
  }

  /** Null: there is no table, or no proxy. */
  entryOf(databaseId: string): DatabaseProxyEntry | null {
    return this.inForce?.entries.find((entry) => entry.databaseId === databaseId) ?? null;
  }

  /** It ends, and a new one begins with nothing but the file. */
  restart(downMs: number): void {
    this.life += 1;
    this.inForce = null;
    this.read(downMs);
  }

  private read(afterMs: number): void {
    const { life } = this;
    this.kernel.at(afterMs, "gate reads its table", () => {
      const { file, inForce } = this;
      if (life !== this.life || file === null) return;
      if (inForce !== null && BigInt(file.generation) <= BigInt(inForce.generation)) return;
      this.inForce = file;
      this.onTable(inForce, file);
    });
  }

  /** The directory that it shares with the agent. */
  readonly dir: ProxyDir = {
    ids: async () => ({ uid: 0, gid: 0 }),
    readTable: async () => this.file,
    writeTable: async (table) => {
      this.file = structuredClone(table);
      if (table.entries.length > 0 || this.inForce !== null) this.read(this.random.between(1, 300));
    },
    readGone: async () => ({ ids: [...this.gone] }),
    writeGone: async ({ ids }) => {
      this.gone = new Set(ids);
    },
    readState: async () => this.inForce && { generation: this.inForce.generation, pid: this.life, connections: [] },
    readEntrances: async () => null,
    writeEntrances: async () => {},
    readEntrancesState: async () => null,
    writeCredentials: async () => {},
    forgetCredentials: async () => {},
  };
}
