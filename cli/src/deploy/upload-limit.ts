import { usageReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { CliError, type ServerError } from "../errors.ts";
import { formatBytes } from "../format.ts";
import type { SizeLimit } from "./archive.ts";
import { largestParts } from "./largest.ts";
import type { Entry } from "./tree.ts";

const mebibyte = 1024 * 1024;
// No plan allows less, and no archive is much larger than what is in it.
const alwaysFitsBytes = mebibyte / 2;
const partsShown = 5;

/**
 * How much the account's plan lets one upload have. Null where the key may not read the plan, or the sources are so
 * small that they fit any: then the platform says it when it is too much.
 */
export async function findUploadLimit(api: Api, entries: readonly Entry[]): Promise<SizeLimit | null> {
  const bytes = entries.reduce((sum, entry) => sum + (entry.kind === "file" ? entry.sizeBytes : 0) + 512, 0);
  if (bytes < alwaysFitsBytes) return null;
  const usage = await api.get("/account/usage", usageReply).catch((thrown: unknown) => {
    // Whatever is wrong, the upload itself will say it better.
    if (thrown instanceof CliError) return null;
    throw thrown;
  });
  if (usage === null) return null;
  const { maxUploadMb } = usage.plan;
  return { maxBytes: maxUploadMb * mebibyte, tooLarge: () => tooLarge(entries, maxUploadMb) };
}

const tooLarge = (entries: readonly Entry[], maxUploadMb: number): CliError =>
  new CliError(
    "DEPLOY_TRIGGER_FAILED",
    [
      `UPLOAD_TOO_LARGE: Packed, the source is larger than the ${formatBytes(maxUploadMb * mebibyte)} that your plan allows. Nothing was sent. Most of it is in`,
      ...partLines(entries),
    ].join("\n"),
    { hint: tooLargeHint },
  );

const tooLargeHint =
  "Leave out what the build does not need with lines in .gitignore, or in .svcignore if you have one; see what is packed with `svc deploy --dry-run`";

/** The platform's own refusal for size, with where the bytes are. */
export const sizeRefusal = (error: ServerError, usual: CliError, entries: readonly Entry[]): CliError =>
  new CliError(usual.code, [`${usual.message} Most of it is in`, ...partLines(entries)].join("\n"), {
    hint: tooLargeHint,
    server: error,
  });

const partLines = (entries: readonly Entry[]): string[] =>
  largestParts(entries, partsShown).map(({ path, bytes }) => `  ${formatBytes(bytes).padStart(9)}  ${path}`);
