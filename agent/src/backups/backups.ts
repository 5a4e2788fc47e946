import { addAbortSignal, pipeline, Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { type DatabaseEngine, failureMessage } from "@svc/proto";
import type { RegistryAccess } from "@svc/proto/node";
import { createRegistry, type PushedArtifact, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { type Engine, type HeardProgram, labels } from "../engine/engine.ts";
import type { Reserved } from "../engine/pressure.ts";
import { createSafeLines } from "../logs/lines.ts";
import { TaskFailure, withLastError } from "../placements/failure.ts";
import { type ClusterRegistry, tokensFor } from "../registry.ts";
import { dumpCommand } from "./command.ts";
import { createDumpCheck } from "./dump-check.ts";
import { gathered } from "./gathered.ts";

export interface BackupRequest {
  placementId: string;
  labels: Readonly<Record<string, string>>;
  databaseId: string;
  engine: DatabaseEngine;
  image: string;
  password: string;
  targetRepository: string;
  timeoutSeconds: number;
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
  registry: ClusterRegistry;
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
    const access = deps.registry.find();
    if (access === null) throw registryAway(null);
    await discard(placementId);
    const timeout = deps.clock.abortAfter(timeoutSeconds * 1000);
    const within = AbortSignal.any([signal, timeout]);
    try {
      return await dumpAndPush(deps, request, access, within);
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
  { clock, engine, registry }: BackupsDeps,
  request: BackupRequest,
  access: RegistryAccess,
  signal: AbortSignal,
): Promise<MadeBackup> {
  const { placementId, databaseId, targetRepository: repository } = request;
  await using client = createRegistry(clock, {
    url: `${access.insecure ? "http" : "https"}://${access.host}`,
    tokens: tokensFor(registry, placementId, signal),
    // Its end comes with the dump's, which has a deadline of its own.
    transferTimeoutMs: request.timeoutSeconds * 1000,
  });
  const { argv, env } = dumpCommand(request.engine, databaseId, request.password);
  const dump = await engine.startDump({
    ...{ name: nameOf(placementId), databaseId, image: request.image, command: argv, env },
    labels: { ...request.labels, [labels.placement]: placementId },
    ...request.limits,
    reserved: request.reserved,
  });
  const check = createDumpCheck(request.engine, request.maxDumpBytes);
  const stream = packed(wholeDump(dump, check, request), signal);
  const { digest, sizeBytes } = await client.pushArtifact(repository, {
    ...{ kind: "backup", stream, tag: placementId, signal },
  });
  return { digest, sizeBytes, dumpBytes: check.bytes() };
}

/** Each goes to another thread and back: a dumper writes 4 KiB at once. */
const pieceBytes = 64 * 1024;
/**
 * Packing takes longer than all else of a backup. Measured beside level 4: text becomes a tenth larger and takes a fifth
 * less time; below this one it only becomes larger.
 */
const level = 2;

/** Gzipped. Whoever reads it hears of a failure of what it is made of, and then has no end. */
function packed(dump: AsyncIterable<Buffer>, signal: AbortSignal): Readable {
  const zip = createGzip({ level, chunkSize: pieceBytes });
  const nobody = (): void => {};
  // Also after the last one who listens has turned away.
  zip.on("error", nobody);
  pipeline(Readable.from(gathered(dump, pieceBytes)), addAbortSignal(signal, zip), nobody);
  return zip;
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
  if (exitCode !== 0) {
    const why = oomKilled ? ` Reading it took more than ${limits.memoryMb} MB of memory.` : "";
    const lines = createSafeLines([password]);
    const said = [...lines.push(Buffer.from(errors)), ...lines.end()];
    throw new TaskFailure("BACKUP_FAILED", withLastError(`${failureMessage("BACKUP_FAILED")}${why}`, said), {
      exitCode,
    });
  }
  if (!check.isWhole()) throw new TaskFailure("BACKUP_INCOMPLETE", failureMessage("BACKUP_INCOMPLETE"));
}

const registryAway = (cause: unknown): TaskFailure =>
  new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", failureMessage("ARTIFACT_REGISTRY_UNAVAILABLE"), {
    isTransient: true,
    cause,
  });
