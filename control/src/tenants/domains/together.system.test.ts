import { randomUUID } from "node:crypto";
import { manifestSchema } from "@svc/proto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { RouteEntry } from "../../fleet/cluster/route-entry.ts";
import { targetOf } from "../../fleet/routes/table.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import type { Project } from "../../stores/db/tables.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import { requestRedeploy } from "../deployments/redeploy/request.ts";
import { expireIdle } from "../deployments/remove/expire.ts";
import { acceptDeployment } from "../deployments/testing/accept.ts";
import { type Replica, startReplica } from "../deployments/testing/replica.ts";
import { createRandom, startVirtualFleet, type VirtualFleet } from "../deployments/testing/virtual-fleet.ts";
import { newDomain } from "./testing.ts";

/*
 * A custom domain beside everything else that happens to a project, on two control servers at once: a verified name is the
 * project's own way in, so it serves whatever the host of the slug serves, and nothing that is about slugs touches it.
 */

let etcd: EtcdServer;
let api: TestApi;
let virtual: VirtualFleet;
let user: TestUser;
let admin: TestUser;
const replicas: Replica[] = [];
const stack = new AsyncDisposableStack();

beforeAll(async () => {
  etcd = stack.use(await startEtcd());
  api = stack.use(await testApi());
  const client = stack.use(testClient(etcd.endpoint));
  virtual = stack.use(await startVirtualFleet({ db: api.db, etcd: client, random: createRandom(7), nodes: 2 }));
  virtual.calm();
  const { databaseUrl, content } = api.context.config;
  const registry = {
    getManifest: async (_: string, digest: string) => ({ manifest: {}, digest, mediaType: "", sizeBytes: 1 }) as never,
  };
  for (let count = 0; count < 2; count += 1)
    replicas.push(stack.use(await startReplica({ databaseUrl, content, etcdEndpoint: etcd.endpoint, registry })));
  admin = await api.newUser({ admin: true });
});
afterAll(() => stack.disposeAsync());
beforeEach(async () => {
  user = await api.newUser({ plan: { max_deploys_per_hour: 1_000, max_projects: 100 } });
});

const newName = () => `n${randomUUID().slice(0, 8)}.example`;
const verified = (project: Project, domain: string, routing_target: "production" | "preview" = "production") =>
  newDomain(api.db, project.id, domain, { status: "verified", verified_at: new Date(), routing_target });

/** The project's host of a slug. */
async function slugHost({ id }: Project, channel: "production" | "preview" = "production"): Promise<string> {
  const rows = await api.db
    .selectFrom("site_host")
    .select("host")
    .where("project_id", "=", id)
    .where("channel", "=", channel)
    .where("domain_id", "is", null)
    .where("redirect_to", "is", null)
    .execute();
  return rows[0]?.host ?? "";
}

const hostsOfDomains = async ({ id }: Project): Promise<string[]> => {
  const rows = await api.db
    .selectFrom("site_host")
    .select("host")
    .where("project_id", "=", id)
    .where("domain_id", "is not", null)
    .orderBy("host")
    .execute();
  return rows.map(({ host }) => host);
};

const published = (host: string, what: string, isRight: (entry: RouteEntry | null) => boolean) =>
  until(`${host} ${what}`, () => isRight(virtual.fleet.route(host)), 60_000);
const serves = (host: string, deploymentId: string) =>
  published(
    host,
    `serves ${deploymentId}`,
    (entry) => entry?.deploymentId === deploymentId && (entry.static ?? entry.proxy) !== undefined,
  );
const shows = (host: string, page: string) => published(host, `shows ${page}`, (entry) => entry?.page?.page === page);
const isGone = (host: string) => published(host, "is gone", (entry) => entry === null);
/** Visitors of both get the same. */
async function servesAsDoes(host: string, other: string): Promise<void> {
  await until(`${host} serves what ${other} does`, () => {
    const [one, two] = [virtual.fleet.route(host), virtual.fleet.route(other)];
    return one !== null && two !== null && targetOf(one) === targetOf(two) && one.gate === two.gate;
  });
}

