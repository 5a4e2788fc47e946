import { run as runCommand } from "@svc/runtime/command";
import type { ProgramName } from "@svc/runtime/programs";

const timeoutMs = 15_000;
/** Waits for another program that holds the tables. */
export const wait = ["-w", "5"];

/** Puts a rule in front of a chain, unless it is in it. */
export async function assertJump(
  program: "iptables" | "ip6tables",
  [chain = "", ...match]: readonly string[],
): Promise<void> {
  if (await succeeds(program, [...wait, "-C", chain, ...match])) return;
  await run(program, [...wait, "-I", chain, "1", ...match]);
}

async function succeeds(program: ProgramName, args: readonly string[]): Promise<boolean> {
  try {
    await run(program, args);
    return true;
  } catch {
    return false;
  }
}

/** What the program prints. */
export async function run(program: ProgramName, args: readonly string[], input = ""): Promise<string> {
  return (await runCommand([program, ...args], { input, timeoutMs: timeoutMs })).stdout;
}
