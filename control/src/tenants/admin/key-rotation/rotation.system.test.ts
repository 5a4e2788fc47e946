import { randomBytes, randomUUID } from "node:crypto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { keepSalts, loadSalts } from "../../../fleet/analytics/salts.ts";
import { openAuthority } from "../../../fleet/ca/authority.ts";
import { accountKeyAad, keyAad, orderKeyAad } from "../../../fleet/certificates/store.ts";
import {
  adminSecretAad,
  keeperSecretAad,
  openAdminPassword,
  openKeeperPassword,
  openTenantPassword,
  pendingSecretAad,
  tenantSecretAad,
} from "../../../fleet/databases/secrets.ts";
import { envAad, fileEnvAad } from "../../../fleet/tasks/environment.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { buildServer } from "../../../server.ts";
import { until } from "../../../stores/etcd/testing.ts";
import { CannotOpen, createSecrets, type Secrets } from "../../../stores/secrets.ts";
import { rotateSecret } from "../../alerts/change.ts";
import { openSecrets } from "../../alerts/store.ts";
import { newWebhook } from "../../alerts/testing.ts";
import { makeFileKey, openFileKey } from "../../databases/backups/offsite/key.ts";
import { makeBranchKey, openBranchKey } from "../../databases/copies/offsite/key.ts";
import { beginRotation, insertBranch } from "../../databases/store.ts";
import { readEnv, replaceEnv } from "../../env/store.ts";
import { findCredential, putCredential } from "../../registries/store.ts";
import { placeName, sealedPlaces } from "./places.ts";
import { rotate } from "./rotate.ts";
import { countByKey } from "./store.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser({ plan: { max_env_vars: 50 } });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const newKey = () => randomBytes(32);
const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));

/** Eight days have a salt. */
const clock = { ...systemClock, now: () => new Date("2026-03-01T12:00:00Z") };

