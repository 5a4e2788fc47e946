import { randomBytes, randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import { databaseVolume, type NodeAction } from "@svc/proto";
import type { Registry } from "@svc/registry";
import { sql } from "kysely";
import { dropPrevious } from "../../../../fleet/ca/store.ts";
import type { Answer, TestApi, TestUser } from "../../../../http/testing.ts";
import type { Deployment, Node, Project } from "../../../../stores/db/tables.ts";
import { newWebhook } from "../../../alerts/testing.ts";
import { newBranch, newDroppedBranch } from "../../../databases/testing/branch.ts";
import { aSource, formOf, manifestOf } from "../../../deployments/testing/source.ts";
import { newDomain } from "../../../domains/testing.ts";
import { newJob } from "../../../jobs/testing/job.ts";
import { newJobRun } from "../../../jobs/testing/run.ts";

export interface World {
  api: TestApi;
  registry: Registry;
  /** Who makes the call: an administrator with projects of their own. */
  actor: TestUser;
  /** A text that is in no audit line, ever. Another one each time. */
  secret(): string;
}

export interface Call {
  /** Below /api/v1. */
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  /** Who calls instead of the actor; by a session, unless a key is named. */
  by?: TestUser;
  key?: { id: string; key: string };
  /** Id of what the line is to be about; of the reply where that tells it. */
  target: string | ((reply: Answer["body"]) => string);
  /** What the reply shows once and nobody may find in the log. */
  shown?: (reply: Answer["body"]) => string;
}

/** A call of the endpoint that succeeds, with a secret wherever it takes one. */
export interface Change {
  action: string;
  arrange(world: World): Promise<Call>;
}

/** Rows of the studio's one table need ids of their own. */
let rowsMade = 0;

const aProject = ({ api, actor }: World, type: Project["type"] = "ssr") => api.newProject(actor, { type });

async function aDomain(world: World, action: string, body?: unknown): Promise<Call> {
  const { id: target } = await aProject(world);
  const { id } = await newDomain(world.api.db, target, `${randomUUID()}.example`);
  return { path: `/projects/${target}/domains/${id}${action}`, target, ...(body !== undefined && { body }) };
}

/** Something of the project in the registry, as what a deployment ran. */
async function artifact({ registry }: World, project: Project) {
  const repository = `svc/${project.id}/app`;
  const stream = Buffer.from(gzipSync(randomBytes(100)));
  const { digest } = await registry.pushArtifact(repository, { kind: "bundle", stream });
  return {
    artifact_kind: "image" as const,
    artifact_repository: repository,
    artifact_digest: digest,
    artifact_size: 100,
  };
}

async function aDeployment(world: World, values: Partial<Deployment>): Promise<Deployment> {
  const project = await aProject(world);
  return world.api.newDeployment(project, { ...(await artifact(world, project)), ...values });
}

/** What production serves, or would if it were started. */
async function serving({ api, actor }: World, status: "running" | "stopped"): Promise<Deployment> {
  const project = await api.newProject(actor);
  const deployment = await api.newDeployment(project, { status });
  const state = { project_id: project.id, channel: "production" as const, deployment_id: deployment.id };
  await api.db
    .insertInto("channel_state")
    .values({ ...state, stopped: status === "stopped" })
    .execute();
  return deployment;
}

async function invited({ api, actor }: World): Promise<string> {
  const { body } = await api.call("POST", "/admin/invites", {
    session: actor.session,
    body: { email: `${randomUUID()}@svc.test` },
  });
  return body.id;
}

const userAction = (name: string, body: (world: World) => Promise<object | null>): Change => ({
  action: `user.${name}`,
  async arrange(world) {
    const { id } = await world.api.newUser();
    const sent = await body(world);
    return { path: `/admin/users/${id}/${name}`, ...(sent !== null && { body: sent }), target: id };
  },
});

/** What an operator says of a machine is with the machine. */
const nodeAction = (name: NodeAction, from: Partial<Pick<Node, "schedulable" | "drain" | "lifecycle">>): Change => ({
  action: `node.${name}`,
  async arrange({ api }) {
    const values = { role: "node", name: `machine-${randomUUID().slice(0, 8)}`, labels: "{}", ...from } as const;
    const { id } = await api.db.insertInto("node").values(values).returning("id").executeTakeFirstOrThrow();
    return { path: `/admin/nodes/${id}/${name}`, body: { reason: "its fan is loud", confirm: true }, target: id };
  },
});

/** A project whose production has a database that can be used. */
async function aBranch({ api, actor }: World): Promise<string> {
  const { id: projectId } = await api.newProject(actor);
  await newBranch(api, { id: projectId });
  return projectId;
}

/** The same on a machine, with a copy on another one. */
async function aCopiedBranch(world: World): Promise<{ target: string; databaseId: string }> {
  const { db } = world.api;
  const target = await aBranch(world);
  const [here, there] = await db
    .insertInto("node")
    .values(
      ["a", "b"].map((name) => ({ role: "node", name: `${name}-${randomUUID().slice(0, 8)}`, labels: "{}" }) as const),
    )
    .returning("id")
    .execute();
  const of = { engine: "postgres", project_id: target, channel: "production" } as const;
  const { id } = await db
    .updateTable("database")
    .set({ node_id: here?.id ?? "", role_connection_limit: 1 })
    .where("project_id", "=", target)
    .returning("id")
    .executeTakeFirstOrThrow();
  const at = new Date();
  await db
    .insertInto("database_copy")
    .values({
      ...{ ...of, id: randomUUID(), database_id: id, generation: 1, node_id: there?.id ?? "", state: "following" },
      ...{ covered_at: at, bases: JSON.stringify([{ number: 1, at: at.toISOString(), bytes: 1 }]) },
    })
    .execute();
  return { target, databaseId: id };
}

/** A project whose branch was dropped, and whose volume is kept. */
async function aDroppedBranch({ api, actor }: World): Promise<{ target: string; databaseId: string }> {
  const { id: target } = await api.newProject(actor);
  const node = await api.db
    .insertInto("node")
    .values({ role: "node", name: `node-${randomUUID().slice(0, 8)}`, labels: "{}" })
    .returning("id")
    .executeTakeFirstOrThrow();
  return { target, databaseId: await newDroppedBranch(api, { id: target, nodeId: node.id }) };
}

/** The same, and what is off-site of that copy. */
async function anOffsiteBranch(world: World): Promise<{ target: string; databaseId: string; node: string }> {
  const { db, context } = world.api;
  const { target, databaseId } = await aCopiedBranch(world);
  const copy = await db
    .selectFrom("database_copy")
    .selectAll()
    .where("database_id", "=", databaseId)
    .executeTakeFirstOrThrow();
  await db
    .insertInto("offsite_copy")
    .values({
      ...{ id: randomUUID(), copy_id: copy.id, database_id: databaseId, place: context.bucket?.place ?? "" },
      covered_at: copy.covered_at,
    })
    .execute();
  return { target, databaseId, node: copy.node_id ?? "" };
}

const suspend = async ({ api }: World, project: Project) => {
  await api.db
    .updateTable("project")
    .set({ suspended_at: new Date(), suspend_reason: "admin" })
    .where("id", "=", project.id)
    .execute();
};

const aPlan = async ({ api }: World): Promise<string> => {
  const slug = randomUUID();
  const user = await api.newUser({ plan: { slug } });
  await api.db.deleteFrom("account").where("user_id", "=", user.id).execute();
  const { id } = await api.db.selectFrom("plan").select("id").where("slug", "=", slug).executeTakeFirstOrThrow();
  return id;
};

const byId = (reply: Answer["body"], name: string): string => reply[name].id;

/** By method and path: every endpoint that changes something has a call here. */
export const changes: Readonly<Record<string, Change>> = {
  "POST /account/set-password": {
    action: "account.set-password",
    async arrange({ api, secret }) {
      // Not the actor, who could do it once only.
      const user = await api.newUser({ admin: true });
      const key = await api.newKey(user);
      return { path: "/account/set-password", by: user, key, body: { newPassword: secret() }, target: user.id };
    },
  },
  "POST /waitlist": {
    action: "waitlist.join",
    async arrange() {
      const email = `${randomUUID()}@svc.test`;
      return { path: "/waitlist", body: { email }, target: email };
    },
  },
  "POST /tokens": {
    action: "token.create",
    arrange: async () => ({
      path: "/tokens",
      body: { name: "CI", scopes: ["deploy"] },
      target: (reply) => byId(reply, "token"),
      shown: (reply) => reply.token.key,
    }),
  },
  "POST /registry/login": {
    action: "registry.login",
    arrange: async ({ actor }) => ({
      path: "/registry/login",
      target: actor.id,
      shown: (reply) => reply.login.password,
    }),
  },
  "DELETE /tokens/self": {
    action: "token.revoke",
    async arrange({ api, actor }) {
      const key = await api.newKey(actor);
      return { path: "/tokens/self", key, target: key.id };
    },
  },
  "DELETE /tokens/:id": {
    action: "token.revoke",
    async arrange({ api, actor }) {
      const { id } = await api.newKey(actor);
      return { path: `/tokens/${id}`, target: id };
    },
  },
  "POST /projects": {
    action: "project.create",
    arrange: async () => ({
      path: "/projects",
      body: { name: "Shop", type: "ssr" },
      target: (reply) => byId(reply, "project"),
    }),
  },
  "PUT /projects/:id": {
    action: "project.rename",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}`, body: { slug: `new-${randomBytes(4).toString("hex")}` }, target: id };
    },
  },
  "PATCH /projects/:id": {
    action: "project.update",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}`, body: { password: world.secret(), deployMode: "preview" }, target: id };
    },
  },
  "DELETE /projects/:id": {
    action: "project.delete",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}`, target: id };
    },
  },
  "POST /projects/:id/deployments": {
    action: "deployment.create",
    async arrange(world) {
      const { id } = await aProject(world);
      const manifest = manifestOf("ssr", {
        build: { command: `echo ${world.secret()}` },
        start: { command: `node ${world.secret()}` },
        env: { files: [".env"] },
      });
      const source = aSource(
        { name: "server.js", content: world.secret() },
        { name: ".env", content: `KEY=${world.secret()}` },
      );
      const body = formOf({ manifest, metadata: { trigger: "api" }, source });
      return { path: `/projects/${id}/deployments`, body, target: (reply) => reply.deploymentId };
    },
  },
  "POST /deployments/:id/cancel": {
    action: "deployment.cancel",
    async arrange(world) {
      const { id } = await aDeployment(world, { status: "building" });
      return { path: `/deployments/${id}/cancel`, target: id };
    },
  },
  "POST /deployments/:id/screenshot": {
    action: "deployment.screenshot",
    async arrange(world) {
      const { id } = await serving(world, "running");
      return { path: `/deployments/${id}/screenshot`, target: id };
    },
  },
  "POST /deployments/:id/rollback": {
    action: "deployment.rollback",
    async arrange(world) {
      const { id } = await aDeployment(world, { status: "superseded" });
      return { path: `/deployments/${id}/rollback`, target: (reply) => reply.deploymentId };
    },
  },
  "POST /deployments/:id/promote": {
    action: "deployment.promote",
    async arrange(world) {
      const { id } = await aDeployment(world, { status: "running", channel: "preview" });
      return { path: `/deployments/${id}/promote`, target: (reply) => reply.deploymentId };
    },
  },
  "DELETE /deployments/:id": {
    action: "deployment.delete",
    async arrange(world) {
      const { id } = await aDeployment(world, { status: "failed" });
      return { path: `/deployments/${id}`, target: id };
    },
  },
  "POST /projects/:id/stop": {
    action: "project.stop",
    async arrange(world) {
      const { project_id: id } = await serving(world, "running");
      return { path: `/projects/${id}/stop`, target: id };
    },
  },
  "POST /projects/:id/start": {
    action: "project.start",
    async arrange(world) {
      const { project_id: id } = await serving(world, "stopped");
      return { path: `/projects/${id}/start`, target: id };
    },
  },
  "PUT /projects/:id/env": {
    action: "env.replace",
    async arrange(world) {
      const { id } = await aProject(world);
      const vars = { DATABASE_PASSWORD: world.secret(), OTHER: world.secret() };
      return { path: `/projects/${id}/env`, body: { vars }, target: id };
    },
  },
  "PUT /projects/:id/registry-credentials": {
    action: "registry-credential.create",
    async arrange(world) {
      const { id } = await aProject(world, "ociimage");
      const body = { host: "registry.example.test", username: world.secret(), secret: world.secret() };
      return { path: `/projects/${id}/registry-credentials`, body, target: id };
    },
  },
  "DELETE /projects/:id/registry-credentials": {
    action: "registry-credential.delete",
    async arrange(world) {
      const { api, actor } = world;
      const { id } = await aProject(world, "ociimage");
      const path = `/projects/${id}/registry-credentials`;
      const host = "registry.example.test";
      const body = { host, username: world.secret(), secret: world.secret() };
      await api.call("PUT", path, { session: actor.session, body });
      return { path, body: { host, confirm: true }, target: id };
    },
  },
  "PATCH /projects/:id/alerts": {
    action: "alerts.change",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}/alerts`, body: { enabled: false }, target: id };
    },
  },
  "PUT /projects/:id/alerts/webhook": {
    action: "alerts.webhook-set",
    async arrange(world) {
      const { id } = await aProject(world);
      const body = { url: `https://hooks.svc.test/${world.secret()}` };
      return { path: `/projects/${id}/alerts/webhook`, body, target: id, shown: ({ secret }) => secret };
    },
  },
  "DELETE /projects/:id/alerts/webhook": {
    action: "alerts.webhook-delete",
    async arrange(world) {
      const { id } = await aProject(world);
      await newWebhook(world.api, id);
      return { path: `/projects/${id}/alerts/webhook`, target: id };
    },
  },
  "POST /projects/:id/alerts/webhook/rotate": {
    action: "alerts.webhook-rotate",
    async arrange(world) {
      const { id } = await aProject(world);
      await newWebhook(world.api, id);
      return { path: `/projects/${id}/alerts/webhook/rotate`, target: id, shown: ({ secret }) => secret };
    },
  },
  "POST /projects/:id/database": {
    action: "database.create",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}/database`, body: { engine: "mariadb" }, target: id };
    },
  },
  "DELETE /projects/:id/database": {
    action: "database.drop",
    async arrange(world) {
      const id = await aBranch(world);
      return { path: `/projects/${id}/database`, target: id };
    },
  },
  "POST /projects/:id/database/dev-credentials": {
    action: "database.reveal",
    async arrange(world) {
      const id = await aBranch(world);
      const shown = (reply: Answer["body"]) => new URL(reply.databaseUrl).password;
      return { path: `/projects/${id}/database/dev-credentials`, target: id, shown };
    },
  },
  "POST /projects/:id/database/rotate-credentials": {
    action: "database.rotate",
    async arrange(world) {
      const id = await aBranch(world);
      return { path: `/projects/${id}/database/rotate-credentials`, target: id };
    },
  },
  "POST /projects/:id/database/backups": {
    action: "backup.create",
    async arrange(world) {
      const id = await aBranch(world);
      await world.api.db
        .updateTable("plan")
        .set({ max_backups: 100 })
        .where("id", "in", (of) => of.selectFrom("account").select("plan_id").where("user_id", "=", world.actor.id))
        .execute();
      return { path: `/projects/${id}/database/backups`, target: id };
    },
  },
  "POST /projects/:id/database/tables/:table/import": {
    action: "database.import",
    async arrange(world) {
      const { id } = await aProject(world);
      rowsMade += 1;
      const text = `id,note\n${2_000_000 + rowsMade},${world.secret()}\n`;
      return {
        path: `/projects/${id}/database/tables/kept/import`,
        headers: { "content-type": "text/csv" },
        body: text,
        target: id,
      };
    },
  },
  "PUT /projects/:id/database/settings": {
    action: "database.settings",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}/database/settings`, body: { backups: null }, target: id };
    },
  },
  "DELETE /projects/:id/database/backups/:backupId": {
    action: "backup.delete",
    async arrange(world) {
      const { id } = await aProject(world);
      const backup = { id: randomUUID(), project_id: id, database_id: randomUUID(), channel: "dev" } as const;
      const end = { engine: "mariadb", status: "failed", error: "it broke off", ended_at: new Date() } as const;
      await world.api.db
        .insertInto("database_backup")
        .values({ ...backup, ...end })
        .execute();
      return { path: `/projects/${id}/database/backups/${backup.id}`, target: id };
    },
  },
  "POST /admin/databases/:id/restore": {
    action: "database.restore",
    async arrange(world) {
      const { target, databaseId } = await aCopiedBranch(world);
      return { path: `/admin/databases/${databaseId}/restore`, body: { confirm: true }, target };
    },
  },
  "POST /admin/databases/:id/fetch": {
    action: "database.fetch",
    async arrange(world) {
      const { target, databaseId, node } = await anOffsiteBranch(world);
      return { path: `/admin/databases/${databaseId}/fetch`, body: { node }, target };
    },
  },
  "POST /admin/databases/:id/move": {
    action: "database.move",
    async arrange(world) {
      const { target, databaseId } = await aCopiedBranch(world);
      return { path: `/admin/databases/${databaseId}/move`, target };
    },
  },
  "POST /admin/databases/:id/cancel": {
    action: "database.cancel",
    async arrange(world) {
      const { target, databaseId } = await aCopiedBranch(world);
      const { api, actor } = world;
      await api.call("POST", `/admin/databases/${databaseId}/move`, { session: actor.session });
      return { path: `/admin/databases/${databaseId}/cancel`, target };
    },
  },
  "POST /admin/databases/:id/undrop": {
    action: "database.undrop",
    async arrange(world) {
      const { target, databaseId } = await aDroppedBranch(world);
      return { path: `/admin/databases/${databaseId}/undrop`, target };
    },
  },
  "POST /admin/databases/volumes/:volume/keep": {
    action: "database.volume.keep",
    async arrange(world) {
      const { target, databaseId } = await aDroppedBranch(world);
      return { path: `/admin/databases/volumes/${databaseVolume(databaseId, 1)}/keep`, target };
    },
  },
  "DELETE /admin/databases/volumes/:volume": {
    action: "database.volume.delete",
    async arrange(world) {
      const { target, databaseId } = await aDroppedBranch(world);
      const path = `/admin/databases/volumes/${databaseVolume(databaseId, 1)}`;
      return { path, body: { confirm: true }, target };
    },
  },
  "POST /projects/:id/database/query": {
    action: "database.query",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}/database/query`, body: { sql: `select '${world.secret()}'` }, target: id };
    },
  },
  "POST /projects/:id/database/tables/:table/rows": {
    action: "database.row.insert",
    async arrange(world) {
      const { id } = await aProject(world);
      rowsMade += 1;
      const values = { id: 1_000 + rowsMade, note: world.secret() };
      return { path: `/projects/${id}/database/tables/kept/rows`, body: { values }, target: id };
    },
  },
  "PATCH /projects/:id/database/tables/:table/rows": {
    action: "database.row.update",
    async arrange(world) {
      const { id } = await aProject(world);
      const body = { pk: { id: 1 }, changes: { note: world.secret() } };
      return { path: `/projects/${id}/database/tables/kept/rows`, body, target: id };
    },
  },
  "DELETE /projects/:id/database/tables/:table/rows": {
    action: "database.row.delete",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}/database/tables/kept/rows`, body: { pk: { id: 1 } }, target: id };
    },
  },
  "POST /projects/:id/database/saved-queries": {
    action: "saved-query.create",
    async arrange(world) {
      const { id } = await aProject(world);
      const body = { name: world.secret(), sql: world.secret() };
      return { path: `/projects/${id}/database/saved-queries`, body, target: id };
    },
  },
  "DELETE /projects/:id/database/saved-queries/:queryId": {
    action: "saved-query.delete",
    async arrange(world) {
      const { id } = await aProject(world);
      const query = { id: randomUUID(), project_id: id, name: "all", sql: "select 1" };
      await world.api.db.insertInto("saved_query").values(query).execute();
      return { path: `/projects/${id}/database/saved-queries/${query.id}`, target: id };
    },
  },
  "POST /projects/:id/domains": {
    action: "domain.create",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/projects/${id}/domains`, body: { domain: `${randomUUID()}.example` }, target: id };
    },
  },
  "PATCH /projects/:id/jobs/:jobId": {
    action: "job.disable",
    async arrange(world) {
      const { id: target } = await aProject(world);
      const { id } = await newJob(world.api.db, { project_id: target });
      return { path: `/projects/${target}/jobs/${id}`, body: { enabled: false }, target };
    },
  },
  "POST /projects/:id/jobs/:jobId/run": {
    action: "job.run",
    async arrange(world) {
      const { id: deployment_id, project_id } = await serving(world, "running");
      const image = { artifact_kind: "image" as const, artifact_digest: `sha256:${"0".repeat(64)}` };
      await world.api.db.updateTable("deployment").set(image).where("id", "=", deployment_id).execute();
      const { id } = await newJob(world.api.db, { project_id, deployment_id });
      return { path: `/projects/${project_id}/jobs/${id}/run`, target: project_id };
    },
  },
  "POST /projects/:id/job-runs/:runId/cancel": {
    action: "job.cancel",
    async arrange(world) {
      const { id: target } = await aProject(world);
      const { id } = await newJobRun(world.api.db, await newJob(world.api.db, { project_id: target }));
      return { path: `/projects/${target}/job-runs/${id}/cancel`, target };
    },
  },
  "PATCH /projects/:id/domains/:domainId": {
    action: "domain.route",
    arrange: (world) => aDomain(world, "", { routingTarget: "disabled" }),
  },
  "POST /projects/:id/domains/:domainId/verify": {
    action: "domain.verify",
    arrange: (world) => aDomain(world, "/verify"),
  },
  "DELETE /projects/:id/domains/:domainId": {
    action: "domain.delete",
    arrange: (world) => aDomain(world, ""),
  },
  "POST /admin/invites": {
    action: "invite.create",
    arrange: async () => ({
      path: "/admin/invites",
      body: { email: `${randomUUID()}@svc.test` },
      target: (reply) => reply.id,
      shown: (reply) => reply.inviteCode,
    }),
  },
  "DELETE /admin/invites/:id": {
    action: "invite.delete",
    async arrange(world) {
      const id = await invited(world);
      return { path: `/admin/invites/${id}`, target: id };
    },
  },
  "POST /admin/nodes/bootstrap-tokens": {
    action: "bootstrap-token.create",
    arrange: async () => ({
      path: "/admin/nodes/bootstrap-tokens",
      target: (reply) => byId(reply, "bootstrapToken"),
      shown: (reply) => reply.bootstrapToken.token,
    }),
  },
  "POST /admin/ca/rotate": {
    action: "ca.rotate",
    async arrange({ api }) {
      // One at a time: whatever was begun before has come to its end.
      await dropPrevious(api.db, new Date());
      return { path: "/admin/ca/rotate", target: (reply) => reply.ca.sha256 };
    },
  },
  "DELETE /admin/nodes/bootstrap-tokens/:id": {
    action: "bootstrap-token.revoke",
    async arrange({ api, actor }) {
      const { body } = await api.call("POST", "/admin/nodes/bootstrap-tokens", { session: actor.session });
      const { id } = body.bootstrapToken;
      return { path: `/admin/nodes/bootstrap-tokens/${id}`, target: id };
    },
  },
  "PATCH /admin/nodes/:id": {
    action: "node.label",
    async arrange({ api, secret }) {
      const values = { role: "node", name: `machine-${randomUUID().slice(0, 8)}` } as const;
      const { id } = await api.db.insertInto("node").values(values).returning("id").executeTakeFirstOrThrow();
      return { path: `/admin/nodes/${id}`, body: { labels: { room: secret() } }, target: id };
    },
  },
  "PUT /admin/nodes/:id/addresses": {
    action: "node.readdress",
    async arrange({ api }) {
      const values = { role: "node", name: `machine-${randomUUID().slice(0, 8)}` } as const;
      const { id } = await api.db.insertInto("node").values(values).returning("id").executeTakeFirstOrThrow();
      return { path: `/admin/nodes/${id}/addresses`, body: { addresses: ["10.0.0.7"] }, target: id };
    },
  },
  "POST /admin/nodes/:id/cordon": nodeAction("cordon", {}),
  "POST /admin/nodes/:id/uncordon": nodeAction("uncordon", { schedulable: false }),
  "POST /admin/nodes/:id/drain": nodeAction("drain", {}),
  "POST /admin/nodes/:id/cancel-drain": nodeAction("cancel-drain", { schedulable: false, drain: "drained" }),
  // Nobody has heard of it, so it is unreachable.
  "POST /admin/nodes/:id/force-fence": nodeAction("force-fence", {}),
  "POST /admin/nodes/:id/remove": nodeAction("remove", { lifecycle: "fenced" }),
  "DELETE /admin/users/:id": {
    action: "user.delete",
    async arrange({ api }) {
      const { id } = await api.newUser();
      return { path: `/admin/users/${id}`, target: id };
    },
  },
  "POST /admin/users/:id/ban": userAction("ban", async () => ({ reason: "spam", expiresInSeconds: 60 })),
  "POST /admin/users/:id/unban": userAction("unban", async () => null),
  "POST /admin/users/:id/role": userAction("role", async () => ({ role: "admin" })),
  "POST /admin/users/:id/plan": userAction("plan", async () => ({ plan: "standard" })),
  "DELETE /admin/projects/:id": {
    action: "project.delete",
    async arrange({ api }) {
      const { id } = await api.newProject(await api.newUser());
      return { path: `/admin/projects/${id}`, target: id };
    },
  },
  "POST /admin/projects/:id/suspend": {
    action: "project.suspend",
    async arrange(world) {
      const { id } = await aProject(world);
      return { path: `/admin/projects/${id}/suspend`, target: id };
    },
  },
  "POST /admin/projects/:id/resume": {
    action: "project.resume",
    async arrange(world) {
      const project = await aProject(world);
      await suspend(world, project);
      return { path: `/admin/projects/${project.id}/resume`, target: project.id };
    },
  },
  "POST /admin/plans": {
    action: "plan.create",
    arrange: async () => ({
      path: "/admin/plans",
      body: { slug: `p-${randomBytes(4).toString("hex")}`, name: "New" },
      target: (reply) => byId(reply, "plan"),
    }),
  },
  "PUT /admin/plans/:id": {
    action: "plan.update",
    async arrange(world) {
      const id = await aPlan(world);
      return { path: `/admin/plans/${id}`, body: { name: "Renamed" }, target: id };
    },
  },
  "DELETE /admin/plans/:id": {
    action: "plan.delete",
    async arrange(world) {
      const id = await aPlan(world);
      return { path: `/admin/plans/${id}`, target: id };
    },
  },
};

/** Every line, whole, as one text. */
export async function wholeAudit({ db }: TestApi): Promise<string> {
  const { rows } = await sql<{
    text: string | null;
  }>`select string_agg(to_jsonb(audit)::text, ' ') as text from audit`.execute(db);
  return rows[0]?.text ?? "";
}
