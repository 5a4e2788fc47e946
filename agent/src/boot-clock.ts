import { readFileSync } from "node:fs";

/**
 * Milliseconds since the machine booted. Unlike the process's own monotonic clock it also counts the time in
 * which the machine was suspended, so a deadline cannot be slept through.
 */
export function bootClockMs(): number {
  const [uptime = ""] = readFileSync("/proc/uptime", "utf8").split(" ");
  return Number(uptime) * 1000;
}
