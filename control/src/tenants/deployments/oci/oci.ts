import { limits, parseImageReference } from "@svc/proto";
import type { Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter, type Limiter, LimiterFull } from "@svc/runtime/limiter";
import type { Random } from "@svc/runtime/random";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { beginPush, endPush } from "../../../fleet/artifacts/store.ts";
import { createBudget } from "../../../fleet/images/budget.ts";
import { type CopyOptions, copyLayers, lookForLayers, requireFits, storeManifest } from "../../../fleet/images/copy.ts";
import { ImageRefused } from "../../../fleet/images/failures.ts";
import { type InspectedImage, inspectImage } from "../../../fleet/images/inspect.ts";
import { openOrigin } from "../../../fleet/images/origin.ts";
import type { ReferenceRules } from "../../../fleet/images/reference.ts";
import { type ResolveAddresses, systemAddresses } from "../../../fleet/images/resolve.ts";
import type { Platform, Refusal } from "../../../fleet/images/rules.ts";
import { knownLayersOf, sharedLayersOf } from "../../../fleet/images/store.ts";
import { BadLayer } from "../../../fleet/images/tar-size.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { CannotOpen, type Secrets } from "../../../stores/secrets.ts";
import { findCredential } from "../../registries/store.ts";

export { ociFailure } from "../../../fleet/images/failures.ts";

/** Which image a deployment wants, and for whom. */
export interface ImageRequest {
  deploymentId: string;
  projectId: string;
  /** The account that the copy is made for: it shares the room for copies with others. */
  ownerId: string;
  reference: string;
  /** The plan's. 0: the plan has no images. */
  maxImageMb: number;
  /** Ends the work at once; it then throws the signal's reason. */
  signal: AbortSignal;
}

/** An image in the project's own repository of the cluster's registry. */
export interface ResolvedImage extends Platform {
  repository: string;
  digest: string;
  /** Compressed, as it is transferred. */
  sizeBytes: number;
}

/** Others take all the room at the moment, and as many wait as may: ask again in a second. */
export interface NoRoom {
  later: true;
}

export type ResolveImage = (request: ImageRequest) => Promise<ResolvedImage | Refusal | NoRoom>;

export interface ImageResolverDeps {
  clock: Clock;
  /** Names pushes. */
  random: Random;
  db: Db;
  secrets: Secrets;
  log: Log;
  /** The cluster's registry. */
  registry: Registry;
  /** Judged once more when the work begins: the queue may have been long. */
  rules: ReferenceRules;
  /** Platforms that the fleet's nodes have; the first that the image offers is taken. */
  platforms(): Promise<readonly Platform[]>;
  /** By default as the system resolves names. */
  resolve?: ResolveAddresses;
  /** For all of looking and copying; waiting for a turn does not count. By default 15 minutes. */
  limitMs?: number;
}

/** Together some tens of MB of memory. */
const copies = { total: 3, perKey: 2 };
/**
 * Images that are looked at, copied, or wait for the copy. A registry may be slow at anything, so this bounds how much
 * of the room for deployments they take. Whoever is inside stays: to look again costs the registry's allowance.
 */
export const inside = { total: 8, perKey: 3 };
/**
 * Of those that wait to be inside, each keeps its place among the replica's deployments so that it goes on in the moment
 * in which another one is through. The rest gives it back: together they take little more than half of them.
 */
export const waiters = { total: 48, perKey: 24 };

/**
 * Brings an image from wherever its reference says into the project's repository, by digest: nodes pull from there
 * only, so they need no foreign credential, and a rollback needs no foreign registry. A tag is looked up once. What the
 * project has already is not transferred again, so a copy that was broken off goes on where it was, and one of the
 * same image only looks. Projects of one account share what they have from the same place, and bring each layer once.
 */