/** One value in every place, through whoever keeps it; the result reads all of them back. */
async function fillEveryPlace(secrets: Secrets): Promise<(secrets: Secrets) => Promise<unknown>> {
  const { db } = api;
  await sql`truncate acme_account, certificate, analytics_salt, env_var, env_overlay, database_backup, offsite_key, registry_credential, alert_webhook, cluster, deployment, database, dropped_database cascade`.execute(
    db,
  );
  const { id } = await api.newProject(user);
  await openAuthority(db, secrets, { clock: systemClock, random: systemRandom });
  await keepSalts({ clock, db, secrets });
  await replaceEnv(db, secrets, id, null, { A: "base" });
  await replaceEnv(db, secrets, id, "dev", { A: "over", B: "" });
  const at = { projectId: id, host: "registry.test", now: new Date() };
  await putCredential(db, secrets, at, { username: "ada", secret: "hush" });
  const { webhook, secret } = await newWebhook({ db, context: { secrets } }, id);
  await rotateSecret(db, secrets, webhook, { secret: `${secret}2`, now: new Date() });
  const deploymentId = randomUUID();
  const project = await db.selectFrom("project").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  await api.newDeployment(project, {
    id: deploymentId,
    env: secrets.seal(bytes({ A: "accepted" }), envAad(deploymentId)),
    file_env: secrets.seal(bytes({ A: "file" }), fileEnvAad(deploymentId)),
  });
  // Of before there was an environment.
  await api.newDeployment(project, { env: null, file_env: null });
  const databaseId = randomUUID();
  await insertBranch(db, secrets, { id: databaseId, projectId: id, channel: "production", engine: "postgres" });
  await beginRotation(db, secrets, databaseId);
  const keeper_secret = secrets.seal(Buffer.from("copies"), keeperSecretAad(databaseId));
  await db.updateTable("database").set({ keeper_secret }).where("id", "=", databaseId).execute();
  const droppedId = randomUUID();
  const dropped = await db
    .insertInto("dropped_database")
    .values({
      ...{ id: droppedId, project_id: id, owner_id: project.owner_id, channel: "dev", engine: "postgres" },
      purge_at: new Date(),
      admin_secret: secrets.seal(Buffer.from("a"), adminSecretAad(droppedId)),
      secret: secrets.seal(Buffer.from("b"), tenantSecretAad(droppedId)),
      keeper_secret: secrets.seal(Buffer.from("c"), keeperSecretAad(droppedId)),
      pending_secret: secrets.seal(Buffer.from("d"), pendingSecretAad(droppedId)),
    })
    .returning("id")
    .executeTakeFirstOrThrow();
  const backupId = randomUUID();
  await db
    .insertInto("database_backup")
    .values({
      ...{ id: backupId, project_id: id, database_id: databaseId, channel: "production", engine: "postgres" },
      ...{ status: "failed", error: "x", ended_at: new Date() },
      offsite_secret: makeFileKey(secrets, backupId),
    })
    .execute();
  await db
    .insertInto("offsite_key")
    .values({ database_id: databaseId, secret: makeBranchKey(secrets, databaseId) })
    .execute();
  const directory = "https://ca.test/directory";
  const name = "shop.example";
  await db
    .insertInto("acme_account")
    .values({ directory, key: secrets.seal(Buffer.from("e"), accountKeyAad(directory)), created_at: new Date() })
    .execute();
  await db
    .insertInto("certificate")
    .values({
      ...{ name, registered_domain: name, state: "ordered", next_at: new Date() },
      ...{ chain: "f", fingerprint: "f", issuer: directory, not_before: new Date(), not_after: new Date() },
      key: secrets.seal(Buffer.from("g"), keyAad(name)),
      ...{ directory, order_url: directory, order_key: secrets.seal(Buffer.from("h"), orderKeyAad(name)) },
    })
    .execute();
  const copy = openBranchKey(secrets, databaseId, await sealedBranchKey()).seal(Buffer.from("log"), "object");
  const offsite = openFileKey(secrets, backupId, await sealedFileKey(backupId)).seal(Buffer.from("sql"), "piece");
  const hook = () => db.selectFrom("alert_webhook").selectAll().where("project_id", "=", id).executeTakeFirstOrThrow();
  return async (with_) => {
    const branch = await db.selectFrom("database").selectAll().where("id", "=", databaseId).executeTakeFirstOrThrow();
    const row = await db.selectFrom("deployment").selectAll().where("id", "=", deploymentId).executeTakeFirstOrThrow();
    const gone = await db
      .selectFrom("dropped_database")
      .selectAll()
      .where("id", "=", dropped.id)
      .executeTakeFirstOrThrow();
    const account = await db.selectFrom("acme_account").select("key").executeTakeFirstOrThrow();
    const certificate = await db.selectFrom("certificate").select(["key", "order_key"]).executeTakeFirstOrThrow();
    return {
      certificates: [
        with_.open(account.key, accountKeyAad(directory)).toString(),
        with_.open(certificate.key ?? Buffer.alloc(0), keyAad(name)).toString(),
        with_.open(certificate.order_key ?? Buffer.alloc(0), orderKeyAad(name)).toString(),
      ],
      offsite: openFileKey(with_, backupId, await sealedFileKey(backupId))
        .open(offsite, "piece")
        .toString(),
      copy: openBranchKey(with_, databaseId, await sealedBranchKey())
        .open(copy, "object")
        .toString(),
      webhook: openSecrets(with_, await hook(), new Date()),
      keeper: openKeeperPassword(with_, branch),
      dropped: [
        with_.open(gone.admin_secret ?? Buffer.alloc(0), adminSecretAad(dropped.id)).toString(),
        with_.open(gone.secret ?? Buffer.alloc(0), tenantSecretAad(dropped.id)).toString(),
        openKeeperPassword(with_, { id: dropped.id, keeper_secret: gone.keeper_secret }),
        with_.open(gone.pending_secret ?? Buffer.alloc(0), pendingSecretAad(dropped.id)).toString(),
      ],
      authority: (await openAuthority(db, with_, { clock: systemClock, random: systemRandom })).caSha256,
      salts: await loadSalts({ clock, db, secrets: with_ }),
      base: await readEnv(db, with_, id, null),
      over: await readEnv(db, with_, id, "dev"),
      credential: await findCredential(db, with_, id, "registry.test"),
      env: with_.open(row.env ?? Buffer.alloc(0), envAad(deploymentId)).toString(),
      fileEnv: with_.open(row.file_env ?? Buffer.alloc(0), fileEnvAad(deploymentId)).toString(),
      administrator: openAdminPassword(with_, branch),
      tenant: with_.open(branch.secret, tenantSecretAad(databaseId)).toString(),
      nextTenant: openTenantPassword(with_, branch),
    };
  };
}