const deps = () => ({ clock: api.context.clock, config: api.context.config, secrets: api.context.secrets });

async function becomes(id: string, status: "running" | "stopped"): Promise<string> {
  const isSo = async () => {
    const row = await api.db.selectFrom("deployment").select("status").where("id", "=", id).executeTakeFirst();
    return row?.status === status;
  };
  await until(`${id} is ${status}`, isSo, 60_000);
  return id;
}

/** A deployment that its channel serves. */
async function deployed(project: Project, channel: "production" | "preview" = "production"): Promise<string> {
  const id = randomUUID();
  const caller = await api.callerOf(user);
  await api.db.transaction().execute((tx) =>
    acceptDeployment(tx, deps(), caller, project.id, {
      id,
      manifest: manifestSchema.parse({
        ...{ version: 2, app: { name: "Shop", type: project.type } },
        ...(project.type === "ssr" && { start: { command: "node server.js" } }),
      }),
      metadata: {},
      admission: { channel, prNumber: null },
      source: { repository: `svc/${project.id}/source`, digest: `sha256:${"0".repeat(64)}`, sizeBytes: 1 },
      fileEnv: {},
    }),
  );
  return becomes(id, "running");
}

async function redeployed(action: "promote" | "rollback", project: Project, from: string): Promise<string> {
  const id = randomUUID();
  const source = { id: from, project_id: project.id };
  const caller = await api.callerOf(user);
  await api.db
    .transaction()
    .execute((tx) => requestRedeploy(tx, deps(), caller, action, { id, source, artifact: "there" }));
  return becomes(id, "running");
}

async function answered(method: string, path: string, body?: unknown, by = user) {
  const answer = await api.call(method, path, { session: by.session, ...(body !== undefined && { body }) });
  expect(answer.body, answer.text).toMatchObject({ ok: true });
  return answer;
}