export function createImageResolver(deps: ImageResolverDeps): ResolveImage {
  const limiters: Limiters = {
    inside: createLimiter(inside, waiters),
    copying: createLimiter(copies),
    bringing: createLimiter({ perKey: 1 }),
  };
  return async (request) => {
    const { ownerId, signal } = request;
    try {
      return await limiters.inside(() => resolveImage(deps, limiters, request), { key: ownerId, signal });
    } catch (error) {
      if (error instanceof LimiterFull) return { later: true };
      signal.throwIfAborted();
      if (error instanceof ImageRefused) return error.refusal;
      if (error instanceof BadLayer) return { code: "OCI_INSPECT_FAILED", message: error.message };
      throw error;
    }
  };
}

interface Limiters {
  inside: Limiter;
  copying: Limiter;
  /** One layer for one account: whoever comes second finds it there. */
  bringing: Limiter;
}

async function resolveImage(
  deps: ImageResolverDeps,
  limiters: Limiters,
  request: ImageRequest,
): Promise<ResolvedImage> {
  const { clock, random, db, registry, log, limitMs = limits.pullSecondsMax * 1000 } = deps;
  const { deploymentId, projectId, ownerId, reference, maxImageMb, signal } = request;
  if (maxImageMb === 0) throw new ImageRefused({ code: "OCI_PLAN_UNAVAILABLE", message: "" });
  const repository = repositories.image(projectId);
  const budget = createBudget(clock, limitMs, signal);
  const named = parseImageReference(reference);
  if ("problem" in named) throw new ImageRefused({ code: "OCI_REGISTRY_BLOCKED", message: named.problem });
  await using origin = await openOrigin(named, {
    clock,
    registry,
    rules: deps.rules,
    ownerId,
    findCredential: (host) => credentialOf(deps, projectId, host),
    resolve: deps.resolve ?? systemAddresses,
    limitMs,
  });

  const image = await budget.within(async (stop) => {
    const platforms = await deps.platforms();
    if (platforms.length === 0) throw new ImageRefused({ code: "NODE_UNAVAILABLE", message: "" });
    const options = { origin, registry, repository, platforms, needsCommand: true, maxImageMb, signal: stop };
    return inspectImage(named.digest ?? named.tag ?? "", options);
  });
  // Not the deployment's id: a worker that lost its turn may still be at the same, and ends its own push only.
  const push = { id: random.uuid(), projectId, repository, kind: "image" } as const;
  const shared = sharedLayersOf(db, projectId, origin.name, (work, { key = "", ...turn } = {}) =>
    limiters.bringing(work, { ...turn, key: `${ownerId} ${origin.name} ${key}` }),
  );
  const known = knownLayersOf(db, projectId);
  const copy: CopyOptions = { image, origin, registry, repository, known, shared, maxImageMb, tag: push.id };
  let pushed: InspectedImage | null = null;
  try {
    // From here on nothing is deleted from the repository.
    if (!(await beginPush(db, push))) throw new Error("the project is gone");
    let missing = await budget.within((stop) => lookForLayers(copy, stop));
    const layers = missing.absent.length + missing.unmeasured.length;
    if (layers > 0) {
      const copyMissing = async () => {
        // The wait may have been longer than a push is believed to last.
        await beginPush(db, push);
        await budget.within(async (stop) => {
          missing = await lookForLayers(copy, stop);
          await copyLayers(copy, missing, stop);
        });
      };
      await limiters.copying(copyMissing, { key: ownerId, signal });
      log.info({ deploymentId, projectId, digest: image.digest, layers }, "image copied");
    }
    requireFits(copy, missing);
    await budget.within((stop) => storeManifest(copy, stop));
    pushed = image;
  } finally {
    await endPush(db, push, pushed);
  }
  const { digest, sizeBytes, os, architecture } = image;
  return { repository, digest, sizeBytes, os, architecture };
}

async function credentialOf({ db, secrets }: ImageResolverDeps, projectId: string, host: string) {
  try {
    return await findCredential(db, secrets, projectId, host);
  } catch (error) {
    if (!(error instanceof CannotOpen)) throw error;
    throw new ImageRefused({ code: "OCI_CREDENTIAL_INVALID", message: "" }, { cause: error });
  }
}
