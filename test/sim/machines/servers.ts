import type { DatabaseEngine } from "@svc/proto";
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
  readOnly: boolean;
}

/** The data of one database on one machine: it outlives every container, and is on the disk. */
export interface Volume {
  readonly name: string;
  readonly databaseId: string;
  readonly generation: number;
  /** The data is there, whole. */
  hasData: boolean;
  /** The tenant's role, and who brought its password last; null: it was never made. */
  role: { verifier: string; connectionLimit: number; by: Process; life: number; atMs: number } | null;
}

/** Who hears of servers, for the checks. */
export interface ServerWitness {
  /** A container of one begins, before anything keeps it from its data. */
  onServerBegins(container: Container, machineId: string): void;
  onDataMade(volume: Volume, machineId: string): void;
  onServes(container: Container): void;
  /** A dumper has written everything, and ended well. */
  onDumped(text: string): void;
  onVolumeRemoved(volume: Volume, machineId: string): void;
  onVolumesLost(names: Iterable<string>, machineId: string): void;
}

/** Codes of the entry point of database images. */
const heldCode = 75;
const missingCode = 77;

/** What one machine's containers of databases do by themselves, and what is in their volumes. */
export class DatabaseServers {
  readonly volumes = new Map<string, Volume>();
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
    if (!this.volumes.has(name)) this.volumes.set(name, { name, databaseId, generation, hasData: false, role: null });
  }

  remove(name: string): void {
    const volume = this.volumes.get(name);
    this.volumes.delete(name);
    if (volume !== undefined) this.witness.onVolumeRemoved(volume, this.machineId);
  }

  /** The engine's data is gone. */
  lose(): void {
    this.witness.onVolumesLost(this.volumes.keys(), this.machineId);
    this.volumes.clear();
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
      if (volume === undefined || !server.init) return exit(missingCode);
      then(random.between(300, 6_000), "data is made", () => {
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
