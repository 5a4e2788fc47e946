import { createHmac, randomBytes, randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultDatabaseImages, type Scope } from "@svc/proto";
import { createRegistry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import type { FastifyInstance } from "fastify";
import { sql } from "kysely";
import { freePorts } from "../../../registry/src/testing/ports.ts";
import { aTokenKey } from "../../../registry/src/testing/token-key.ts";
import type { RuntimeLog } from "../fleet/agents/runtime-log.ts";
import { openAuthority } from "../fleet/ca/authority.ts";
import type { FleetView } from "../fleet/cluster/facts.ts";
import type { OperatorFacts } from "../fleet/cluster/operators.ts";
import { addressSet } from "../fleet/images/address-set.ts";
import { createWebhookEgress } from "../fleet/images/egress.ts";
import { createReferencePolicy, type ResolveAddresses, referenceRules } from "../fleet/images/reference.ts";
import { createMailer } from "../identity/mail/mailer.ts";
import { insertToken } from "../identity/tokens/store.ts";
import { createLog, type Log } from "../log.ts";
import { buildServer, type ServerContext } from "../server.ts";
import type { Config } from "../settings/settings.ts";
import type { Db } from "../stores/db/pool.ts";
import { seedPlans } from "../stores/db/seed.ts";
import type { Deployment, Plan, Project, ProjectType, Run, Task } from "../stores/db/tables.ts";
import { testDatabase } from "../stores/db/testing.ts";
import type { Bucket } from "../stores/s3/bucket.ts";
import { createSecrets } from "../stores/secrets.ts";
import { createFindReadyBranch } from "../tenants/databases/find-ready.ts";
import { sizeRecord } from "../tenants/databases/sizes.ts";
import type { Studio } from "../tenants/databases/studio/studio.ts";
import { createUploads, type UploadRules } from "../tenants/deployments/upload/slots.ts";
import { type Caller, findCaller } from "./caller.ts";
import type { Endpoint } from "./endpoint.ts";
import { ApiError } from "./errors.ts";
import { watchUndeclared } from "./proof/undeclared.ts";
import { signInCookieName } from "./sign-in-cookie.ts";
import type { Timing } from "./timing.ts";

/** What a test may set about the API that it starts. */
export interface TestApiOptions {
  config?: Partial<Config>;
  /** A real registry; by default an address where nobody answers. */
  registryUrl?: string;
  /** Outside of this site; there is none by default. */
  bucket?: Bucket;
  queryLog?: (nodeId: string, placementId: string, lines: number) => Promise<RuntimeLog>;
  fleet?: Partial<FleetView>;
  operators?: Partial<OperatorFacts>;
  /** Answers for image references; nothing resolves by default. */
  resolve?: ResolveAddresses;
  /** Answers for names of webhooks; nothing resolves by default. */
  resolveWebhook?: ResolveAddresses;
  /** Bounds of uploads that a test can reach. */
  uploads?: Partial<UploadRules>;
  /** Asks servers of branches; nobody answers by default. */
  studio?: Studio;
  /** Where lines go; nowhere by default. */
  log?: Log;
  /** Served besides those of the API. */
  endpoints?: readonly Endpoint[];
  /** Changes of how long a client may take. */
  timing?: Partial<Timing>;
  /** Wrong credentials per client and minute; no end of them by default, as tests send many from one address. */
  wrongPerMinuteMax?: number;
  now?: () => Date;
}

export interface TestUser {
  id: string;
  email: string;
  /** Token of a session that is valid for a day. */
  session: string;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  /** The parsed body; {} when it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into replies of every shape.
  body: any;
}

export interface CallOptions {
  key?: string;
  session?: string;
  cookie?: string;
  /** Sent as JSON; a FormData as multipart; a string or bytes as they are. */
  body?: unknown;
  headers?: Record<string, string>;
}

/** What a test may say of a task. */
export type RunValues = Pick<Run, "node_id"> &
  Partial<Pick<Run, "number" | "started_at" | "finished_at" | "exit_code">>;
export type TaskValues = Partial<
  Pick<Task, "id" | "kind" | "desired" | "replica" | "memory_mb" | "reaped_at"> & { spec: string }
>;

/** The whole HTTP API on a free port, on a database of its own, without the rest of the program. */
export interface TestApi extends AsyncDisposable {
  /** Origin. */
  url: string;
  db: Db;
  context: ServerContext;
  server: FastifyInstance;
  /** Calls below /api/v1. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Calls any address of the origin; redirects are not followed. */
  request(method: string, path: string, options?: CallOptions): Promise<Answer>;
  newUser(facts?: { admin?: boolean; verified?: boolean; plan?: Partial<Plan> }): Promise<TestUser>;
  /** Who makes a request with that session. */
  callerOf(user: Pick<TestUser, "session">): Promise<Caller>;
  newKey(user: TestUser, grant?: { scopes?: Scope[]; projectIds?: string[] }): Promise<{ id: string; key: string }>;
  newProject(user: TestUser, values?: { type?: ProjectType; name?: string; slug?: string }): Promise<Project>;
  newDeployment(project: Project, values?: Partial<Deployment>): Promise<Deployment>;
  /** A container that the deployment is to have; a running one for its site unless `values` say otherwise. */
  newTask(deployment: Deployment, values?: TaskValues): Promise<Task>;
  newRun(deployment: Deployment, values: RunValues): Promise<Run>;
  /** Mails sent so far, oldest first. */
  mails(): Promise<{ to: string; subject: string; text: string }[]>;
}

/** The Cookie header of a browser that is signed in with the session, as better-auth would have set it. */
export function cookieOf({ apiUrl, authSecret }: Pick<Config, "apiUrl" | "authSecret">, session: string): string {
  const signature = createHmac("sha256", authSecret).update(session).digest("base64");
  return `${signInCookieName(apiUrl)}=${encodeURIComponent(`${session}.${signature}`)}`;
}

const noFleet: FleetView = {
  replicas: () => [],
  isConnected: () => false,
  nodeLink: () => ({ link: "unreachable", since: new Date(0) }),
  placements: () => [],
  observation: () => null,
  runs: () => [],
  lateFailures: () => null,
  routesMeta: () => ({ generation: 0 }),
  edgeApplied: () => null,
  async readLink(nodeId) {
    return this.nodeLink(nodeId);
  },
  readRouting: async () => noFleet,
};
const noOperators: OperatorFacts = {
  openEtcdMembers: async () => [],
  serverId: "this-one",
  etcdMembers: async () => [],
  leaderId: async () => null,
  clockOffsets: async () => new Map(),
  viewAsOf: () => new Date(),
  replicas: () => [],
  storm: () => null,
  routesGeneration: () => 0,
  servedBy: () => null,
};
const noServer = () => Promise.reject(new ApiError("DATABASE_NOT_READY"));
const noNode = () => Promise.reject(new Error("no node"));

export async function testApi(options: TestApiOptions = {}): Promise<TestApi> {
  const database = await testDatabase();
  const outboxDir = await mkdtemp(join(tmpdir(), "svc-outbox-"));
  const { db } = database;
  await seedPlans(db);
  const registry = createRegistry(systemClock, { url: options.registryUrl ?? "http://127.0.0.1:9", timeoutMs: 5_000 });
  const config = testConfig(database.url, outboxDir, options.config);
  const secrets = createSecrets([randomBytes(32)]);
  const mailer = createMailer({ clock: systemClock, random: systemRandom }, config.mail);
  const context: ServerContext = {
    config,
    db,
    log: options.log ?? createLog(process.env["SVC_LOG_LEVEL"] ?? "silent"),
    registry,
    bucket: options.bucket ?? null,
    secrets,
    cluster: await openAuthority(db, secrets, { clock: systemClock, random: systemRandom }),
    clock: { ...systemClock, now: options.now ?? systemClock.now },
    random: systemRandom,
    mailer,
    queryLog: options.queryLog ?? noNode,
    studio: options.studio ?? {
      ...{ ...sizeRecord, findReadyBranch: createFindReadyBranch(secrets) },
      ...{ openLine: noNode, sql: { ask: noServer } },
      transfers: { exportTable: noServer, importTable: noServer },
    },
    fleet: { ...noFleet, ...options.fleet },
    operators: { ...noOperators, ...options.operators },
  };
  const references = createReferencePolicy(systemClock, referenceRules(config), options.resolve ?? (async () => []));
  // Cookies and links hold the origin, so the port has to be known first.
  const [port = 0] = await freePorts(1);
  config.apiUrl = `http://127.0.0.1:${port}`;
  const server = buildServer(context, {
    references,
    webhookEgress: createWebhookEgress(
      systemClock,
      options.resolveWebhook ?? (async () => []),
      addressSet(config.webhookAllow),
    ),
    uploads: createUploads(systemClock, options.uploads),
    wrongPerMinuteMax: options.wrongPerMinuteMax ?? Number.POSITIVE_INFINITY,
    ...(options.endpoints && { endpoints: options.endpoints }),
    ...(options.timing && { timing: options.timing }),
  });
  const undeclared = watchUndeclared(server);
  await server.listen({ host: "127.0.0.1", port });
  const url = config.apiUrl;
  const request = (method: string, path: string, call: CallOptions = {}) => send(method, `${url}${path}`, call);
  return {
    url,
    db,
    context,
    server,
    request,
    call: (method, path, call) => request(method, `/api/v1${path}`, call),
    newUser: (facts) => newUser(db, facts),
    async callerOf({ session }) {
      const caller = await findCaller(db, { via: "bearer", token: session }, config.authSecret);
      if (caller === null) throw new Error("nobody is signed in with that session");
      return caller;
    },
    newKey: (user, grant) => newKey(db, user, grant),
    newProject: (user, values) => newProject(db, user, values),
    newDeployment: (project, values) => newDeployment(db, project, values),
    newTask: (deployment, values) => newTask(db, deployment, values),
    newRun: (deployment, values) => newRun(db, deployment, values),
    mails: () => readMails(outboxDir),
    async [Symbol.asyncDispose]() {
      await server.close();
      mailer?.close();
      await registry.close();
      await database[Symbol.asyncDispose]();
      await rm(outboxDir, { recursive: true, force: true });
      // Whatever a test makes the server say has to be in the API's description.
      if (undeclared.seen.size > 0)
        throw new Error(
          `refusals that their endpoints do not declare in \`errors\`: ${[...undeclared.seen].join("; ")}`,
        );
    },
  };
}

const tokenKey = await aTokenKey();
const testConfig = (databaseUrl: string, outboxDir: string, changes: Partial<Config> = {}): Config => ({
  apiListen: { host: "127.0.0.1", port: 0 },
  apiUrl: "http://127.0.0.1",
  trustProxy: ["loopback"],
  databaseUrl,
  etcd: { endpoints: [], tls: null },
  linkListen: { host: "127.0.0.1", port: 0 },
  enrollListen: { host: "127.0.0.1", port: 0 },
  metricsListen: null,
  content: { scheme: "http", domain: "svc.localhost", port: ":8080" },
  domains: { dnsServers: [], edgeHost: "edge.svc.localhost", edgeAddresses: ["192.0.2.1"], cdnRanges: [] },
  acme: null,
  registry: { url: "http://127.0.0.1:9", publicHost: "registry.svc.test", tokenKey, eventsSecret: null },
  registryAllow: [],
  webhookAllow: [],
  masterKeys: [randomBytes(32)],
  authSecret: randomBytes(32).toString("base64"),
  signup: "open",
  mail: { from: "svc@svc.test", outboxDir },
  baseImageNode: "node:24-slim",
  builderImageNode: "node:24",
  buildCaBundle: "",
  captureImage: "svc-capture:test",
  databases: {
    images: defaultDatabaseImages,
    copies: "auto",
    mariadb: true,
    public: { postgres: null, mariadb: null },
  },
  offsite: null,
  schedulerEnabled: true,
  drainMs: 0,
  previewIdleDays: 0,
  analytics: true,
  logLevel: "silent",
  ...changes,
});

async function send(
  method: string,
  url: string,
  { key, session, cookie, body, headers = {} }: CallOptions,
): Promise<Answer> {
  const raw = typeof body === "string" || body instanceof Uint8Array || body instanceof FormData;
  const response = await fetch(url, {
    method,
    redirect: "manual",
    headers: {
      ...(key !== undefined && { "x-api-key": key }),
      ...(session !== undefined && { authorization: `Bearer ${session}` }),
      ...(cookie !== undefined && { cookie }),
      ...(body !== undefined && !raw && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body: raw ? (body as FormData | string) : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = (response.headers.get("content-type") ?? "").includes("json");
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson && text !== "" ? JSON.parse(text) : {},
  };
}

async function newUser(
  db: Db,
  { admin = false, verified = true, plan }: { admin?: boolean; verified?: boolean; plan?: Partial<Plan> } = {},
): Promise<TestUser> {
  const id = randomUUID();
  const email = `${id.slice(0, 8)}@svc.test`;
  const session = randomBytes(24).toString("hex");
  await sql`insert into auth."user" (id, name, email, "emailVerified", role)
    values (${id}, 'Ada', ${email}, ${verified}, ${admin ? "admin" : "user"})`.execute(db);
  await sql`insert into auth."session" (token, "userId", "expiresAt", "updatedAt")
    values (${session}, ${id}, now() + interval '1 day', now())`.execute(db);
  if (plan !== undefined) {
    const { id: _, ...standard } = await db
      .selectFrom("plan")
      .selectAll()
      .where("is_default", "=", true)
      .executeTakeFirstOrThrow();
    const values = { ...standard, slug: `plan-${id.slice(0, 8)}`, is_default: false, ...plan };
    const row = await db.insertInto("plan").values(values).returning("id").executeTakeFirstOrThrow();
    await db.insertInto("account").values({ user_id: id, plan_id: row.id }).execute();
  }
  return { id, email, session };
}

const newTask = (db: Db, { id, project_id, channel }: Deployment, values: TaskValues = {}): Promise<Task> =>
  db
    .insertInto("task")
    .values({
      ...{ project_id, owner_kind: "deployment", owner_id: id, channel, kind: "serve", spec: "{}", spec_hash: "h1" },
      ...{ memory_mb: 256, cpu_millicores: 500, pids_limit: 100 },
      ...values,
    })
    .returningAll()
    .executeTakeFirstOrThrow();

/** An attempt at the release command of a deployment. */
const newRun = (db: Db, { id, project_id }: Deployment, values: RunValues): Promise<Run> =>
  db
    .insertInto("run")
    .values({ project_id, owner_kind: "deployment", owner_id: id, kind: "release", number: 1, ...values })
    .returningAll()
    .executeTakeFirstOrThrow();

async function newKey(
  db: Db,
  user: TestUser,
  { scopes, projectIds }: { scopes?: Scope[]; projectIds?: string[] } = {},
) {
  const { id, key } = await insertToken(db, {
    id: randomUUID(),
    userId: user.id,
    name: "test",
    scopes: scopes ?? null,
    projectIds: projectIds ?? null,
    expiresAt: null,
    createdAt: new Date(),
  });
  return { id, key };
}

async function newProject(
  db: Db,
  user: TestUser,
  {
    type = "ssr",
    name = "Shop",
    slug = `shop-${randomBytes(6).toString("hex")}`,
  }: { type?: ProjectType; name?: string; slug?: string } = {},
): Promise<Project> {
  const project = await db
    .insertInto("project")
    .values({ owner_id: user.id, name, slug, type })
    .returningAll()
    .executeTakeFirstOrThrow();
  await db
    .insertInto("site_host")
    .values({ host: `${slug}.svc.localhost`, project_id: project.id, channel: "production" })
    .execute();
  return project;
}

const smallManifest = (type: ProjectType) =>
  type === "ociimage"
    ? { version: 2, name: "Shop", type, port: 8080, image: { reference: "registry.test/shop:1" } }
    : { version: 2, app: { name: "Shop", type } };

async function newDeployment(
  db: Db,
  project: Project,
  { manifest, number: _, ...values }: Partial<Deployment> = {},
): Promise<Deployment> {
  const deployment = await db
    .insertInto("deployment")
    .values({
      project_id: project.id,
      channel: "production",
      url: `http://${project.slug}.svc.localhost:8080`,
      manifest: JSON.stringify(manifest ?? smallManifest(project.type)),
      ...values,
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  const accepted = { deployment_id: deployment.id, user_id: project.owner_id, at: deployment.created_at };
  await db.insertInto("accepted_deploy").values(accepted).execute();
  return deployment;
}

async function readMails(dir: string): Promise<{ to: string; subject: string; text: string }[]> {
  const names = (await readdir(dir)).filter((name) => name.endsWith(".json")).sort();
  return Promise.all(names.map(async (name) => JSON.parse(await readFile(join(dir, name), "utf8"))));
}
