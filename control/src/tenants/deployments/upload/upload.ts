import type { Multipart, MultipartFile } from "@fastify/multipart";
import {
  clip,
  envFilePaths,
  limits,
  type SourceDeploymentFields,
  sourceDeploymentFields,
  stripControl,
  validationCode,
  validationMessage,
} from "@svc/proto";
import type { FastifyRequest } from "fastify";
import { ApiError } from "../../../http/errors.ts";
import { packedSiteDoubts } from "../site-doubts.ts";
import { type ArchivePush, pushArchive, type UploadTarget } from "./archive-push.ts";
import { invalid, tooLarge, until, uploadError } from "./body.ts";
import { readFileEnv } from "./file-env.ts";

/** Room for the text parts and the frame around the archive. */
const frameBytesMax = limits.manifestBytesMax + limits.metadataBytesMax + 64 * 1024;

export interface SourceUpload extends SourceDeploymentFields {
  /** Variables of the manifest's env files. */
  fileEnv: Record<string, string>;
  /** Why it may not be what was meant, as far as an archive tells. */
  warnings: string[];
  /** Of the archive as it lies in the registry. */
  digest: string;
  sizeBytes: number;
}

/** Refuses what must not be deployed by throwing; is asked as soon as the manifest is known, and again at the end. */
export type CheckUpload = (
  fields: SourceDeploymentFields,
  fileEnv: Readonly<Record<string, string>> | null,
) => void | Promise<void>;

/**
 * Reads a multipart upload: `manifest`, `metadata` and `forceBuild` as text or files of text, `source` as an archive that
 * streams on into the registry while it is looked through, holding a few MiB at most. The parts may come in any order,
 * each once. The registry is given the end of the archive, without which it stores nothing, only when everything else is
 * in order.
 * Throws VALIDATION, UPLOAD_TOO_LARGE, UNAVAILABLE, what `check` throws and why `signal` aborted; the connection
 * then ends, since the rest of the body is of no use.
 */
export async function receiveSource(
  request: FastifyRequest,
  target: UploadTarget,
  check: CheckUpload,
): Promise<SourceUpload> {
  let archive: ArchivePush | null = null;
  try {
    if (Number(request.headers["content-length"] ?? 0) > target.maxBytes + frameBytesMax)
      throw tooLarge(target.maxBytes);
    const texts = new Map<string, string>();
    for await (const part of until(partsOf(request), target.signal)) {
      if (part.type === "field") {
        if (part.fieldname === "source") throw invalid("source has to be a file: give its part a file name.");
        requireText(part.fieldname, texts);
        if (part.valueTruncated || part.fieldnameTruncated) throw invalid(`${part.fieldname} is too long.`);
        // A part that says it is JSON arrives parsed.
        texts.set(part.fieldname, typeof part.value === "string" ? part.value : JSON.stringify(part.value));
        continue;
      }
      if (isText(part.fieldname)) {
        requireText(part.fieldname, texts);
        texts.set(part.fieldname, await readText(part, target.signal));
        continue;
      }
      requireSource(part, archive);
      const known = texts.has("manifest") ? parseFields(texts) : null;
      if (known !== null) await check(known, null);
      archive = pushArchive(part, target, known === null ? null : envFilePaths(known.manifest));
      await archive.read;
    }
    if (archive === null) throw invalid("The part source is missing.");
    const fields = parseFields(texts);
    const fileEnv = fileEnvOf(fields, archive);
    await check(fields, fileEnv);
    const warnings = packedSiteDoubts(fields.manifest, archive.inspection.paths());
    return { ...fields, fileEnv, warnings, ...(await archive.keep()) };
  } catch (error) {
    const refusal = uploadError(error, target.maxBytes);
    await archive?.drop(refusal);
    throw refusal;
  }
}

const partsOf = (request: FastifyRequest): AsyncIterable<Multipart> =>
  request.parts({
    limits: {
      fields: 4,
      files: 4,
      parts: 6,
      fieldSize: limits.manifestBytesMax + 1,
      // Counted by us: past a limit of its own the parser would read on without end.
      fileSize: Number.POSITIVE_INFINITY,
      headerPairs: 20,
    },
  });

const isText = (name: string): boolean => Object.hasOwn(sourceDeploymentFields.shape, name);

function requireText(name: string, texts: ReadonlyMap<string, string>): void {
  if (!isText(name)) throw invalid(`${shown(name)} is not expected.`);
  if (texts.has(name)) throw invalid(`${name} is there twice.`);
}

/** A text that was sent as a file, as `curl -F manifest=@svc.json` does. */
async function readText({ fieldname: name, file }: MultipartFile, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of until<Buffer>(file, signal)) {
    bytes += chunk.length;
    if (bytes > limits.manifestBytesMax) throw invalid(`${name} is too long.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function requireSource({ fieldname: name }: MultipartFile, earlier: ArchivePush | null): void {
  if (name !== "source") throw invalid(`${shown(name)} is not expected as a file.`);
  if (earlier !== null) throw invalid("source is there twice.");
}

/** The parser gives a part whose head it could not read no name at all. */
const shown = (name: string | undefined): string =>
  name === undefined ? "A part without a name" : JSON.stringify(clip(stripControl(name), 40));

function parseFields(texts: ReadonlyMap<string, string>): SourceDeploymentFields {
  if (!texts.has("manifest")) throw invalid("The part manifest is missing.");
  const result = sourceDeploymentFields.safeParse(Object.fromEntries(texts));
  if (result.success) return result.data;
  const { issues } = result.error;
  throw new ApiError(validationCode(issues), {
    message: validationMessage(issues, sourceDeploymentFields),
    closesConnection: true,
  });
}

function fileEnvOf({ manifest }: SourceDeploymentFields, archive: ArchivePush): Record<string, string> {
  if (manifest.env.files.length === 0) return {};
  // What has passed is gone, and keeping all that might be asked for would mean keeping everything.
  if (archive.wanted === null) throw invalid("The manifest has env.files, so the part manifest comes before source.");
  const found = readFileEnv(archive.inspection.files());
  if ("problem" in found) throw invalid(`env.files: ${found.problem}.`);
  return found.vars;
}
