/**
 * What the hub and the client want of the machine. This package is published by itself and takes no clock from `runtime`: the
 * machine's own timers and chance are in this file and nowhere else, and tests hand over others.
 */
export interface Machine {
  /** Milliseconds that only grow. */
  steadyMs(): number;
  /** Calls `run` once after `ms`. The answer calls it off. */
  after(ms: number, run: () => void): () => void;
  /** Calls `run` every `ms` until the answer is called. Keeps no process alive. */
  every(ms: number, run: () => void): () => void;
  /** Calls `run` once what is under way in this turn of the event loop is done, and sockets have taken what they can. */
  soon(run: () => void): void;
  /** Random bytes as hex. */
  randomHex(bytes: number): string;
}

export const after: Machine["after"] = (ms, run) => {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
};

export const randomHex: Machine["randomHex"] = (bytes) =>
  Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The machine of a server. */
export const machine: Machine = {
  steadyMs: () => performance.now(),
  after,
  every: (ms, run) => {
    const timer = setInterval(run, ms).unref();
    return () => clearInterval(timer);
  },
  soon: (run) => void setImmediate(run),
  randomHex,
};
