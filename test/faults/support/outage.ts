import { setTimeout as delay } from "node:timers/promises";
import type { Fleet } from "./fleet.ts";
import { becomes } from "./sites.ts";
import { healMs } from "./times.ts";

/** Control and the stores that it stands on, in the order in which they are killed. */
const programs = ["control", "etcd", "postgres"] as const;

/** Kills control, etcd and Postgres, and starts them again after `downMs`. Resolves when every node is ready again. */
export async function outage(fleet: Fleet, downMs: number): Promise<void> {
  for (const name of programs) await fleet.program(name).stop("SIGKILL");
  await delay(downMs);
  for (const name of programs.toReversed()) await fleet.program(name).start();
  for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
}