test.each(["ssr", "static"] as const)(
  "a domain of a project of type %s follows it through everything that may happen to one",
  async (type) => {
    const project = await api.newProject(user, { type });
    const [domain, previewDomain] = [newName(), newName()];
    const www = `www.${domain}`;
    await verified(project, domain);
    await verified(project, previewDomain, "preview");
    for (const host of [domain, previewDomain]) await shows(host, "PAGE_EMPTY");
    const first = await deployed(project);
    await serves(domain, first);
    await published(www, "redirects", (entry) => entry?.redirect?.host === domain);

    // Renamed: its old name redirects, and the domain serves on.
    const before = await slugHost(project);
    await answered("PUT", `/projects/${project.id}`, { slug: `shop-${randomUUID().slice(0, 8)}` });
    await published(before, "redirects", (entry) => entry?.redirect !== undefined);
    const host = await slugHost(project);
    expect(host).not.toBe(before);
    await servesAsDoes(domain, host);
    expect(virtual.fleet.route(www)?.redirect?.host).toBe(domain);

    await answered("PATCH", `/projects/${project.id}`, { password: "open sesame" });
    await published(domain, "asks for the password", (entry) => entry?.gate !== undefined);
    await servesAsDoes(domain, host);
    // Typed there it would have to be typed again.
    expect(virtual.fleet.route(www)?.gate).toBeUndefined();
    await answered("PATCH", `/projects/${project.id}`, { password: null });
    await published(domain, "asks for nothing", (entry) => entry?.gate === undefined);

    await answered("POST", `/admin/projects/${project.id}/suspend`, undefined, admin);
    await shows(domain, "PAGE_SUSPENDED");
    await answered("POST", `/admin/projects/${project.id}/resume`, undefined, admin);
    await serves(domain, first);
    await answered("POST", `/projects/${project.id}/stop`);
    await shows(domain, "PAGE_STOPPED");
    await becomes(first, "stopped");
    await answered("POST", `/projects/${project.id}/start`);
    await serves(domain, first);
    await servesAsDoes(domain, host);

    const preview = await deployed(project, "preview");
    await serves(previewDomain, preview);
    const promoted = await redeployed("promote", project, preview);
    await serves(domain, promoted);
    const back = await redeployed("rollback", project, first);
    await serves(domain, back);
    await servesAsDoes(domain, host);

    // What nobody deploys to goes, with the names that are made of slugs; the domain waits for what comes.
    await answered("DELETE", `/deployments/${preview}`);
    await shows(previewDomain, "PAGE_EMPTY");
    expect(await slugHost(project, "preview")).toBe("");
    const again = await deployed(project, "preview");
    await serves(previewDomain, again);
    const longAgo = new Date(Date.now() - 10 * 86_400_000);
    await api.db
      .updateTable("deployment")
      .set({ created_at: longAgo })
      .where("project_id", "=", project.id)
      .where("channel", "=", "preview")
      .execute();
    expect(await expireIdle(api.db, createLog("silent"), 7)).toBeGreaterThan(0);
    await shows(previewDomain, "PAGE_EMPTY");
    expect(await slugHost(project, "preview")).toBe("");
    expect(await hostsOfDomains(project)).toEqual([domain, previewDomain, www, `www.${previewDomain}`].toSorted());
    // A round more finds nothing to expire, though domains still lead to the channel.
    await until("the removal is done", async () => (await openWork(project)) === 0, 60_000);
    expect(await expireIdle(api.db, createLog("silent"), 7)).toBe(0);

    await api.db
      .updateTable("plan")
      .set({ max_custom_domains: 0, max_databases: 0, previews_enabled: false })
      .where("id", "=", (eb) => eb.selectFrom("account").select("plan_id").where("user_id", "=", user.id))
      .execute();
    await serves(domain, back);
    const listed = await answered("GET", `/projects/${project.id}/domains`);
    expect(listed.body.domains.map(({ status }: { status: string }) => status)).toEqual(["verified", "verified"]);
    expect(await hostsOfDomains(project)).toHaveLength(4);

    await answered("DELETE", `/projects/${project.id}`);
    for (const each of [domain, www, previewDomain, `www.${previewDomain}`, host]) await isGone(each);
    // Anybody may have the name, once it is theirs.
    const next = await api.newProject(await api.newUser());
    await verified(next, domain);
    await published(domain, "is the next one's", (entry) => entry?.projectId === next.id);
  },
  600_000,
);

const openWork = async ({ id }: Project): Promise<number> => {
  const rows = await api.db
    .selectFrom("work_item")
    .select("payload")
    .where("state", "in", ["queued", "running"])
    .where("kind", "!=", "domain")
    .execute();
  const ids = (await api.db.selectFrom("deployment").select("id").where("project_id", "=", id).execute()).map(
    (each) => each.id,
  );
  return rows.filter(({ payload }) => [id, ...ids].some((each) => JSON.stringify(payload).includes(each))).length;
};

test("names go with the user whose they are, and the www to whoever has proven the name above", async () => {
  const owner = await api.newUser();
  const [theirs, other] = [await api.newProject(owner), await api.newProject(user)];
  const [apex, lost] = [newName(), newName()];
  await verified(other, apex);
  await verified(theirs, `www.${apex}`);
  await verified(theirs, lost);
  await published(`www.${apex}`, "is its prover's", (entry) => entry?.projectId === theirs.id && !entry.redirect);
  await answered("DELETE", `/admin/users/${owner.id}`, undefined, admin);
  await published(
    `www.${apex}`,
    "redirects",
    (entry) => entry?.projectId === other.id && entry.redirect?.host === apex,
  );
  for (const host of [lost, `www.${lost}`]) await isGone(host);
  expect(await api.db.selectFrom("custom_domain").select("id").where("project_id", "=", theirs.id).execute()).toEqual(
    [],
  );
});
