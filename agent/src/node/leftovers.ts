import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { StepLimiter } from "../build/step-limits.ts";
import { type Engine, labels } from "../engine/engine.ts";
import type { Log } from "../log.ts";

/** Where builds put what they are sent, below the agent's own directory. */
export const spoolDir = (dir: string): string => join(dir, "spool");

/** What a former life of this agent broke off in the middle of a build. Nothing of it is in use yet. */
export async function removeLeftovers(dir: string, engine: Engine, limiter: StepLimiter, log: Log): Promise<void> {
  await rm(spoolDir(dir), { recursive: true, force: true });
  try {
    await limiter.removeLeftovers();
  } catch (cause) {
    log.warn({ reason: String(cause) }, "what is left of former builds could not be removed");
  }
  try {
    for (const container of await engine.listContainers()) {
      if (container.labels[labels.kind] === "export") await engine.removeContainer(container.name);
    }
  } catch (cause) {
    log.warn({ reason: String(cause) }, "the container engine does not answer yet");
  }
}
