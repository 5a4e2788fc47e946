import { once } from "node:events";
import { Readable } from "node:stream";
import type { Multipart } from "@fastify/multipart";
import {
  limits,
  type SourceDeploymentFields,
  sourceDeploymentFields,
  validationCode,
  validationMessage,
} from "@svc/proto";
import { type Registry, RegistryError } from "@svc/registry";
import type { FastifyRequest } from "fastify";
import { ApiError } from "../http/errors.ts";

/** Uploads of one user that may be under way at once. */
const uploadsPerUserMax = 3;
const gzipMagic = Buffer.of(0x1f, 0x8b);
/** Room for the text parts and the frame around the archive. */
const frameBytesMax = limits.manifestBytesMax + limits.metadataBytesMax + 64 * 1024;

/** Bounds how many uploads a user has under way in this process. */
export interface UploadSlots {
  /** Throws RATE_LIMITED when the user has no slot left. */
  take(userId: string): Disposable;
}

export function createUploadSlots(): UploadSlots {
  const taken = new Map<string, number>();
  return {
    take(userId) {
      const count = taken.get(userId) ?? 0;
      if (count >= uploadsPerUserMax) {
        throw new ApiError("RATE_LIMITED", {
          message: `Only ${uploadsPerUserMax} uploads may be under way at once.`,
          retryAfterSeconds: 10,
          closesConnection: true,
        });
      }
      taken.set(userId, count + 1);
      return {
        [Symbol.dispose]() {
          const left = (taken.get(userId) ?? 1) - 1;
          if (left === 0) taken.delete(userId);
          else taken.set(userId, left);
        },
      };
    },
  };
}

export interface SourceUpload extends SourceDeploymentFields {
  /** Of the archive as it lies in the registry. */
  digest: string;
  sizeBytes: number;
}

export interface UploadTarget {
  registry: Pick<Registry, "pushArtifact">;
  repository: string;
  /** Of the archive alone, as it travels. */
  maxBytes: number;
  /** Aborted when the client is gone. */
  signal: AbortSignal;
}

/**
 * Reads a multipart upload: `manifest` and `metadata` as text, `source` as an archive that streams on into the
 * registry, holding a few MiB at most. The parts may come in any order, each once. When the manifest comes first,
 * `check` can refuse it before the archive is read. Throws VALIDATION, UPLOAD_TOO_LARGE, UNAVAILABLE or what
 * `check` throws; the connection then ends, since the rest of the body is of no use.
 */
export async function receiveSource(
  request: FastifyRequest,
  target: UploadTarget,
  check: (fields: SourceDeploymentFields) => void,
): Promise<SourceUpload> {
  try {
    return await readParts(request, target, check);
  } catch (error) {
    throw uploadError(error, target.maxBytes);
  }
}

async function readParts(
  request: FastifyRequest,
  target: UploadTarget,
  check: (fields: SourceDeploymentFields) => void,
): Promise<SourceUpload> {
  if (Number(request.headers["content-length"] ?? 0) > target.maxBytes + frameBytesMax) throw tooLarge(target.maxBytes);
  const texts = new Map<string, string>();
  let fields: SourceDeploymentFields | null = null;
  let source: { digest: string; sizeBytes: number } | null = null;
  const parts = request.parts({
    limits: {
      fields: 4,
      files: 2,
      parts: 6,
      fieldSize: limits.manifestBytesMax + 1,
      // Counted by us: past a limit of its own the parser would read on without end.
      fileSize: Number.POSITIVE_INFINITY,
      headerPairs: 20,
    },
  });
  for await (const part of parts) {
    if (part.type === "field") {
      if (source === null && fields !== null) fields = null;
      readText(part, texts);
      continue;
    }
    if (part.fieldname !== "source") throw invalid(`"${part.fieldname.slice(0, 40)}" is not expected as a file.`);
    if (source !== null) throw invalid("source is there twice.");
    if (texts.has("manifest")) {
      fields = parseFields(texts);
      check(fields);
    }
    source = await target.registry.pushArtifact(target.repository, {
      kind: "source",
      stream: Readable.from(checkedArchive(part.file, target.maxBytes), { objectMode: false }),
      signal: target.signal,
    });
    fields = null;
  }
  if (source === null) throw invalid("The part source is missing.");
  fields = parseFields(texts);
  check(fields);
  return { ...fields, digest: source.digest, sizeBytes: source.sizeBytes };
}

function readText(part: Extract<Multipart, { type: "field" }>, texts: Map<string, string>): void {
  const { fieldname: name, value } = part;
  if (name !== "manifest" && name !== "metadata") throw invalid(`"${name.slice(0, 40)}" is not expected.`);
  if (texts.has(name)) throw invalid(`${name} is there twice.`);
  if (part.valueTruncated || part.fieldnameTruncated) throw invalid(`${name} is too long.`);
  // A part that says it is JSON arrives parsed.
  texts.set(name, typeof value === "string" ? value : JSON.stringify(value));
}

function parseFields(texts: ReadonlyMap<string, string>): SourceDeploymentFields {
  if (!texts.has("manifest")) throw invalid("The part manifest is missing.");
  const result = sourceDeploymentFields.safeParse(Object.fromEntries(texts));
  if (result.success) return result.data;
  throw new ApiError(validationCode(result.error.issues), {
    message: validationMessage(result.error.issues),
    closesConnection: true,
  });
}

/** The archive as it comes, as long as it begins like one and is not too large. */
async function* checkedArchive(file: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  let sizeBytes = 0;
  let start: Buffer | null = Buffer.alloc(0);
  for await (const chunk of file) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw tooLarge(maxBytes);
    if (start === null) {
      yield chunk;
      continue;
    }
    start = Buffer.concat([start, chunk]);
    if (start.length < gzipMagic.length) continue;
    if (!start.subarray(0, gzipMagic.length).equals(gzipMagic)) throw invalid("source is not a gzipped archive.");
    yield start;
    start = null;
  }
  if (start !== null) throw invalid("source is empty.");
}

const invalid = (message: string) => new ApiError("VALIDATION", { message, closesConnection: true });

const tooLarge = (maxBytes: number) =>
  new ApiError("UPLOAD_TOO_LARGE", {
    message: `The archive is larger than the ${Math.floor(maxBytes / 1_048_576)} MiB that the plan allows. Leave out files that the build does not need.`,
    closesConnection: true,
  });

/** What is wrong with an upload in the words of the API. */
function uploadError(error: unknown, maxBytes: number): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof RegistryError) {
    return error.code === "ARTIFACT_TOO_LARGE"
      ? tooLarge(maxBytes)
      : new ApiError("UNAVAILABLE", {
          message: "The archive could not be stored. Try again in a moment.",
          cause: error,
          closesConnection: true,
        });
  }
  if (error instanceof TypeError || error instanceof ReferenceError) throw error;
  // All that is left is a body that its own frame or end contradicts.
  return new ApiError("VALIDATION", {
    message: "The upload is cut short or is not valid multipart data.",
    cause: error,
    closesConnection: true,
  });
}

/** Aborted when the client goes away before it has an answer. */
export function clientGone(request: FastifyRequest, done: AbortSignal): AbortSignal {
  const gone = new AbortController();
  once(request.raw.socket, "close", { signal: done }).then(
    () => gone.abort(new Error("the client went away")),
    () => {},
  );
  return gone.signal;
}