async function sealedFileKey(backupId: string): Promise<Buffer> {
  const { offsite_secret } = await api.db
    .selectFrom("database_backup")
    .select("offsite_secret")
    .where("id", "=", backupId)
    .executeTakeFirstOrThrow();
  return offsite_secret ?? Buffer.alloc(0);
}

const sealedBranchKey = async (): Promise<Buffer> =>
  (await api.db.selectFrom("offsite_key").select("secret").executeTakeFirstOrThrow()).secret;

test("every value is sealed with the new key, and opens without the old one", async () => {
  const [old, fresh] = [newKey(), newKey()];
  const before = createSecrets([old]);
  const readAll = await fillEveryPlace(before);
  const values = await readAll(before);
  const both = createSecrets([fresh, old]);

  expect(await rotate({ db: api.db, secrets: both, batch: 1 })).toEqual({ resealed: 30, overtaken: 0, unreadable: [] });

  expect(await readAll(createSecrets([fresh]))).toEqual(values);
  await expect(readAll(before)).rejects.toThrow(CannotOpen);
  const counts = await countByKey(api.db, sealedPlaces);
  expect(counts.map(({ place }) => place)).toEqual(sealedPlaces.map(placeName));
  expect(new Set(counts.map(({ keyId }) => keyId))).toEqual(new Set([both.keyIds[0]]));
  // Again, there is nothing to do.
  expect(await rotate({ db: api.db, secrets: both })).toEqual({ resealed: 0, overtaken: 0, unreadable: [] });
});

test("no column that could hold a sealed value is forgotten", async () => {
  const { rows } = await sql<{ name: string }>`
    select table_name || '.' || column_name as name from information_schema.columns
    where table_schema in ('public', 'auth') and data_type = 'bytea' order by 1`.execute(api.db);
  // Hashes, and what is no secret.
  const open = /(?:^|[._])hash$|^log_chunk\.data$|^analytics_hour\.visitors$/;
  const unknown = rows.map(({ name }) => name).filter((name) => !open.test(name));
  expect(unknown).toEqual(sealedPlaces.map(placeName).sort());
});

test("a write that comes between reading and exchanging a value is kept", async () => {
  const [old, fresh] = [newKey(), newKey()];
  const before = createSecrets([old]);
  const after = createSecrets([fresh, old]);
  await sql`truncate acme_account, certificate, analytics_salt, env_var, env_overlay, database_backup, offsite_key, registry_credential, alert_webhook, cluster, deployment, database, dropped_database cascade`.execute(
    api.db,
  );
  const { id } = await api.newProject(user);
  await replaceEnv(api.db, before, id, null, { A: "first", B: "first" });

  // The writer has changed the rows and not committed: rotation reads the old values and waits for the rows.
  const written = Promise.withResolvers<void>();
  const commit = Promise.withResolvers<void>();
  const writing = api.db.transaction().execute(async (tx) => {
    await replaceEnv(tx, before, id, null, { A: "second", C: "second" });
    written.resolve();
    await commit.promise;
  });
  await written.promise;
  const rotating = rotate({ db: api.db, secrets: after });
  await until("rotation waits for the row", async () => {
    const { rows } = await sql`select 1 from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%update "env_var"%'`.execute(
      api.db,
    );
    return rows.length > 0;
  });
  commit.resolve();
  await writing;

  const { resealed, overtaken } = await rotating;
  expect({ resealed, overtaken }).toEqual({ resealed: 2, overtaken: 2 });
  expect(await readEnv(api.db, createSecrets([fresh]), id, null)).toEqual({ A: "second", C: "second" });
});

