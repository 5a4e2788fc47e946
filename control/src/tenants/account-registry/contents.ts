import { limits } from "@svc/proto";
import { accountRepositories } from "@svc/proto/cluster-registry";
import { isDigest } from "@svc/proto/image";
import { manifestBytesMax, type Registry, RegistryError, type StoredManifest } from "@svc/registry";
import { eachOf } from "../../fleet/images/each.ts";
import type { Db } from "../../stores/db/pool.ts";
import { digestsIn, type Kept } from "./rules.ts";
import {
  claimCleaning,
  endCleaning,
  forgetManifest,
  forgetNoted,
  listManifests,
  listNames,
  listNoted,
  type Parts,
  readParts,
  rememberManifest,
  sumKept,
} from "./store.ts";

const looksAtOnce = 8;
/** Registries keep a list of any length; so many are deleted before the next look. */
const emptiedAtOnce = 1_000;

export interface ContentsDeps {
  db: Db;
  /** Control's own client of the cluster's registry. */
  registry: Registry;
}

/** What an account keeps, after a look through all of its repositories. What is found is remembered at once, so a look that is cut off is not lost. */
export async function readKept(deps: ContentsDeps, userId: string, signal: AbortSignal): Promise<Kept> {
  const tags: Record<string, number> = {};
  for (const name of await listNames(deps.db, userId)) tags[name] = await lookThrough(deps, userId, name, signal);
  return { ...(await sumKept(deps.db, userId)), tags };
}

/**
 * Remembers what a repository has, and forgets what is gone. While nobody can push there it also deletes what no tag
 * names any more, and gives up the name of one that has no tags. Returns how many tags there are, one more than may
 * be when there are more.
 */
export async function lookThrough(deps: ContentsDeps, userId: string, name: string, signal: AbortSignal) {
  const { db, registry } = deps;
  const cleans = await claimCleaning(db, userId, name);
  const repository = `${accountRepositories(userId)}${name}`;
  const tags = await registry.listTags(repository, limits.accountTagsMax + 1, { signal });
  const looked = { userId, name, repository, known: await listManifests(db, userId, name) };
  const reached = await reach(deps, looked, tags.slice(0, limits.accountTagsMax), signal);
  await lookAtNoted(deps, looked, reached, signal);
  // Where not everything was looked at, what was not reached may be named by the rest.
  if (tags.length <= limits.accountTagsMax && reached.size < limits.accountManifestsMax) {
    const remembered = await listManifests(db, userId, name);
    const untagged = [...remembered.keys()].filter((digest) => !reached.has(digest));
    await eachOf(untagged, looksAtOnce, signal, async (digest, stop) => {
      if (cleans) await registry.deleteManifest(repository, digest, { signal: stop });
      else if ((await registry.findManifest(repository, digest, { signal: stop })) !== null) return;
      await forgetManifest(db, userId, name, digest);
    });
  }
  // A look that failed keeps its claim until that ends by itself.
  if (cleans) await endCleaning(db, userId, name, { isFree: tags.length === 0 });
  return tags.length;
}

interface Looked {
  userId: string;
  name: string;
  repository: string;
  /** Manifests that are remembered. */
  known: ReadonlyMap<string, StoredManifest>;
}

/** Remembers what was pushed of which no tag tells, so that it is counted, and goes like what a tag named once. */
async function lookAtNoted(deps: ContentsDeps, looked: Looked, tagged: ReadonlySet<string>, signal: AbortSignal) {
  const noted = await listNoted(deps.db, looked.userId, looked.name);
  const untagged = noted.filter((digest) => !tagged.has(digest) && !looked.known.has(digest));
  const found = await reach(deps, looked, untagged, signal);
  const isDone = (digest: string) => found.size < limits.accountManifestsMax || found.has(digest);
  await forgetNoted(deps.db, looked.userId, looked.name, noted.filter(isDone));
}

