import type { ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import type { Place } from "./proxy.ts";
import { waitFor } from "./wait-for.ts";

/** A proxy that is a process of its own, as on a node. */
export interface ProxyProcess extends AsyncDisposable {
  pid: number;
  /** Memory that it takes now, in MiB. */
  memoryMb(): Promise<number>;
  kill(signal: NodeJS.Signals): void;
  /** Resolves with its exit code, or the signal that ended it. */
  exit: Promise<number | string>;
}

/** Resolves once it serves. */
export async function spawnProxy(place: Place): Promise<ProxyProcess> {
  const main = fileURLToPath(new URL("../main.ts", import.meta.url));
  const child: ChildProcess = spawnProgram([thisNode, main], {
    env: { ...place.env },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const exit = new Promise<number | string>((resolve) =>
    child.once("exit", (code, signal) => resolve(code ?? signal ?? "unknown")),
  );
  const dispose = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exit;
  };
  try {
    await waitFor(async () => child.exitCode !== null || (await place.state()).pid === child.pid);
    if (child.pid === undefined || child.exitCode !== null) throw new Error("the proxy did not start");
  } catch (cause) {
    await dispose();
    throw cause;
  }
  const { pid } = child;
  const memoryMb = async (): Promise<number> => {
    const [, kb] = /VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, "utf8")) ?? [];
    return Number(kb) / 1024;
  };
  return { pid, memoryMb, kill: (signal) => void child.kill(signal), exit, [Symbol.asyncDispose]: dispose };
}