test("rotation while users write loses nothing that was acknowledged", async () => {
  const { db, context } = api;
  await sql`truncate acme_account, certificate, analytics_salt, env_var, env_overlay, database_backup, offsite_key, registry_credential, alert_webhook, cluster, deployment, database, dropped_database cascade`.execute(
    db,
  );
  const [old, fresh] = [newKey(), newKey()];
  const projects = await Promise.all(Array.from({ length: 4 }, () => api.newProject(user)));
  const setOf = (n: number) => Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`K${at}`, `${n}-${at}`]));
  for (const { id } of projects) await replaceEnv(db, createSecrets([old]), id, null, setOf(0));

  // A control server that knows both keys already, as the way of a rotation demands.
  const secrets = createSecrets([fresh, old]);
  const server = buildServer({ ...context, secrets });
  const origin = `${await server.listen({ host: "127.0.0.1", port: 0 })}/api/v1`;
  const call = async (id: string, vars?: Record<string, string>) => {
    const reply = await fetch(`${origin}/projects/${id}/env`, {
      method: vars === undefined ? "GET" : "PUT",
      headers: { authorization: `Bearer ${user.session}`, "content-type": "application/json" },
      ...(vars !== undefined && { body: JSON.stringify({ vars }) }),
    });
    expect(reply.status).toBe(200);
    return ((await reply.json()) as { vars?: Record<string, string> }).vars;
  };
  const acknowledged = new Map(projects.map(({ id }) => [id, setOf(0)]));
  let stop = false;
  let writes = 0;
  const writers = projects.map(async ({ id }) => {
    while (!stop) {
      expect(await call(id)).toEqual(acknowledged.get(id));
      writes += 1;
      const vars = setOf(writes);
      await call(id, vars);
      acknowledged.set(id, vars);
    }
  });
  try {
    for (let round = 0; round < 10; round += 1) {
      // Old values again, as if another server had not been restarted yet.
      const { id } = await api.newProject(user);
      await replaceEnv(db, createSecrets([old]), id, null, setOf(round));
      acknowledged.set(id, setOf(round));
      expect((await rotate({ db, secrets, batch: 2 })).unreadable).toEqual([]);
    }
  } finally {
    stop = true;
    await Promise.all(writers);
    await server.close();
  }
  expect(writes).toBeGreaterThan(projects.length);
  for (const [id, vars] of acknowledged) expect(await readEnv(db, createSecrets([fresh]), id, null)).toEqual(vars);
});

test("values that were exchanged for one another open nowhere, and rotation leaves them as they are", async () => {
  const [old, fresh] = [newKey(), newKey()];
  const before = createSecrets([old]);
  await sql`truncate acme_account, certificate, analytics_salt, env_var, env_overlay, database_backup, offsite_key, registry_credential, alert_webhook, cluster, deployment, database, dropped_database cascade`.execute(
    api.db,
  );
  const mine = await api.newProject(user);
  const other = await api.newProject(user);
  await replaceEnv(api.db, before, mine.id, null, { A: "mine", FINE: "1" });
  await replaceEnv(api.db, before, other.id, null, { A: "other" });
  await sql`update env_var set value = swapped.value from env_var swapped
    where env_var.key = 'A' and swapped.key = 'A' and env_var.project_id <> swapped.project_id`.execute(api.db);
  const sealed = () => api.db.selectFrom("env_var").selectAll().where("key", "=", "A").orderBy("project_id").execute();
  const as = await sealed();

  const secrets = createSecrets([fresh, old]);
  const { resealed, unreadable } = await rotate({ db: api.db, secrets, batch: 1 });
  expect(resealed).toBe(1);
  expect(unreadable.map(({ place, key }) => `${place} ${key}`).sort()).toEqual(
    [mine.id, other.id].map((id) => `env_var.value ${id}/A`).sort(),
  );
  expect(await sealed()).toEqual(as);
  await expect(readEnv(api.db, secrets, mine.id, null)).rejects.toThrow(CannotOpen);
  expect(await countByKey(api.db, sealedPlaces)).toContainEqual(
    expect.objectContaining({ keyId: secrets.keyIds[1], count: 2 }),
  );
});
