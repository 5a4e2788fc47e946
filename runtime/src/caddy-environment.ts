// @pure
/** So much may be in memory before Caddy clears up more often, whatever the machine. */
const memoryLeastMb = 512;

/**
 * Environment of a Caddy that serves an edge. Serving a request makes much garbage and keeps little: cleared up when four
 * times as much has come together as is in use, instead of once as much, each costs some tenth less, for tens of megabytes.
 * Where really much is in use, a quarter of the machine's memory is where that ends.
 */
export const caddyEnvironment = (machineBytes: number): Record<"GOGC" | "GOMEMLIMIT", string> => ({
  GOGC: "400",
  GOMEMLIMIT: `${Math.max(memoryLeastMb, Math.floor(machineBytes / 4 / 1024 ** 2))}MiB`,
});
