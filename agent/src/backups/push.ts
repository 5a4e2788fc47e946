import { addAbortSignal, pipeline, Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { createRegistry, type PushedArtifact, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { type ClusterRegistry, tokensFor } from "../registry.ts";
import { gathered } from "./gathered.ts";

/** Where what is read of a database goes. */
export interface DumpTarget {
  placementId: string;
  targetRepository: string;
  timeoutSeconds: number;
}

/**
 * Sends what `begin` reads of a database to the registry, packed: what it gets is announced to it only when that came to its end,
 * and not when it threw. It is begun once the way to the registry is known.
 *
 * @throws RegistryError
 */
export type PushDump = (
  target: DumpTarget,
  begin: () => Promise<AsyncIterable<Buffer>>,
  signal: AbortSignal,
) => Promise<Pick<PushedArtifact, "digest" | "sizeBytes">>;

export const createPushDump =
  ({ clock, registry }: { clock: Clock; registry: ClusterRegistry }): PushDump =>
  async ({ placementId, targetRepository, timeoutSeconds }, begin, signal) => {
    const access = registry.find();
    if (access === null) throw new RegistryError("ARTIFACT_REGISTRY_UNAVAILABLE", "nobody has said where it is");
    await using client = createRegistry(clock, {
      url: `${access.insecure ? "http" : "https"}://${access.host}`,
      tokens: tokensFor(registry, placementId, signal),
      // Its end comes with the dump's, which has a deadline of its own.
      transferTimeoutMs: timeoutSeconds * 1000,
    });
    const stream = packed(await begin(), signal);
    // Awaited here: the client is closed when this returns.
    return await client.pushArtifact(targetRepository, { kind: "backup", stream, tag: placementId, signal });
  };

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
