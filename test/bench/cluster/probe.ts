import { connect } from "node:net";
import { createInterface } from "node:readline";
import { z } from "zod";

const lag = z.object({
  /** Timers that were looked at. */
  count: z.number(),
  p50: z.number(),
  p99: z.number(),
  max: z.number(),
  /** Share of the time in which the loop was busy. */
  busy: z.number(),
  heapMb: z.number(),
});
/** How late control's event loop was since it was asked last, ms. */
export type Lag = z.infer<typeof lag>;

const memory = z.object({
  rssMb: z.number(),
  heapTotalMb: z.number(),
  heapUsedMb: z.number(),
  externalMb: z.number(),
  arrayBuffersMb: z.number(),
  mallocedMb: z.number(),
});
/** Where control's memory is. */
export type Memory = z.infer<typeof memory>;

const statements = z.record(z.string(), z.number());
/** How often control sent each statement to Postgres, by its text. */
export type Statements = z.infer<typeof statements>;

const answerMs = 120_000;

/** Asks the control process whose probe listens at `path`. */
export interface Probe {
  /** Also begins anew to count. */
  lag(): Promise<Lag>;
  /** As it is, or after a full collection: what is left then is what control holds. */
  memory(what: "now" | "collected"): Promise<Memory>;
  /** Since they were asked for last. */
  statements(): Promise<Statements>;
  /** Writes a .heapsnapshot. */
  snapshot(file: string): Promise<void>;
  startProfile(): Promise<void>;
  /** Writes a .cpuprofile. */
  stopProfile(file: string): Promise<void>;
}

function ask(path: string, command: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => socket.write(`${command}\n`));
    const timer = setTimeout(() => socket.destroy(new Error(`control's probe did not answer ${command}`)), answerMs);
    socket.once("error", reject);
    socket.once("close", () => {
      clearTimeout(timer);
      reject(new Error(`control's probe closed before it answered ${command}`));
    });
    createInterface({ input: socket })
      .on("error", reject)
      .once("line", (line) => {
        resolve(JSON.parse(line));
        socket.end();
      });
  });
}

export const createProbe = (path: string): Probe => ({
  lag: async () => lag.parse(await ask(path, "lag")),
  memory: async (what) => memory.parse(await ask(path, `memory ${what}`)),
  statements: async () => statements.parse(await ask(path, "statements")),
  snapshot: async (file) => void (await ask(path, `snapshot ${file}`)),
  startProfile: async () => void (await ask(path, "profile-start")),
  stopProfile: async (file) => void (await ask(path, `profile-stop ${file}`)),
});
