import type { ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";

/** Where a child finds the bytes of the server that it is to speak with. */
export const pipeFd = 3;
/** Where it finds, or leaves, the bytes beside a request that has some. */
export const transferFd = 5;

/** What a child may keep; a server that makes it keep more ends the child and nothing else. */
const heapMb = 128;
const program = fileURLToPath(new URL("./program/main.ts", import.meta.url));

/**
 * Starts a child. It gets no environment, and nothing on its command line: what it is to know comes as a message. It may read
 * files, its own program's, and can neither write any nor start programs.
 */
export function startChildProcess({ transfers }: { transfers: boolean }): ChildProcess {
  const bounds = [`--max-old-space-size=${heapMb}`, "--permission", "--allow-fs-read=*"];
  const noSurprises = ["--disallow-code-generation-from-strings", "--disable-proto=delete", "--no-warnings"];
  return spawnProgram([thisNode, ...bounds, ...noSurprises, program], {
    env: {},
    stdio: ["ignore", "ignore", "ignore", "pipe", "ipc", ...(transfers ? (["pipe"] as const) : [])],
  });
}
