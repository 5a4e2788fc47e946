import type { Container, Engine, Limits } from "../engine/engine.ts";
import { EngineError, isEngineTrouble } from "../engine/errors.ts";
import type { Reserved } from "../engine/pressure.ts";
import { lackOf, withSaid } from "./limits.ts";

/** What a container has after the engine was asked, and why that is not what it is to have; empty when it is. */
export interface Given {
  inForce: Limits;
  reserved: Reserved;
  problem: string;
}

/** A container that has more than this share of what it is to have left would be killed, or kill itself, soon after. */
const memoryShareMax = 0.95;

/**
 * Asks for other limits and looks what came of it: an engine says yes also to what its kernel cannot do. Null when the
 * container is gone. Throws when the engine does not answer.
 */
export async function giveLimits(
  engine: Engine,
  container: Container,
  wanted: Limits,
  reserved: Reserved,
): Promise<Given | null> {
  const refusal = await ask(engine, container, wanted, reserved);
  const after = await engine.findContainer(container.name);
  if (after === null) return null;
  const lack = lackOf(wanted, after.limits);
  if (lack.length === 0) return { inForce: after.limits, reserved: after.reserved, problem: "" };
  const dropped = `the container engine took them, but did not apply that of ${lack.join(" and ")}`;
  return { inForce: after.limits, reserved: after.reserved, problem: refusal ?? dropped };
}

/** Why the container cannot have them now; null when the engine said yes. */
async function ask(engine: Engine, container: Container, wanted: Limits, reserved: Reserved): Promise<string | null> {
  const isLess = wanted.memoryMb !== 0 && wanted.memoryMb < (container.limits.memoryMb || Number.POSITIVE_INFINITY);
  try {
    if (container.state === "running" && isLess) {
      // Newer kernels do not refuse: they end the process.
      const usedBytes = (await engine.sample(container.name))?.memoryBytes ?? 0;
      const usedMb = Math.ceil(usedBytes / (1024 * 1024));
      if (usedMb > wanted.memoryMb * memoryShareMax) {
        return `the app uses ${usedMb} MiB of memory, too much for a limit of ${wanted.memoryMb} MiB`;
      }
    }
    await engine.limitContainer(container.name, withSaid(container.limits, wanted), reserved);
    return null;
  } catch (cause) {
    if (!(cause instanceof EngineError) || isEngineTrouble(cause)) throw cause;
    return "the container engine refused them";
  }
}
