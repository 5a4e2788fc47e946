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
import { ApiError } from "../../http/errors.ts";
import { type ArchivePush, pushArchive, type UploadTarget } from "./archive-push.ts";
import { invalid, tooLarge, until, uploadError } from "./body.ts";
import { readFileEnv } from "./file-env.ts";

/** Room for the text parts and the frame around the archive. */
const frameBytesMax = limits.manifestBytesMax + limits.metadataBytesMax + 64 * 1024;

export interface SourceUpload extends SourceDeploymentFields {
  /** Variables of the manifest's env files. */
  fileEnv: Record<string, string>;
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
 * Reads a multipart upload: `manifest` and `metadata` as text, `source` as an archive that streams on into the
 * registry while it is looked through, holding a few MiB at most. The parts may come in any order, each once. The
 * registry is given the end of the archive, without which it stores nothing, only when everything else is in order.
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
        readText(part, texts);
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
    return { ...fields, fileEnv, ...(await archive.keep()) };
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
      files: 2,
      parts: 6,
      fieldSize: limits.manifestBytesMax + 1,
      // Counted by us: past a limit of its own the parser would read on without end.
      fileSize: Number.POSITIVE_INFINITY,
      headerPairs: 20,
    },
  });

function readText(part: Extract<Multipart, { type: "field" }>, texts: Map<string, string>): void {
  const { fieldname: name, value } = part;
  if (name === "source") throw invalid("source has to be a file: give its part a file name.");
  if (name !== "manifest" && name !== "metadata") throw invalid(`${shown(name)} is not expected.`);
  if (texts.has(name)) throw invalid(`${name} is there twice.`);
  if (part.valueTruncated || part.fieldnameTruncated) throw invalid(`${name} is too long.`);
  // A part that says it is JSON arrives parsed.
  texts.set(name, typeof value === "string" ? value : JSON.stringify(value));
}

function requireSource({ fieldname: name }: MultipartFile, earlier: ArchivePush | null): void {
  if (name === "manifest" || name === "metadata") throw invalid(`${name} has to be text: leave out its file name.`);
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
