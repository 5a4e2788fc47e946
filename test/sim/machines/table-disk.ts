import type { TableFile } from "@svc/router/table-file";
import type { Kernel, Process, Scope } from "../kernel/kernel.ts";
import { createAnswer } from "../kernel/ports.ts";

/** What an edge's disk has of one file, its table's first of all: what was synced outlives a crash, and of what was not any beginning does. */
export class TableDisk {
  private durable: string | null = null;
  private unsynced = "";
  isFull = false;
  /** Share of writes that take long. */
  slowShare = 0.05;

  private readonly kernel: Kernel;
  private readonly process: Process;

  constructor(kernel: Kernel, process: Process) {
    this.kernel = kernel;
    this.process = process;
  }

  /** The router has ended, or the power is gone. */
  crash(): void {
    const { random } = this.process;
    const kept = random.pick([0, random.next(), 1]) * this.unsynced.length;
    if (kept > 0) this.durable = (this.durable ?? "") + this.unsynced.slice(0, Math.floor(kept));
    this.unsynced = "";
  }

  /** The file as one life of the router has it: what `openTableFile` is in the real world. */
  open(scope: Scope): TableFile {
    const { process, kernel } = this;
    const { random } = process;
    const order = <T>(tag: string, takesMs: number, effect: () => T): Promise<T> => {
      const answer = createAnswer<T>(scope);
      const act = (): void => {
        try {
          answer.resolve(effect(), 0, tag);
        } catch (error) {
          answer.reject(error, 0, tag);
        }
      };
      if (!scope.isOver) kernel.at(takesMs, tag, act, process);
      return answer.promise;
    };
    const syncMs = (): number => (random.chance(this.slowShare) ? random.between(100, 3_000) : random.between(1, 40));
    const checkRoom = (): void => {
      if (this.isFull) throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
    };
    return {
      read: () => order("table read", 0.5, () => this.durable),
      putAside: () =>
        order("table put aside", 0.5, () => {
          this.durable = null;
        }),
      replace: (text) =>
        order("table replaced", syncMs(), () => {
          checkRoom();
          this.durable = text;
          this.unsynced = "";
        }),
      append: (text) =>
        order("table appended", 0.3, () => {
          if (this.isFull) this.unsynced += text.slice(0, Math.floor(text.length / 2));
          checkRoom();
          this.unsynced += text;
        }),
      sync: () =>
        order("table synced", syncMs(), () => {
          this.durable = (this.durable ?? "") + this.unsynced;
          this.unsynced = "";
        }),
      [Symbol.asyncDispose]: async () => {},
    };
  }
}
