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

const answerMs = 30_000;

/** Asks the control process whose probe listens at `path`. */
export interface Probe {
  /** Also begins anew to count. */
  lag(): Promise<Lag>;
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
  startProfile: async () => void (await ask(path, "profile-start")),
  stopProfile: async (file) => void (await ask(path, `profile-stop ${file}`)),
});
