import type { ImageReference } from "@svc/proto";
import { type Registry, RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { Limiter } from "@svc/runtime/limiter";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Content } from "../artifacts/rules.ts";
import { createBudget } from "../images/budget.ts";
import { type CopyOptions, copyLayers, lookForLayers, requireFits, storeManifest } from "../images/copy.ts";
import { ImageRefused } from "../images/failures.ts";
import { inspectImage } from "../images/inspect.ts";
import { openOrigin } from "../images/origin.ts";
import type { ReferenceRules } from "../images/reference.ts";
import type { ResolveAddresses } from "../images/resolve.ts";
import type { Platform } from "../images/rules.ts";
import type { KnownLayers } from "../images/store.ts";
import { BadLayer } from "../images/tar-size.ts";
import { type BaseImageRefusal, baseRepository } from "./rules.ts";
import { beginCopy, endCopy, giveUpCopy, noteUse } from "./store.ts";

export interface CopyDeps {
  clock: Clock;
  db: Db;
  log: Log;
  /** The cluster's registry. */
  registry: Registry;
  rules: ReferenceRules;
  resolve: ResolveAddresses;
  limiter: Limiter;
  /** For looking and copying; waiting for a turn does not count. */
  limitMs: number;
  maxImageMb: number;
  maxMbPerAccount: number;
}

export interface CopyRequest {
  reference: ImageReference;
  platform: Platform;
  /** The account that it is copied for; null: the operator's own, which takes nobody's room. */
  ownerId: string | null;
}

/** A base image cannot be had by this build. */
export class BaseImageRefused extends Error {
  override readonly name = "BaseImageRefused";
  readonly refusal: BaseImageRefusal;
  /** The one account that it is about; null: nobody gets the image. */
  readonly ownerId: string | null;
  constructor(refusal: BaseImageRefusal, { ownerId = null, cause }: { ownerId?: string | null; cause?: unknown } = {}) {
    super(`${refusal.code}: ${refusal.message}`, { cause });
    this.refusal = refusal;
    this.ownerId = ownerId;
  }
}

/**
 * Brings a base image from wherever its reference says into the cluster's registry, by digest, with nobody's
 * credential: so what is there may be used by every build. Safe to repeat, and to break off anywhere. Throws
 * BaseImageRefused.
 */
export async function copyBaseImage(deps: CopyDeps, request: CopyRequest, signal: AbortSignal): Promise<Content> {
  try {
    return await copy(deps, request, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ImageRefused) throw new BaseImageRefused(asBaseImage(error.refusal, deps), { cause: error });
    if (error instanceof BadLayer) {
      throw new BaseImageRefused({ code: "OCI_INSPECT_FAILED", message: error.message }, { cause: error });
    }
    throw error;
  }
}

/** What an image's refusal says of plans and credentials is not so here. */
function asBaseImage({ code, message }: BaseImageRefusal, { maxImageMb }: CopyDeps): BaseImageRefusal {
  if (code === "OCI_IMAGE_TOO_LARGE") return { code, message: `A base image has at most ${maxImageMb} MB, unpacked.` };
  if (code === "OCI_AUTH_FAILED") return { code, message: "Its registry gives it to nobody without an account." };
  return { code, message };
}

async function copy(
  deps: CopyDeps,
  { reference, platform, ownerId }: CopyRequest,
  signal: AbortSignal,
): Promise<Content> {
  const { clock, db, registry, rules, resolve, limitMs, maxImageMb, limiter, log } = deps;
  const repository = baseRepository(reference);
  if (repository === null) {
    throw new BaseImageRefused({ code: "BUILD_FAILED", message: "Its name is too long." });
  }
  const budget = createBudget(clock, limitMs, signal);
  await using origin = await openOrigin(reference, {
    ...{ clock, registry, rules, resolve, limitMs, ownerId: null },
    findCredential: async () => null,
  });
  const image = await budget.within((stop) =>
    inspectImage(reference.digest ?? reference.tag ?? "", {
      ...{ origin, registry, repository, maxImageMb, signal: stop },
      platforms: [platform],
      needsCommand: false,
    }),
  );
  const content = { repository, digest: image.digest };
  if (await budget.within((stop) => isKept(deps, content, stop))) return content;
  const of = { ownerId, sizeBytes: image.sizeBytes };
  // From here on nothing of it is deleted.
  const problem = await beginCopy(db, content, { ...of, maxMb: deps.maxMbPerAccount });
  if (problem !== null) throw new BaseImageRefused(problem, { ownerId });
  const options: CopyOptions = { image, origin, registry, repository, known: nothingKnown, shared: null, maxImageMb };
  // Once its manifest may be there it has to be found again.
  let mayBeThere = false;
  try {
    const copyIt = () =>
      budget.within(async (stop) => {
        const missing = await lookForLayers(options, stop);
        await copyLayers(options, missing, stop);
        requireFits(options, missing);
        mayBeThere = true;
        await storeManifest(options, stop);
      });
    await limiter(copyIt, { key: ownerId ?? "", signal });
  } catch (error) {
    // Where this fails, too, the room is back after a day.
    if (!mayBeThere)
      await giveUpCopy(db, content).catch((err: unknown) =>
        log.warn({ err, ...content }, "a base image that was not copied counts for a day"),
      );
    throw error;
  }
  await endCopy(db, content, of);
  log.info({ ...content, from: reference.canonical }, "base image copied");
  return content;
}

/** What was there before the image was whole is measured again: that happens once. */
const nothingKnown: KnownLayers = { find: async () => new Map(), save: async () => {}, forgetOld: async () => {} };

/** Whether nobody else's registry is needed for it: it is named by its digest, and that was copied before. */
export async function isCopied(
  stores: Pick<CopyDeps, "db" | "registry">,
  reference: ImageReference,
  signal: AbortSignal,
): Promise<boolean> {
  const { digest } = reference;
  const repository = baseRepository(reference);
  return digest !== undefined && repository !== null && (await isKept(stores, { repository, digest }, signal));
}

/** Whether there is a whole copy. One that there is stays for as long again. */
const isKept = async (
  { db, registry }: Pick<CopyDeps, "db" | "registry">,
  content: Content,
  signal: AbortSignal,
): Promise<boolean> => (await noteUse(db, content)) && (await hasManifest(registry, content, signal));

async function hasManifest(registry: Registry, { repository, digest }: Content, signal: AbortSignal): Promise<boolean> {
  try {
    await registry.getManifest(repository, digest, { signal });
    return true;
  } catch (error) {
    if (error instanceof RegistryError && error.code === "ARTIFACT_NOT_FOUND") return false;
    throw error;
  }
}
