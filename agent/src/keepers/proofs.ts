import { type DatabaseEngine, failureMessage } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { entryFailure } from "../databases/exit.ts";
import { serverSettings } from "../databases/settings.ts";
import type { Engine, HeardProgram } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import type { Reserved } from "../engine/pressure.ts";
import { createSafeLines } from "../logs/lines.ts";
import { TaskFailure, withLastError } from "../placements/failure.ts";
import { type Found, proofOutputMaxBytes, readProof } from "./proof-output.ts";

export interface ProofRequest {
  placementId: string;
  labels: Readonly<Record<string, string>>;
  copyId: string;
  databaseId: string;
  engine: DatabaseEngine;
  image: string;
  timeoutSeconds: number;
  limits: { memoryMb: number; cpuMillicores: number; pidsLimit: number };
  reserved: Reserved;
  /** A place was free and the work begins. */
  onStart(): void;
}

/** Restores copies of this node for a look. */
export interface Proofs {
  /**
   * Restores into a volume that goes with the container, and counts. Safe to repeat: a container that is there is of a try
   * that broke off.
   *
   * @throws TaskFailure with a sentence for the operator
   */
  make(request: ProofRequest, signal: AbortSignal): Promise<Found & { tookMs: number }>;
  /** Ends and removes what a proof that came to no result may have left. */
  discard(placementId: string): Promise<void>;
}

/** A restore keeps a disk as busy as it can be. */
const atOnce = 1;
/** Not the name that containers of placements have: it is this agent's, and goes when that does. */
const nameOf = (placementId: string): string => `svc-v-${placementId}`;

export function createProofs({ clock, engine }: { clock: Clock; engine: Engine }): Proofs {
  const inTurn = createLimiter({ total: atOnce });
  const discard = (placementId: string): Promise<void> => engine.removeContainer(nameOf(placementId));

  const start = async (request: ProofRequest, signal: AbortSignal): Promise<Found & { tookMs: number }> => {
    const { placementId, timeoutSeconds } = request;
    request.onStart();
    await discard(placementId);
    const timeout = clock.abortAfter(timeoutSeconds * 1000);
    const startedMs = clock.steadyMs();
    try {
      const found = await restoreAndLook(engine, request, AbortSignal.any([signal, timeout]));
      return { ...found, tookMs: Math.round(clock.steadyMs() - startedMs) };
    } catch (cause) {
      signal.throwIfAborted();
      if (timeout.aborted) throw new TaskFailure("PROOF_TIMEOUT", failureMessage("PROOF_TIMEOUT"), { cause });
      throw cause;
    } finally {
      await discard(placementId);
    }
  };

  return { make: (request, signal) => inTurn(() => start(request, signal), { signal }), discard };
}

async function restoreAndLook(engine: Engine, request: ProofRequest, signal: AbortSignal): Promise<Found> {
  const program = await startProgram(engine, request);
  // Whoever waits for its output hears of its end.
  const end = (): void => void engine.killContainer(nameOf(request.placementId), "SIGKILL").catch(() => {});
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  try {
    const text = await hear(program);
    const { exitCode, oomKilled, errors } = await program.end();
    signal.throwIfAborted();
    if (exitCode !== 0) {
      const code = entryFailure(exitCode) ?? "PROOF_FAILED";
      const why = oomKilled ? ` It took more than ${request.limits.memoryMb} MB of memory.` : "";
      const lines = createSafeLines([]);
      const said = [...lines.push(Buffer.from(errors)), ...lines.end()];
      throw new TaskFailure(code, withLastError(`${failureMessage(code)}${why}`, said), { exitCode });
    }
    const found = text === null ? null : readProof(text);
    if (found === null) throw new TaskFailure("PROOF_FAILED", failureMessage("PROOF_FAILED"));
    return found;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

async function startProgram(engine: Engine, request: ProofRequest): Promise<HeardProgram> {
  const { limits } = request;
  try {
    return await engine.startProof({
      ...{ name: nameOf(request.placementId), copyId: request.copyId, databaseId: request.databaseId },
      image: request.image,
      settings: serverSettings(request.engine, {
        ...{ memoryMb: limits.memoryMb, sizeMb: proofSizeMb, connections: 20 },
        readOnly: false,
      }),
      labels: request.labels,
      ...limits,
      reserved: request.reserved,
    });
  } catch (cause) {
    if (!(cause instanceof EngineError) || cause.kind !== "not-found") throw cause;
    throw new TaskFailure("DATABASE_COPY_MISSING", failureMessage("DATABASE_COPY_MISSING"), { cause });
  }
}

/** Its settings follow from a size, and a restore's from none that matters. */
const proofSizeMb = 4_096;

/** All of what it says; null when that is more than it may be. */
async function hear(program: HeardProgram): Promise<string | null> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of program.output) {
    bytes += part.byteLength;
    if (bytes <= proofOutputMaxBytes) parts.push(part);
  }
  return bytes <= proofOutputMaxBytes ? Buffer.concat(parts).toString("utf8") : null;
}
