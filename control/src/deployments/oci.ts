import { lookup } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import { type FailureCode, isOciFailureCode, isPublicAddress, parseImageReference, registryApiHost } from "@svc/proto";
import { createRegistry, type FoundManifest, type Registry, RegistryError } from "@svc/registry";
import { z } from "zod";
import type { ReferencePolicy } from "./reference.ts";

/** What an image reference stands for at this moment, pinned. */
export interface ResolvedImage {
  /** Null: the cluster's own registry. */
  registryHost: string | null;
  repository: string;
  digest: string;
  /** Compressed, as it is transferred. */
  sizeBytes: number;
  os: string;
  architecture: string;
}

export type ResolveFailure = { code: FailureCode; message: string };
export type ResolveImage = (reference: string, maxImageMb: number) => Promise<ResolvedImage | ResolveFailure>;

export interface ImageResolverDeps {
  /** The cluster's registry and its host:port. */
  registry: Registry;
  registryHost: string;
  /** Judged once more when the work begins: the queue may have been long. */
  references: ReferencePolicy;
  /** Private registries that the operator allows, as host or host:port. */
  allow: readonly string[];
  /** Platforms that the fleet's nodes have; the first that the image offers is taken. */
  platforms(): Promise<{ os: string; architecture: string }[]>;
}

const configBytesMax = 1024 * 1024;
const callTimeoutMs = 20_000;

/** Failures of image projects have codes of their own; others pass through. */
export function ociFailure(code: string): string {
  if (isOciFailureCode(code)) return code;
  if (code === "HEALTH_CHECK_FAILED") return "OCI_HEALTH_CHECK_FAILED";
  return ["START_FAILED", "CRASH_LOOP", "OUT_OF_MEMORY", "NODE_TASK_FAILED"].includes(code)
    ? "OCI_DEPLOY_FAILED"
    : code;
}

/**
 * Asks the reference's registry for the digest, platform and size, without pulling. A tag is looked up
 * once, here: everything after uses the digest. Nothing that the registry said is in a failure.
 */
export function createImageResolver(deps: ImageResolverDeps): ResolveImage {
  return async (text, maxImageMb) => {
    if (maxImageMb === 0) return { code: "OCI_PLAN_UNAVAILABLE", message: "" };
    const reference = parseImageReference(text);
    if ("problem" in reference) return { code: "OCI_INSPECT_FAILED", message: reference.problem };
    const { registry: host, repository } = reference;
    if ((await deps.references.problem(text)) !== null) return { code: "OCI_REGISTRY_BLOCKED", message: "" };
    const isOwn = host === deps.registryHost;
    const registry = isOwn ? deps.registry : foreignRegistry(host, deps.allow.includes(host));
    try {
      const pinned = await registry.getManifest(repository, reference.digest ?? reference.tag ?? "");
      const image = await platformManifest(registry, repository, pinned, await deps.platforms());
      if ("code" in image) return image;
      const config = await readConfig(registry, repository, image);
      if (config === null) return { code: "OCI_INSPECT_FAILED", message: "" };
      if (config.os !== "linux") return { code: "OCI_PLATFORM_UNSUPPORTED", message: "" };
      if (!config.startable) return { code: "OCI_ENTRYPOINT_MISSING", message: "" };
      if (image.contentBytes > maxImageMb * 1024 * 1024) {
        const sizeMb = Math.ceil(image.contentBytes / 1024 / 1024);
        return {
          code: "OCI_IMAGE_TOO_LARGE",
          message: `The image has ${sizeMb} MB; the plan allows ${maxImageMb} MB.`,
        };
      }
      return {
        registryHost: isOwn ? null : host,
        repository,
        digest: pinned.digest,
        sizeBytes: image.contentBytes,
        os: config.os,
        architecture: config.architecture,
      };
    } catch (error) {
      return registryFailure(error);
    } finally {
      if (!isOwn) await registry.close();
    }
  };
}

function registryFailure(error: unknown): ResolveFailure {
  if (!(error instanceof RegistryError)) throw error;
  if (error.cause instanceof AddressBlocked) return { code: "OCI_REGISTRY_BLOCKED", message: "" };
  if (error.code === "ARTIFACT_DIGEST_MISMATCH") return { code: "OCI_DIGEST_MISMATCH", message: "" };
  return { code: /\((401|403)\)/.test(error.message) ? "OCI_AUTH_FAILED" : "OCI_PULL_FAILED", message: "" };
}

class AddressBlocked extends Error {
  override readonly name = "AddressBlocked";
}

/** Resolves a name and refuses unless every address is public; what is dialled is what was judged. */
const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { all: true, verbatim: true }).then(
    (addresses) => {
      const [first] = addresses;
      if (first === undefined || !addresses.every(({ address }) => isPublicAddress(address))) {
        callback(new AddressBlocked(`${hostname} is not at a public address`), "", 4);
      } else if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    },
    (error: NodeJS.ErrnoException) => callback(error, "", 4),
  );
};

function foreignRegistry(host: string, trusted: boolean): Registry {
  const isLoopback = /^(127\.\d+\.\d+\.\d+|localhost)(:\d+)?$/.test(host);
  return createRegistry({
    url: `${trusted && isLoopback ? "http" : "https"}://${registryApiHost(host)}`,
    timeoutMs: callTimeoutMs,
    ...(host === "docker.io" && { authHosts: ["auth.docker.io"] }),
    ...(!trusted && { lookup: publicLookup }),
  });
}

/** The manifest itself, or the one of an index that fits a node. */
async function platformManifest(
  registry: Registry,
  repository: string,
  found: FoundManifest,
  platforms: readonly { os: string; architecture: string }[],
): Promise<FoundManifest | ResolveFailure> {
  const { manifests } = found.manifest;
  if (manifests === undefined) return found;
  const match = platforms
    .map((wanted) =>
      manifests.find(({ platform }) => platform?.os === wanted.os && platform.architecture === wanted.architecture),
    )
    .find((each) => each !== undefined);
  return match === undefined
    ? { code: "OCI_PLATFORM_UNSUPPORTED", message: "" }
    : registry.getManifest(repository, match.digest);
}

/** As far as it is read; foreign registries may say anything. */
const imageConfig = z.looseObject({
  os: z.string(),
  architecture: z.string(),
  config: z.looseObject({ Entrypoint: z.unknown(), Cmd: z.unknown() }).nullish(),
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function readConfig(registry: Registry, repository: string, { manifest }: FoundManifest) {
  if (manifest.config === undefined || manifest.config.size > configBytesMax) return null;
  const parts: Buffer[] = [];
  for await (const part of await registry.pullBlob(repository, manifest.config.digest)) parts.push(part as Buffer);
  const config = imageConfig.safeParse(parsed(Buffer.concat(parts).toString("utf8")));
  if (!config.success) return null;
  const { os, architecture, config: run } = config.data;
  const isFilled = (value: unknown) => Array.isArray(value) && value.length > 0;
  return { os, architecture, startable: isFilled(run?.Entrypoint) || isFilled(run?.Cmd) };
}
