import { copyVolume, type DatabaseEngine } from "@svc/proto";
import type { Kernel, Process } from "../kernel/kernel.ts";
import type { Random } from "../kernel/random.ts";
import type { Container } from "./docker.ts";

/** What the container of a database's server is made with besides. */
export interface ServerMade {
  databaseId: string;
  engine: DatabaseEngine;
  generation: number;
  epoch: bigint;
  /** The name of its volume. */
  volume: string;
  /** Where it listens. */
  socketPath: string;
  /** An empty volume may be made a database. */
  init: boolean;
  /** The copy that an empty one is filled from; null: none. */
  restore: string | null;
  readOnly: boolean;
}

/** What an app was told that is written, and what was before it. */
export interface Write {
  readonly number: number;
  readonly atMs: number;
  readonly before: Write | null;
}

/** The tenant's role, and who brought its password last. */
export interface Role {
  verifier: string;
  connectionLimit: number;
  /** Nobody may log in as it. */
  isLocked: boolean;
  by: Process;
  life: number;
  atMs: number;
}

/** What is in the volume of a copy. */
export interface Copied {
  readonly engine: DatabaseEngine;
  /** The server's log since then, or since the copies before, is here. */
  hasBegun: boolean;
  /** The oldest first; `untilMs`: the log that goes with it ends there. */
  bases: readonly { number: number; atMs: number; untilMs: number | null }[];
  /** Everything of a server until then; null: there is nothing whole yet. */
  whole: (Pick<Volume, "last" | "role" | "keeper"> & { atMs: number }) | null;
}

/** The data of one database on one machine: it outlives every container, and is on the disk. */
export interface Volume {
  readonly name: string;
  readonly databaseId: string;
  readonly generation: number;
  /** The data is there, whole. */
  hasData: boolean;
  /** Null: it was never made. */
  role: Role | null;
  /** What those log in with who keep copies; null: nobody told it. */
  keeper: string | null;
  /** Copies that the server keeps its log for. */
  readonly slots: Set<string>;
  /** The newest that is in it. */
  last: Write | null;
  /** Sessions of its role were ended so often. */
  ended: number;
}

/** Who hears of servers, for the checks. */
export interface ServerWitness {
  /** A container of one begins, before anything keeps it from its data. */
  onServerBegins(container: Container, machineId: string): void;
  onDataMade(volume: Volume, machineId: string): void;
  onRestored(volume: Volume, machineId: string): void;
  onServes(container: Container): void;
  /** A dumper has written everything, and ended well. */
  onDumped(text: string): void;
  onVolumeRemoved(volume: Volume, machineId: string): void;
  onCopyRemoved(copyId: string, machineId: string): void;
  onVolumesLost(names: Iterable<string>, machineId: string): void;
}

/** Codes of the entry point of database images. */
const heldCode = 75;
const missingCode = 77;
/** Of a copy that is not whole. */
const brokenCode = 1;

/** What one machine's containers of databases do by themselves, and what is in their volumes. */
export class DatabaseServers {
  readonly volumes = new Map<string, Volume>();
  /** Copies of databases of other machines, by id. */
  readonly copies = new Map<string, Copied>();
  /** The containers that have the lock of a volume, by its name. */
  private readonly holders = new Map<string, Container>();
  /** When the start was that a server serves since, by instance. */
  private readonly serving = new Map<string, number>();
  readonly random: Random;

  private readonly kernel: Kernel;
  private readonly machineId: string;
  private readonly witness: ServerWitness;

  constructor(kernel: Kernel, process: Process, machineId: string, witness: ServerWitness) {
    this.kernel = kernel;
    this.machineId = machineId;
    this.witness = witness;
    this.random = process.random.fork("databases");
  }

  /** As the engine does for a container that is made. */
  provide({ volume: name, databaseId, generation }: ServerMade): void {
    const empty = { hasData: false, role: null, keeper: null, last: null, ended: 0 };
    if (!this.volumes.has(name)) this.volumes.set(name, { name, databaseId, generation, slots: new Set(), ...empty });
  }

  /** The same for the keeper of a copy. */
  provideCopy(copyId: string, engine: DatabaseEngine): void {
    if (!this.copies.has(copyId)) this.copies.set(copyId, { engine, hasBegun: false, bases: [], whole: null });
  }

  remove(name: string): void {
    for (const id of this.copies.keys()) {
      if (copyVolume(id) !== name) continue;
      this.copies.delete(id);
      this.witness.onCopyRemoved(id, this.machineId);
    }
    const volume = this.volumes.get(name);
    this.volumes.delete(name);
    if (volume !== undefined) this.witness.onVolumeRemoved(volume, this.machineId);
  }

  /** The engine's data is gone. */
  lose(): void {
    this.witness.onVolumesLost([...this.volumes.keys(), ...[...this.copies.keys()].map(copyVolume)], this.machineId);
    this.volumes.clear();
    this.copies.clear();
    this.holders.clear();
  }

  /** What a container does from its start on: as `deploy/database/entry.sh` has it. */
  begin(container: Container, server: ServerMade, exit: (code: number) => void): void {
    const { startedAtMs } = container;
    const { random } = this;
    const then = (delayMs: number, tag: string, act: () => void): void =>
      void this.kernel.at(delayMs, tag, () => {
        if (container.state === "running" && container.startedAtMs === startedAtMs) act();
      });
    const serve = (): void =>
      then(random.between(100, 3_000), "server serves", () => {
        this.serving.set(container.instance, startedAtMs);
        this.witness.onServes(container);
      });
    this.witness.onServerBegins(container, this.machineId);
    then(random.between(5, 80), "server begins", () => {
      const holder = this.holders.get(server.volume);
      if (holder !== undefined && holder !== container && holder.state === "running") return exit(heldCode);
      this.holders.set(server.volume, container);
      const volume = this.volumes.get(server.volume);
      if (volume?.hasData === true) return serve();
      if (volume === undefined || (!server.init && server.restore === null)) return exit(missingCode);
      then(random.between(300, 6_000), "data is made", () => {
        if (server.restore !== null) {
          const whole = this.copies.get(server.restore)?.whole ?? null;
          if (whole === null) return exit(brokenCode);
          const { last, role, keeper } = whole;
          Object.assign(volume, { hasData: true, last, keeper, role: role && { ...role } });
          this.witness.onRestored(volume, this.machineId);
          return serve();
        }
        volume.hasData = true;
        this.witness.onDataMade(volume, this.machineId);
        serve();
      });
    });
  }

  isAnswering({ state, instance, startedAtMs, isSick }: Container): boolean {
    return state === "running" && !isSick && this.serving.get(instance) === startedAtMs;
  }
}
