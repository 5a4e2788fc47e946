import { randomBytes, randomUUID } from "node:crypto";
import { createRegistry, type Registry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { type RegistryProcess, startDockerRegistry } from "../../../../../../registry/src/testing/docker-registry.ts";
import {
  type Intercept,
  type Proxy as RegistryProxy,
  startProxy,
} from "../../../../../../registry/src/testing/proxy.ts";
import { ownRegistry } from "../../../../fleet/images/own.ts";
import type { Refusal } from "../../../../fleet/images/rules.ts";
import { createLog } from "../../../../log.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import { testDatabase } from "../../../../stores/db/testing.ts";
import { createSecrets, type Secrets } from "../../../../stores/secrets.ts";
import {
  createImageResolver,
  type ImageRequest,
  type ImageResolverDeps,
  type ResolvedImage,
  type ResolveImage,
} from "../oci.ts";
import { aLayer, anImage, type ImageFacts, pushImage, type TestImage } from "./image.ts";

export type { Proxy as RegistryProxy } from "../../../../../../registry/src/testing/proxy.ts";

/** The one account of the registry that lets nobody else in. */
export const account = { username: "puller", password: "correct horse" };

/** What a test says of a request; the rest is of a project of its own. */
export type ResolveOptions = Partial<ImageRequest> & {
  /** Registries that the operator allows; by default those of the fixture. */
  allow?: string[];
  deps?: Partial<ImageResolverDeps>;
  /** One that several requests share; by default each has its own. */
  resolver?: ResolveImage;
};

/** Real registries: the cluster's, one of the public, and one with accounts. */
export interface OciFixture extends AsyncDisposable {
  db: Db;
  secrets: Secrets;
  own: RegistryProcess;
  open: RegistryProcess;
  locked: RegistryProcess;
  ownClient: Registry;
  lockedClient: Registry;
  openClient: Registry;
  /** A project, by default of an account of its own. */
  newProject(ownerId?: string): Promise<string>;
  newAccount(): Promise<string>;
  /** What `resolve` uses, of what its options say of the platform. */
  newResolver(options?: Pick<ResolveOptions, "allow" | "deps">): ResolveImage;
  resolve(reference: string, options?: ResolveOptions): Promise<ResolvedImage | Refusal>;
  /** The code, or what it was resolved to. */
  failure(reference: string, options?: ResolveOptions): Promise<string>;
  /** An image at a place of its own in the open registry, under the tag 1. */
  published(facts?: ImageFacts): Promise<PublishedImage>;
  /** Stands in front of the open registry. */
  hostile(intercept: Intercept, host?: string): Promise<RegistryProxy>;
  /** Resolves an image of the open registry by way of what stands in front of it. */
  through(proxy: RegistryProxy, image: PublishedImage, options?: ResolveOptions): Promise<ResolvedImage | Refusal>;
}

export type PublishedImage = TestImage & { repository: string };

export const hostOf = ({ url }: { url: string }): string => new URL(url).host;

/** How many blobs were read by way of it. */
export const blobReads = ({ seen }: RegistryProxy): number =>
  seen.filter(({ method, path }) => method === "GET" && path.includes("/blobs/")).length;

export async function ociFixture(): Promise<OciFixture> {
  await using stack = new AsyncDisposableStack();
  const { db } = stack.use(await testDatabase());
  const [own, open, locked] = await Promise.all([
    startDockerRegistry(),
    startDockerRegistry(),
    startDockerRegistry(account),
  ]);
  for (const each of [own, open, locked]) stack.use(each);
  const ownClient = stack.use(createRegistry(systemClock, { url: own.url }));
  const openClient = stack.use(createRegistry(systemClock, { url: open.url }));
  const lockedClient = stack.use(createRegistry(systemClock, { url: locked.url, ...account }));
  const secrets = createSecrets([randomBytes(32)]);
  const held = stack.move();
  let images = 0;

  const newResolver: OciFixture["newResolver"] = ({ allow = [open, locked, own].map(hostOf), deps } = {}) =>
    createImageResolver({
      clock: systemClock,
      random: systemRandom,
      db,
      secrets,
      log: createLog("silent"),
      registry: ownClient,
      rules: { allow, ownRegistry: ownRegistry(own.url) },
      platforms: async () => [{ os: "linux", architecture: "amd64" }],
      ...deps,
    });
  const resolve: OciFixture["resolve"] = async (reference, options = {}) => {
    const {
      allow,
      deps,
      resolver = newResolver({ ...(allow && { allow }), ...(deps && { deps }) }),
      ...request
    } = options;
    const resolved = await resolver({
      deploymentId: randomUUID(),
      projectId: request.projectId ?? (await newProject(db)),
      ownerId: "owner",
      reference,
      maxImageMb: 64,
      signal: new AbortController().signal,
      ...request,
    });
    if ("later" in resolved) throw new Error("there was no room for it");
    return resolved;
  };
  return {
    db,
    secrets,
    own,
    open,
    locked,
    ownClient,
    openClient,
    lockedClient,
    newProject: (ownerId) => newProject(db, ownerId),
    newAccount: () => newAccount(db),
    newResolver,
    resolve,
    async failure(reference, options) {
      const result = await resolve(reference, options);
      return "code" in result ? result.code : `resolved ${result.digest}`;
    },
    async published(facts = {}) {
      images += 1;
      const image = anImage({ layers: [aLayer(`layer of ${images}`)], ...facts });
      const repository = `apps/n${images}`;
      await pushImage(openClient, repository, image, "1");
      return { ...image, repository };
    },
    hostile: (intercept, host) => startProxy(open.url, intercept, host),
    through: (proxy, image, options) =>
      resolve(`${hostOf(proxy)}/${image.repository}:1`, { allow: [hostOf(proxy)], ...options }),
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

async function newAccount(db: Db): Promise<string> {
  const id = randomUUID();
  await sql`insert into auth."user" (id, name, email, "emailVerified")
    values (${id}, 'Ada', ${`${id}@svc.test`}, true)`.execute(db);
  return id;
}

async function newProject(db: Db, owner?: string): Promise<string> {
  const ownerId = owner ?? (await newAccount(db));
  const { id } = await db
    .insertInto("project")
    .values({ owner_id: ownerId, name: "Shop", slug: `s-${randomUUID().slice(0, 20)}`, type: "ociimage" })
    .returning("id")
    .executeTakeFirstOrThrow();
  return id;
}
