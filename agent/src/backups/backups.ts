import { type DatabaseEngine, failureMessage } from "@svc/proto";
import { type PushedArtifact, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { type Engine, type HeardProgram, labels } from "../engine/engine.ts";
import type { Reserved } from "../engine/pressure.ts";
import { createSafeLines } from "../logs/lines.ts";
import { TaskFailure, withLastError } from "../placements/failure.ts";
import { dumpCommand } from "./command.ts";
import { createDumpCheck, dumpProblem } from "./dump-check.ts";
import type { DumpTarget, PushDump } from "./push.ts";

export interface BackupRequest extends DumpTarget {
  labels: Readonly<Record<string, string>>;
  databaseId: string;
  engine: DatabaseEngine;
  image: string;
  password: string;
  maxDumpBytes: number;
  limits: { memoryMb: number; cpuMillicores: number; pidsLimit: number };
  reserved: Reserved;
  /** A place was free and the work begins. */
  onStart(): void;
}

/** What was pushed, and how much SQL is in it. */
export type MadeBackup = Pick<PushedArtifact, "digest" | "sizeBytes"> & { dumpBytes: number };

/** Writes databases of this node to the registry, as SQL. */
export interface Backups {
  /**
   * Dumps, packs and pushes in one pass: nothing of it is ever on this machine's disk. What the registry gets is announced
   * to it only when the program has ended well and its output ends as a whole one does. Safe to repeat: the container is
   * named after the placement, and one that is there is of a try that broke off.
   *
   * @throws TaskFailure with a sentence for the database's owner
   */
  make(request: BackupRequest, signal: AbortSignal): Promise<MadeBackup>;
  /** Ends and removes what a backup that came to no result may have left. */
  discard(placementId: string): Promise<void>;
}

export interface BackupsDeps {
  clock: Clock;
  engine: Engine;
  push: PushDump;
}

/** More would slow the databases of the node down. Control places no more either. */
const atOnce = 2;
const nameOf = (placementId: string): string => `svc-b-${placementId}`;

export function createBackups(deps: BackupsDeps): Backups {
  const inTurn = createLimiter({ total: atOnce });
  const discard = (placementId: string): Promise<void> => deps.engine.removeContainer(nameOf(placementId));

  const start = async (request: BackupRequest, signal: AbortSignal): Promise<MadeBackup> => {
    const { placementId, timeoutSeconds } = request;
    request.onStart();
    await discard(placementId);
    const timeout = deps.clock.abortAfter(timeoutSeconds * 1000);
    const within = AbortSignal.any([signal, timeout]);
    try {
      return await dumpAndPush(deps, request, within);
    } catch (cause) {
      signal.throwIfAborted();
      if (timeout.aborted) throw new TaskFailure("BACKUP_TIMEOUT", failureMessage("BACKUP_TIMEOUT"), { cause });
      throw cause instanceof RegistryError ? registryAway(cause) : cause;
    } finally {
      await discard(placementId);
    }
  };

  return { make: (request, signal) => inTurn(() => start(request, signal), { signal }), discard };
}

async function dumpAndPush(
  { engine, push }: BackupsDeps,
  request: BackupRequest,
  signal: AbortSignal,
): Promise<MadeBackup> {
  const { placementId, databaseId } = request;
  const check = createDumpCheck(request.engine, request.maxDumpBytes);
  const begin = async (): Promise<AsyncIterable<Buffer>> => {
    const { argv, env } = dumpCommand(request.engine, databaseId, request.password);
    const dump = await engine.startDump({
      ...{ name: nameOf(placementId), databaseId, image: request.image, command: argv, env },
      labels: { ...request.labels, [labels.placement]: placementId },
      ...request.limits,
      reserved: request.reserved,
    });
    return wholeDump(dump, check, request);
  };
  const { digest, sizeBytes } = await push(request, begin, signal);
  return { digest, sizeBytes, dumpBytes: check.bytes() };
}

/** What a dump is of; throws at its end, or before, unless the program ended well and the end is there. */
async function* wholeDump(
  dump: HeardProgram,
  check: ReturnType<typeof createDumpCheck>,
  { password, maxDumpBytes, limits }: BackupRequest,
): AsyncGenerator<Buffer> {
  for await (const chunk of dump.output) {
    if (!check.push(chunk)) {
      const mb = Math.floor(maxDumpBytes / 1024 / 1024);
      throw new TaskFailure("BACKUP_TOO_LARGE", `${failureMessage("BACKUP_TOO_LARGE")} It may have ${mb} MB of SQL.`);
    }
    yield chunk;
  }
  const { exitCode, oomKilled, errors } = await dump.end();
  const problem = dumpProblem(check, exitCode);
  if (problem === "BACKUP_FAILED") {
    const why = oomKilled ? ` Reading it took more than ${limits.memoryMb} MB of memory.` : "";
    const lines = createSafeLines([password]);
    const said = [...lines.push(Buffer.from(errors)), ...lines.end()];
    throw new TaskFailure(problem, withLastError(`${failureMessage(problem)}${why}`, said), { exitCode });
  }
  if (problem !== null) throw new TaskFailure(problem, failureMessage(problem));
}

const registryAway = (cause: unknown): TaskFailure =>
  new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", failureMessage("ARTIFACT_REGISTRY_UNAVAILABLE"), {
    isTransient: true,
    cause,
  });
