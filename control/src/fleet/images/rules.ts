// @pure
import type { OciFailureCode } from "@svc/proto";
import type { Descriptor, FoundManifest, OciManifest } from "@svc/registry";
import { z } from "zod";

export interface Platform {
  os: string;
  architecture: string;
}

/** Why an image cannot be deployed. An empty message stands for the code's own sentence. */
export interface Refusal {
  code: OciFailureCode | "NODE_UNAVAILABLE";
  message: string;
}

const refusal = (code: OciFailureCode, message = ""): Refusal => ({ code, message });
const bytesPerMb = 1024 * 1024;

/** No engine runs images of more layers. */
const layersMax = 127;
/** Real ones have a few KiB. */
export const configBytesMax = 1024 * 1024;
/** The kernel's user ids end here; runtimes have read larger ones as root. */
const userIdMax = 2 ** 31 - 1;

export const imageTooLarge = (bytes: number, maxImageMb: number): Refusal =>
  refusal(
    "OCI_IMAGE_TOO_LARGE",
    `The image has at least ${Math.ceil(bytes / bytesPerMb)} MB; the plan allows ${maxImageMb} MB.`,
  );

/** The image of an index that the fleet can run, of the platform that comes first in `platforms`; null when none is. */
export function choosePlatform(
  manifests: NonNullable<OciManifest["manifests"]>,
  platforms: readonly Platform[],
): Descriptor | null {
  for (const { os, architecture } of platforms) {
    const match = manifests.find(({ platform }) => platform?.os === os && platform.architecture === architecture);
    if (match !== undefined) return match;
  }
  // An index of one image need not say for what; the image itself does.
  const [only, ...more] = manifests;
  return only !== undefined && more.length === 0 && only.platform === undefined ? only : null;
}

export interface ImageParts {
  config: Descriptor;
  layers: readonly Descriptor[];
}

/** What the manifest of one image consists of, or why it is not taken. */
export function partsOf(
  { manifest, contentBytes }: Pick<FoundManifest, "manifest" | "contentBytes">,
  maxImageMb: number,
): ImageParts | Refusal {
  const { config, layers = [], manifests } = manifest;
  if (config === undefined || manifests !== undefined)
    return refusal("OCI_INSPECT_FAILED", "The reference is not that of a container image.");
  if (config.size > configBytesMax || layers.length > layersMax)
    return refusal("OCI_INSPECT_FAILED", `The image has more than ${layersMax} layers, or too large a description.`);
  // An engine would fetch such a layer from there by itself.
  if ([config, ...layers].some(({ urls }) => urls !== undefined && !(Array.isArray(urls) && urls.length === 0)))
    return refusal("OCI_INSPECT_FAILED", "The image has layers that are not in its registry.");
  return contentBytes > maxImageMb * bytesPerMb ? imageTooLarge(contentBytes, maxImageMb) : { config, layers };
}

/** As far as it is read; a registry may say anything. */
const imageConfig = z.looseObject({
  os: z.string(),
  architecture: z.string(),
  config: z
    .looseObject({ Entrypoint: z.unknown().optional(), Cmd: z.unknown().optional(), User: z.string().nullish() })
    .nullish(),
  rootfs: z.looseObject({ diff_ids: z.array(z.string()) }),
});

const isCommand = (value: unknown): boolean => Array.isArray(value) && typeof value[0] === "string" && value[0] !== "";

export interface Wanted {
  platforms: readonly Platform[];
  /** Whether it has to say what it runs; what builds start from need not. */
  needsCommand: boolean;
}

/** The platform of an image by its own description, or why no node may run it. `layers`: how many its manifest has. */
export function judgeConfig(text: string, layers: number, { platforms, needsCommand }: Wanted): Platform | Refusal {
  const parsed = imageConfig.safeParse(parseJson(text));
  if (!parsed.success || parsed.data.rootfs.diff_ids.length !== layers) return refusal("OCI_INSPECT_FAILED");
  const { os, architecture, config: run } = parsed.data;
  if (os !== "linux" || !platforms.some((platform) => platform.os === os && platform.architecture === architecture)) {
    const wanted = [...new Set(platforms.map((platform) => `${platform.os}/${platform.architecture}`))].join(", ");
    return refusal("OCI_PLATFORM_UNSUPPORTED", `The image is for another platform than this installation: ${wanted}.`);
  }
  if (needsCommand && !isCommand(run?.Entrypoint) && !isCommand(run?.Cmd)) return refusal("OCI_ENTRYPOINT_MISSING");
  const ids = (run?.User ?? "").split(":").filter((part) => /^[+-]?\d+$/.test(part));
  if (ids.some((id) => Number(id) < 0 || Number(id) > userIdMax))
    return refusal("OCI_INSPECT_FAILED", "The image's USER is not a user id.");
  return { os, architecture };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
