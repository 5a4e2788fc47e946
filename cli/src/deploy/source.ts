import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import {
  type CreateDeploymentReply,
  createDeploymentReply,
  type DeploymentMetadata,
  type Manifest,
  plural,
  type SourceManifest,
} from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError, fromDeployError, type ServerError } from "../errors.ts";
import { formatBytes } from "../format.ts";
import type { ManifestPlace } from "../manifest-file.ts";
import { postOnce } from "../post-once.ts";
import { type Archive, streamArchive, writeArchive } from "./archive.ts";
import { requireLikelySite } from "./likely-site.ts";
import { multipartBody } from "./multipart.ts";
import { unknownAdvice } from "./outcome.ts";
import { uploadedLine, uploadLine } from "./progress.ts";
import { type Entry, listTree, type Observer, type Tree } from "./tree.ts";
import { findUploadLimit, sizeRefusal } from "./upload-limit.ts";

/** What `source` of the envelope says: bytes of the archive, and how many files are in it. */
export interface PackedSource {
  bytes: number;
  files: number;
}

const uploadMsMin = 120_000;
// Slower than 20 KB a second is not a connection to deploy over.
const uploadBytesPerMs = 20;
// Where no line changes, one is added this often.
const progressLineMs = 10_000;
// A quicker upload is not worth a line.
const uploadWorthTellingMs = 1000;

/**
 * What a deploy packs: the directory of the manifest. In the archive its files stand where they do in
 * the repository, so that `source.rootDirectory` means the same on both sides.
 */
export function treeOf(place: ManifestPlace, manifest: SourceManifest): Tree {
  const prefix = place.home === "." ? "" : `${place.home}/`;
  const { rootDirectory } = manifest.source;
  const root = rootDirectory === "." ? "" : `${rootDirectory}/`;
  const here = (path: string) => (path.startsWith(prefix) ? path.slice(prefix.length) : path);
  return {
    directory: place.directory,
    prefix,
    wanted: {
      files: new Set(manifest.env.files.map((file) => here(`${root}${file}`))),
      directories: [...new Set([".svc/migrations", here(`${root}.svc/migrations`)])],
    },
  };
}

/**
 * The entries of the tree. MANIFEST_INVALID when a file that the manifest names is not among them,
 * DEPLOY_TRIGGER_FAILED when they cannot be right.
 */
export async function listSource(
  context: Context,
  place: ManifestPlace,
  manifest: SourceManifest,
  leftOut: Observer["leftOut"] = () => {},
): Promise<Entry[]> {
  const tree = treeOf(place, manifest);
  const special = (path: string) => context.warn(`${path} is no file and was left out`);
  const entries = await listTree(tree, { special, leftOut });
  const packed = new Set(entries.map(({ path }) => path));
  const missing = [...tree.wanted.files].filter((file) => !packed.has(`${tree.prefix}${file}`));
  if (missing.length > 0)
    throw new CliError("MANIFEST_INVALID", `env.files names ${missing.join(", ")}, which is not there`, {
      hint: "Paths in env.files count from source.rootDirectory",
    });
  if (entries.length === 0)
    throw new CliError("DEPLOY_TRIGGER_FAILED", `There is nothing to deploy in ${place.directory}`, {
      hint: "See what is left out with `svc deploy --dry-run`, and look at .svcignore and .gitignore",
    });
  await requireLikelySite(context, place, manifest, entries);
  return entries;
}

/** Packs without keeping anything, to know the sizes. */
export function measureSource(context: Context, entries: readonly Entry[]): Promise<Archive> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  return streamArchive(entries, nowhere, context.signal);
}

export const packedSource = ({ sizeBytes, files }: Archive): PackedSource => ({ bytes: sizeBytes, files });

export interface SourceToDeploy {
  manifest: Manifest;
  metadata: DeploymentMetadata;
  /** Builds also what was built before. */
  forceBuild: boolean;
}

/** An archive that is to be sent, in a private file until it is disposed. */
export interface Packed extends AsyncDisposable {
  entries: readonly Entry[];
  file: string;
  archive: Archive;
}

/** Packs to a private file, because the size has to be known first, and because it is sent again when the answer is lost. */
export async function packSource(context: Context, api: Api, entries: readonly Entry[]): Promise<Packed> {
  const directory = await mkdtemp(join(tmpdir(), "svc-deploy-"));
  const file = join(directory, "source.tgz");
  const remove = () => rm(directory, { recursive: true, force: true });
  const activity = context.terminal.activity("Packing");
  try {
    const limit = await findUploadLimit(api, entries);
    const archive = await writeArchive(entries, file, context.signal, limit ?? undefined);
    return { entries, file, archive, [Symbol.asyncDispose]: remove };
  } catch (thrown) {
    await remove();
    throw thrown;
  } finally {
    activity.stop();
  }
}

/** Uploads what was packed and so queues a deployment. */
export async function uploadSource(
  context: Context,
  api: Api,
  projectId: string,
  { entries, file, archive }: Packed,
  { manifest, metadata, forceBuild }: SourceToDeploy,
): Promise<{ reply: CreateDeploymentReply; source: PackedSource }> {
  context.terminal.step(`Packed ${plural(archive.files, "file")}, ${formatBytes(archive.sizeBytes)}`, "done");
  const activity = context.terminal.activity("Uploading");
  try {
    const startedAtMs = context.clock.steadyMs();
    const tell = tellProgress(context, activity.update, archive.sizeBytes);
    const { type, content } = multipartBody(
      {
        ...{ manifest: JSON.stringify(manifest), metadata: JSON.stringify(metadata) },
        ...(forceBuild && { forceBuild: "true" }),
      },
      { name: "source", file, sizeBytes: archive.sizeBytes, type: "application/gzip" },
      `svc-${randomBytes(18).toString("hex")}`,
      (sentBytes) => {
        // Of less than all of it the platform makes nothing.
        if (sentBytes >= archive.sizeBytes) context.onInterrupt(unknownAdvice);
        tell(sentBytes);
      },
    );
    const reply = await postOnce(context, api, `/projects/${projectId}/deployments`, createDeploymentReply, {
      body: { type, content },
      timeoutMs: uploadMsMin + archive.sizeBytes / uploadBytesPerMs,
      failure: (error: ServerError) => {
        const usual = fromDeployError(error);
        return error.code === "UPLOAD_TOO_LARGE" ? sizeRefusal(error, usual, entries) : usual;
      },
    });
    const tookMs = context.clock.steadyMs() - startedAtMs;
    if (tookMs >= uploadWorthTellingMs) context.terminal.step(uploadedLine(archive.sizeBytes, tookMs), "done");
    return { reply, source: packedSource(archive) };
  } finally {
    activity.stop();
  }
}

/** Tells how much is sent: in the line that changes, or where there is none now and then in one of its own. */
function tellProgress({ clock, terminal }: Context, update: (text: string) => void, totalBytes: number) {
  const startedAtMs = clock.steadyMs();
  let toldAtMs = startedAtMs;
  return (sentBytes: number) => {
    const nowMs = clock.steadyMs();
    const line = uploadLine(sentBytes, totalBytes, nowMs - startedAtMs);
    update(line);
    if (terminal.animated || nowMs - toldAtMs < progressLineMs) return;
    toldAtMs = nowMs;
    terminal.step(line);
  };
}
