// @pure
import type { DatabaseEngine } from "@svc/proto";

/** What only a dump that came to its end has in its last lines. */
const lastLines = {
  postgres: "\n-- PostgreSQL database dump complete\n",
  mariadb: "\n-- Dump completed",
} as const satisfies Record<DatabaseEngine, string>;

/** The last line comes with little after it. */
const tailBytes = 1_024;

/** Looks on while a dump passes by. What is in it is the tenant's, and is read by nobody here. */
export interface DumpCheck {
  /** False: it is more than is allowed, and need not go on. */
  push(chunk: Uint8Array): boolean;
  bytes(): number;
  /** Whether what passed ends as a whole dump does. Only the program's exit code says the rest. */
  isWhole(): boolean;
}

export function createDumpCheck(engine: DatabaseEngine, maxBytes: number): DumpCheck {
  let bytes = 0;
  let tail = Buffer.alloc(0);
  return {
    push(chunk) {
      bytes += chunk.byteLength;
      tail = Buffer.concat([tail, chunk.subarray(Math.max(0, chunk.byteLength - tailBytes))]).subarray(-tailBytes);
      return bytes <= maxBytes;
    },
    bytes: () => bytes,
    isWhole: () => tail.includes(lastLines[engine]),
  };
}

/** Why what passed is no backup, once its program has ended; null: it is one. What packs and sends it has ended well in any case. */
export function dumpProblem(
  check: Pick<DumpCheck, "isWhole">,
  exitCode: number,
): "BACKUP_FAILED" | "BACKUP_INCOMPLETE" | null {
  if (exitCode !== 0) return "BACKUP_FAILED";
  return check.isWhole() ? null : "BACKUP_INCOMPLETE";
}