/** Digests of the manifests that tags or digests name, and of those that belong to them. */
async function reach(
  { db, registry }: ContentsDeps,
  { userId, name, repository, known }: Looked,
  references: readonly string[],
  signal: AbortSignal,
): Promise<Set<string>> {
  const reached = new Set<string>();
  const visit = async (manifest: StoredManifest, stop: AbortSignal): Promise<void> => {
    const { digest } = manifest;
    if (reached.has(digest) || reached.size >= limits.accountManifestsMax) return;
    reached.add(digest);
    const before = known.has(digest) ? await readParts(db, userId, name, digest) : null;
    const named = before === null ? await namedBy(registry, repository, manifest, stop) : Object.keys(before);
    if (named === null) return rememberManifest(db, userId, name, manifest, null);
    const parts: Parts = {};
    for (const part of named) {
      // What is not there yet may come: it is looked for each time.
      parts[part] = before?.[part] ?? (await registry.sizeOfBlob(repository, part, { signal: stop }));
      const child = manifest.isIndex
        ? (known.get(part) ?? (await findByDigest(registry, repository, part, stop)))
        : null;
      if (child !== null) await visit(child, stop);
    }
    const isNews = before === null || named.some((part) => parts[part] !== before[part]);
    if (isNews) await rememberManifest(db, userId, name, manifest, parts);
  };
  await eachOf(references, looksAtOnce, signal, async (reference, stop) => {
    const find = isDigest(reference) ? findByDigest(registry, repository, reference, stop) : null;
    const found = await (find ?? registry.findManifest(repository, reference, { signal: stop }));
    if (found !== null) await visit(found, stop);
  });
  return reached;
}

/** Digests that a manifest names; null for one that is larger than those of images are. */
async function namedBy(
  registry: Registry,
  repository: string,
  { digest, sizeBytes }: StoredManifest,
  signal: AbortSignal,
): Promise<string[] | null> {
  if (sizeBytes > limits.accountManifestBytesMax) return null;
  const text = await registry.readManifest(repository, digest, limits.accountManifestBytesMax, { signal });
  const named = text === null ? [] : digestsIn(text.toString("latin1")).filter((each) => each !== digest);
  return named.length > limits.accountManifestPartsMax ? null : named;
}

/** The manifest of a digest that somebody named; null for what is none. */
async function findByDigest(
  registry: Registry,
  repository: string,
  digest: string,
  signal: AbortSignal,
): Promise<StoredManifest | null> {
  // The registry would read all of it.
  const size = await registry.sizeOfBlob(repository, digest, { signal });
  if (size !== null && size > manifestBytesMax) return null;
  try {
    return await registry.findManifest(repository, digest, { signal });
  } catch (error) {
    if (error instanceof RegistryError && error.status === 500) return null;
    throw error;
  }
}

/**
 * Deletes what a repository of an account has, as far as its tags and what is remembered or noted name it; bytes go when the
 * registry collects its garbage. Safe to repeat. Nothing that a manifest says keeps it from going.
 */
export async function empty({ db, registry }: ContentsDeps, userId: string, name: string, signal: AbortSignal) {
  const repository = `${accountRepositories(userId)}${name}`;
  const gone = new Set<string>();
  const remove = async (manifest: StoredManifest): Promise<void> => {
    const { digest, isIndex } = manifest;
    if (gone.has(digest)) return;
    gone.add(digest);
    // An index goes last: while it is there it tells what belongs to it.
    for (const part of (isIndex ? await namedBy(registry, repository, manifest, signal) : null) ?? []) {
      const child = await findByDigest(registry, repository, part, signal);
      if (child !== null) await remove(child);
    }
    await registry.deleteManifest(repository, digest, { signal });
  };
  for (let before = -1; gone.size > before; ) {
    before = gone.size;
    for (const tag of await registry.listTags(repository, emptiedAtOnce, { signal })) {
      const found = await registry.findManifest(repository, tag, { signal });
      if (found !== null) await remove(found);
    }
  }
  for (const digest of (await listManifests(db, userId, name)).keys()) {
    await registry.deleteManifest(repository, digest, { signal });
    await forgetManifest(db, userId, name, digest);
  }
  for (let noted = await listNoted(db, userId, name); noted.length > 0; noted = await listNoted(db, userId, name)) {
    for (const digest of noted) await registry.deleteManifest(repository, digest, { signal });
    await forgetNoted(db, userId, name, noted);
  }
}
