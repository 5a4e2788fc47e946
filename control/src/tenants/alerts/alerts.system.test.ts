import { createHmac, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { limits } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { alertWork, clearAlert, dropAlert, raiseAlert } from "../../fleet/alerts/raise.ts";
import { createAuthority, createServerCertificate } from "../../fleet/ca/certificates.ts";
import { addressSet } from "../../fleet/images/address-set.ts";
import { createWebhookEgress } from "../../fleet/images/egress.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import { createListener } from "../../stores/db/listen.ts";
import type { Project } from "../../stores/db/tables.ts";
import { until } from "../../stores/etcd/testing.ts";
import { finishWork, reapWork } from "../../stores/work/queue.ts";
import { workRows } from "../../stores/work/rows.ts";
import { claimWork } from "../../stores/work/testing/claim.ts";
import { startWorkers, type WorkHandler } from "../../stores/work/worker.ts";
import { deliverWorker } from "./deliver.ts";
import { forgetAlerts } from "./forget.ts";
import { alertLookWork, alertMailWork, alertWebhookWork } from "./kinds.ts";
import { newWebhook, type Received, startReceiver } from "./testing.ts";
import { alertWorkers } from "./worker.ts";

const log = createLog("silent");
const lookedUp: string[] = [];
const resolve = async (name: string) => {
  lookedUp.push(name);
  return name.endsWith("inside.test") ? ["10.1.2.3"] : name.endsWith("svc.test") ? ["127.0.0.1"] : ["93.184.215.14"];
};
let api: TestApi;
let owner: TestUser;
beforeAll(async () => {
  api = await testApi({ resolveWebhook: resolve, config: { webhookAllow: ["127.0.0.0/8"] } });
  owner = await api.newUser();
});
afterAll(() => api?.[Symbol.asyncDispose]());

function handlers(more: { ca?: string; clock?: Clock } = {}): Record<string, WorkHandler> {
  const { mailer, config, secrets } = api.context;
  const egress = createWebhookEgress(systemClock, resolve, addressSet(config.webhookAllow));
  return {
    ...alertWorkers({ db: api.db, mailer, apiUrl: config.apiUrl }),
    [alertWebhookWork]: deliverWorker({ clock: systemClock, db: api.db, secrets, log, egress, ...more }),
  };
}

/** Does all that is due, as a replica does. Returns how many items. */
async function work(more: { ca?: string } = {}): Promise<number> {
  const known = handlers(more);
  for (let done = 0; ; done += 1) {
    const item = await claimWork(api.db, { kinds: Object.keys(known), owner: "a", leaseMs: 60_000 });
    if (item === null) return done;
    const outcome = await known[item.kind]?.(item, new AbortController().signal);
    if (outcome === undefined) throw new Error(`nobody knows ${item.kind}`);
    await finishWork(api.db, item, "a", outcome);
  }
}

/** What waits for its time has it now. */
const hurry = async (kind: string) => {
  await api.db.updateTable("work_item").set({ run_at: sql<Date>`now()` }).where("kind", "=", kind).execute();
};
const path = ({ id }: Pick<Project, "id">, rest = "") => `/projects/${id}/alerts${rest}`;
const call = (method: string, at: string, body?: unknown) =>
  api.call(method, at, { session: owner.session, ...(body !== undefined && { body }) });
const told = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [status, body.error?.code];
const alertsOf = async (project: Project) => (await call("GET", path(project))).body.alerts;
const failed = (project: Pick<Project, "id">, channel: string, detail = "BUILD_FAILED: The build failed.") =>
  raiseAlert(api.db, { projectId: project.id, event: "deployFailed", subject: channel, detail });
const succeeded = ({ id: projectId }: Project, channel: string) =>
  clearAlert(api.db, { projectId, event: "deployFailed", subject: channel });
const mailsOf = async ({ slug }: Project) =>
  (await api.mails()).filter(({ subject }) => subject.startsWith(`${slug}:`));

/** What docs/alerts.md tells receivers to do. */
async function documentedCheck() {
  const text = await readFile(join(import.meta.dirname, "../../../../docs/alerts.md"), "utf8");
  const [, source = ""] = /```js\n([\s\S]*?)```/.exec(text) ?? [];
  return (await import(`data:text/javascript,${encodeURIComponent(source)}`)) as {
    isDelivery(secret: string, headers: object, body: string, now?: number): boolean;
  };
}

/** As a receiver checks it: by the secret, the id, the time and the bytes. */
function isSigned(secret: string, { headers, body }: Received): boolean {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
  const age = Math.abs(Date.now() / 1000 - Number(headers["webhook-timestamp"]));
  return age < 3600 && String(headers["webhook-signature"]).split(" ").includes(expected);
}

describe("settings", () => {
  test("are usual until somebody changes them, and then only what was named", async () => {
    const project = await api.newProject(owner);
    const usual = await alertsOf(project);
    expect(usual).toMatchObject({ enabled: true, email: owner.email, webhook: null, open: [] });
    expect(usual.events.deployFailed).toEqual({ mail: true, webhook: true });
    const changed = await call("PATCH", path(project), { events: { deployFailed: { mail: false } } });
    expect(changed.body.alerts.events).toEqual({ ...usual.events, deployFailed: { mail: false, webhook: true } });
    await call("PATCH", path(project), { enabled: false });
    expect(await alertsOf(project)).toEqual({ ...changed.body.alerts, enabled: false });
  });

  test.each([
    { body: {}, says: /Send at least one field/ },
    { body: { events: { deployFaild: { mail: true } } }, says: /deployFaild.*deployFailed/ },
    { body: { events: { deployFailed: { sms: true } } }, says: /sms/ },
    { body: { events: { deployFailed: {} } }, says: /Send at least one field/ },
    { body: { events: { deployFailed: { mail: "yes" } } }, says: /events\.deployFailed\.mail/ },
    { body: { email: "eve@svc.test" }, says: /email/ },
  ])("$body is refused", async ({ body, says }) => {
    const answer = await call("PATCH", path(await api.newProject(owner)), body);
    expect(told(answer)).toEqual([422, "VALIDATION"]);
    expect(answer.body.error.message).toMatch(says);
  });

  test("of others are nobody's business", async () => {
    const project = await api.newProject(await api.newUser());
    await newWebhook(api, project.id);
    const calls = [
      call("GET", path(project)),
      call("PATCH", path(project), { enabled: false }),
      call("PUT", path(project, "/webhook"), { url: "https://hooks.example.test" }),
      call("DELETE", path(project, "/webhook")),
      call("POST", path(project, "/webhook/rotate")),
    ];
    for (const answer of await Promise.all(calls)) expect(told(answer)).toEqual([404, "NOT_FOUND"]);
  });
});

describe("the webhook", () => {
  test("has a secret that is shown once, and lies sealed", async () => {
    const project = await api.newProject(owner);
    const put = await call("PUT", path(project, "/webhook"), { url: "https://hooks.example.test/a?b=c" });
    expect(put.body).toMatchObject({ webhook: { url: "https://hooks.example.test/a?b=c", configured: true } });
    expect(put.body.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const rotated = await call("POST", path(project, "/webhook/rotate"));
    expect(rotated.body.secret).not.toBe(put.body.secret);
    expect(rotated.body.webhook.previousSecretUntil).not.toBeNull();
    const again = await call("PUT", path(project, "/webhook"), { url: "https://hooks.example.test/a?b=c" });
    expect(again.body.webhook).toMatchObject({ rotatedAt: null, previousSecretUntil: null });
    const rows = await api.db.selectFrom("alert_webhook").selectAll().where("project_id", "=", project.id).execute();
    expect(rows).toHaveLength(1);
    const seen = [(await call("GET", path(project))).text, rows[0]?.secret.toString("latin1")].join();
    for (const { secret } of [put.body, rotated.body, again.body]) expect(seen).not.toContain(secret.slice(6));
    const lines = await api.db.selectFrom("audit").select("detail").where("target", "=", project.id).execute();
    expect(lines.map(({ detail }) => detail)).toEqual(Array(3).fill({ host: "hooks.example.test" }));

    expect((await call("DELETE", path(project, "/webhook"))).body.alerts.webhook).toBeNull();
    for (const [method, rest] of [
      ["DELETE", "/webhook"],
      ["POST", "/webhook/rotate"],
    ] as const)
      expect(told(await call(method, path(project, rest)))).toEqual([404, "NOT_FOUND"]);
  });

  test.each([
    { url: "https://10.0.0.1/", says: /IP address/ },
    { url: "https://8.8.8.8/", says: /IP address/ },
    { url: "http://[::ffff:10.0.0.1]/", says: /not reached over https/ },
    { url: "https://[::ffff:169.254.169.254]/", says: /not a host name/ },
    { url: "http://hooks.example.test/", says: /not reached over https/ },
    { url: "https://hooks.example.test:22/", says: /Port 22 is not allowed/ },
    { url: "https://printer.local/", says: /not a public host name/ },
    { url: "https://hooks.inside.test/", says: /not on the public internet/ },
    { url: "https://ada:secret@hooks.example.test/", says: /user name and the password/ },
    { url: "javascript:alert(1)", says: /not an address of the web/ },
    { url: `https://hooks.example.test/${"x".repeat(limits.webhookUrlLengthMax)}`, says: /url/ },
  ])("does not lead to $url", async ({ url, says }) => {
    const project = await api.newProject(owner);
    const answer = await call("PUT", path(project, "/webhook"), { url });
    expect(told(answer)).toEqual([422, "VALIDATION"]);
    expect(answer.body.error.message).toMatch(says);
    expect((await alertsOf(project)).webhook).toBeNull();
  });

  test("is set ten times, and then once a minute, over all projects of an owner, who is told when", async () => {
    const busy = await api.newUser();
    const [one, other] = [await api.newProject(busy), await api.newProject(busy)];
    const set = (project: Project, user = busy) =>
      api.call("PUT", path(project, "/webhook"), {
        ...{ session: user.session, body: { url: "https://hooks.example.test/busy" } },
      });
    for (let at = 0; at < 10; at += 1) expect((await set(at % 2 === 0 ? one : other)).status).toBe(200);
    const kept = await api.db.selectFrom("alert_webhook").select("id").where("project_id", "=", one.id).execute();
    const refused = await set(one);
    expect(told(refused)).toEqual([429, "RATE_LIMITED"]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    // What it was goes on.
    const left = await api.db.selectFrom("alert_webhook").select("id").where("project_id", "=", one.id).execute();
    expect(left).toEqual(kept);
    expect((await set(await api.newProject(owner), owner)).status).toBe(200);
    await sql`update attempt_bucket set at = at - interval '61 seconds'`.execute(api.db);
    expect((await set(other)).status).toBe(200);
  });

  test("is called once when it is set, and then when something begins and when it is over, signed", async () => {
    const project = await api.newProject(owner);
    const receiver = await startReceiver();
    const { secret } = (await call("PUT", path(project, "/webhook"), { url: receiver.url })).body;
    await work();
    await failed(project, "production");
    await failed(project, "production");
    await work();
    expect((await alertsOf(project)).open).toMatchObject([{ event: "deployFailed", subject: "production" }]);
    await succeeded(project, "production");
    await succeeded(project, "preview");
    await work();
    const bodies = receiver.received.map(({ body }) => JSON.parse(body));
    expect(bodies.map(({ type }) => type)).toEqual(["webhook.test", "alert.began", "alert.over"]);
    expect(bodies[1].data).toEqual({
      project: { id: project.id, slug: project.slug },
      ...{ event: "deployFailed", subject: "production", title: "A deployment on production failed" },
      ...{ detail: "BUILD_FAILED: The build failed.", since: expect.any(String), until: null },
    });
    expect(bodies[2].data).toMatchObject({ since: bodies[1].data.since, until: expect.any(String) });
    expect(receiver.received.every((each) => isSigned(secret, each))).toBe(true);
    expect(receiver.received.some((each) => isSigned(`whsec_${randomBytes(32).toString("base64")}`, each))).toBe(false);
    expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(3);
    const { isDelivery } = await documentedCheck();
    expect(receiver.received.every(({ headers, body }) => isDelivery(secret, headers, body))).toBe(true);
    expect(receiver.received.some(({ headers, body }) => isDelivery(secret, headers, `${body} `))).toBe(false);
    const later = Date.now() + 3_600_000;
    expect(receiver.received.some(({ headers, body }) => isDelivery(secret, headers, body, later))).toBe(false);
    const mails = await mailsOf(project);
    expect(mails.map(({ to, subject }) => [to, subject])).toEqual([
      [owner.email, `${project.slug}: A deployment on production failed`],
      [owner.email, `${project.slug}: A deployment on production succeeded again`],
    ]);
    expect(mails[0]?.text).toContain("BUILD_FAILED: The build failed.");
    const { webhook, open } = await alertsOf(project);
    expect(webhook).toMatchObject({ lastDelivery: { status: 204, ok: true, problem: null }, failingSince: null });
    expect(open).toEqual([]);
  });

  test("that answers 500 is called again with the same id and the same bytes", async () => {
    const project = await api.newProject(owner);
    const receiver = await startReceiver();
    const { secret } = await newWebhook(api, project.id, receiver.url);
    receiver.answers.push(500, 302);
    await failed(project, "production");
    await work();
    const { webhook } = await alertsOf(project);
    expect(webhook.lastDelivery).toMatchObject({ status: 500, ok: false, problem: "It answered 500." });
    expect(webhook.failingSince).toBe(webhook.lastDelivery.at);
    await hurry(alertWebhookWork);
    await work();
    expect((await alertsOf(project)).webhook.lastDelivery.problem).toMatch(/Redirects are not followed/);
    await hurry(alertWebhookWork);
    await work();
    const { received } = receiver;
    expect(received.map(({ path: at }) => at)).toEqual(["/hook", "/hook", "/hook"]);
    expect(new Set(received.map(({ headers, body }) => `${headers["webhook-id"]} ${body}`)).size).toBe(1);
    expect(received.every((each) => isSigned(secret, each))).toBe(true);
    expect((await alertsOf(project)).webhook).toMatchObject({ lastDelivery: { ok: true }, failingSince: null });
  });

  test("is called again with the same id by who takes over from one that died before it noted the answer", async () => {
    const project = await api.newProject(owner);
    const receiver = await startReceiver();
    await newWebhook(api, project.id, receiver.url);
    await failed(project, "production");
    const { [alertWebhookWork]: deliver, ...others } = handlers();
    for (;;) {
      const item = await claimWork(api.db, { kinds: Object.keys(others), owner: "dying", leaseMs: 60_000 });
      if (item === null) break;
      await finishWork(
        api.db,
        item,
        "dying",
        (await others[item.kind]?.(item, new AbortController().signal)) ?? { state: "done" },
      );
    }
    const item = await claimWork(api.db, { kinds: [alertWebhookWork], owner: "dying", leaseMs: 1 });
    const death = new AbortController();
    receiver.answers.push(null);
    const dying = item === null ? undefined : deliver?.(item, death.signal);
    dying?.catch(() => {});
    await until("it is sent", async () => receiver.received.length === 1);
    death.abort();
    await expect(dying).rejects.toThrow();
    await until("its lease is over", async () => (await reapWork(api.db)) > 0);
    await work();
    const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
    expect(ids).toHaveLength(2);
    expect(ids[0]).toBe(ids[1]);
  });

  test("has two secrets for a day after a rotation, and then one", async () => {
    const project = await api.newProject(owner);
    const receiver = await startReceiver();
    const before = (await newWebhook(api, project.id, receiver.url)).secret;
    const { secret: after } = (await call("POST", path(project, "/webhook/rotate"))).body;
    await failed(project, "production");
    await work();
    const yesterday = sql<Date>`now() - interval '1 second'`;
    await api.db
      .updateTable("alert_webhook")
      .set({ previous_until: yesterday })
      .where("project_id", "=", project.id)
      .execute();
    await succeeded(project, "production");
    await work();
    const signedBy = (secret: string) => receiver.received.map((each) => isSigned(secret, each));
    expect([signedBy(before), signedBy(after)]).toEqual([
      [true, false],
      [true, true],
    ]);
    expect((await alertsOf(project)).webhook.previousSecretUntil).toBeNull();
  });

  test("over TLS has to have a certificate for its name, whatever the name is looked up as", async () => {
    const serial = () => randomBytes(16);
    const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
    const authority = await createAuthority("hooks", { serial: serial(), ...validity });
    const { privateKey, certificate } = await createServerCertificate(authority, {
      ...{ hosts: ["hooks.svc.test"], serial: serial(), ...validity },
    });
    const receiver = await startReceiver({ key: privateKey, cert: certificate }, "hooks.svc.test");
    const project = await api.newProject(owner);
    await newWebhook(api, project.id, receiver.url);
    await failed(project, "production");
    await work();
    expect((await alertsOf(project)).webhook.lastDelivery).toMatchObject({
      ...{ status: null, ok: false, problem: "Its certificate is not of a public authority." },
    });
    await hurry(alertWebhookWork);
    await work({ ca: authority.certificate });
    expect(receiver.received).toHaveLength(1);
    const other = receiver.url.replace("hooks.svc.test", "other.svc.test");
    await newWebhook(api, project.id, other);
    await succeeded(project, "production");
    await work({ ca: authority.certificate });
    expect((await alertsOf(project)).webhook.lastDelivery.problem).toBe("Its certificate is for another name.");
    expect(receiver.received).toHaveLength(1);
  });

  test("whose name has come to mean a machine inside is not called", async () => {
    const project = await api.newProject(owner);
    await newWebhook(api, project.id, "https://hooks.inside.test/");
    await failed(project, "production");
    await work();
    expect(lookedUp).toContain("hooks.inside.test");
    expect((await alertsOf(project)).webhook.lastDelivery).toMatchObject({
      ...{ status: null, ok: false, problem: expect.stringMatching(/not on the public internet/) },
    });
  });

  test("that has taken nothing for days is disabled with a mail, and begins anew when it is set again", async () => {
    const project = await api.newProject(owner);
    const receiver = await startReceiver();
    const { webhook } = await newWebhook(api, project.id, receiver.url);
    await failed(project, "production");
    receiver.answers.push(500, 500);
    await work();
    const long = sql<Date>`now() - ${limits.webhookFailingDaysMax} * interval '1 day'`;
    await api.db.updateTable("alert_webhook").set({ failing_since: long }).where("id", "=", webhook.id).execute();
    const last = { tries: limits.webhookTriesMax - 1 };
    await api.db.updateTable("alert_delivery").set(last).where("webhook_id", "=", webhook.id).execute();
    await hurry(alertWebhookWork);
    await work();
    expect((await alertsOf(project)).webhook.disabledAt).not.toBeNull();
    expect((await mailsOf(project)).at(-1)?.subject).toBe(`${project.slug}: its webhook is not called any more`);
    await succeeded(project, "production");
    await work();
    expect(receiver.received).toHaveLength(2);
    await call("PUT", path(project, "/webhook"), { url: receiver.url });
    await work();
    expect((await alertsOf(project)).webhook).toMatchObject({ disabledAt: null, lastDelivery: { ok: true } });
  });

  test("that is gone for good says so with 410", async () => {
    const project = await api.newProject(owner);
    const receiver = await startReceiver();
    await newWebhook(api, project.id, receiver.url);
    receiver.answers.push(410);
    await failed(project, "production");
    await work();
    expect((await alertsOf(project)).webhook).toMatchObject({
      lastDelivery: { status: 410 },
      disabledAt: expect.any(String),
    });
  });
});

test("two replicas at once deliver each message once", async () => {
  const project = await api.newProject(owner);
  const receiver = await startReceiver();
  const { webhook } = await newWebhook(api, project.id, receiver.url);
  await using listener = createListener(systemClock, api.context.config.databaseUrl, log);
  const replica = (name: string) =>
    startWorkers({
      ...{ clock: systemClock, rows: workRows(api.db), listener, log, owner: name, leaseMs: 10_000 },
      groups: [{ concurrency: 8, handlers: handlers() }],
    });
  const channels = ["production", "preview", "dev"];
  {
    await using _one = replica("one");
    await using _two = replica("two");
    await Promise.all(channels.flatMap((channel) => [failed(project, channel), failed(project, channel)]));
    await until("all is delivered", async () => receiver.received.length >= 3);
    await until("nothing is left to do", async () => {
      const items = api.db.selectFrom("work_item").select("id").where("key", "like", `%${project.id}`);
      const deliveries = api.db.selectFrom("alert_delivery").select("id").where("webhook_id", "=", webhook.id);
      const open = [
        ...(await items.where("state", "in", ["queued", "running"]).execute()),
        ...(await deliveries.where("ended_at", "is", null).execute()),
      ];
      return open.length === 0;
    });
  }
  const subjects = receiver.received.map(({ body }) => JSON.parse(body).data.subject);
  expect(subjects.toSorted()).toEqual(channels.toSorted());
  expect(await mailsOf(project)).toHaveLength(3);
});

test("a storm is told by so many messages, and the rest in one an hour later", async () => {
  const project = await api.newProject(owner);
  const receiver = await startReceiver();
  await newWebhook(api, project.id, receiver.url);
  const count = limits.alertMessagesPerHour + 3;
  for (let n = 0; n < count; n += 1)
    await raiseAlert(api.db, {
      projectId: project.id,
      event: "jobFailed",
      subject: `job-${n}`,
      detail: "Exit code 1.",
    });
  await work();
  expect(receiver.received).toHaveLength(limits.alertMessagesPerHour);
  await hurry(alertLookWork);
  await work();
  expect(await mailsOf(project)).toHaveLength(limits.alertMessagesPerHour);
  const hourAgo = sql<Date>`now() - interval '1 hour'`;
  await api.db
    .updateTable("alert_setting")
    .set({ hour_at: hourAgo, look_at: null })
    .where("project_id", "=", project.id)
    .execute();
  // Whatever is said next finds that the hour is over, too.
  await failed(project, "production");
  await work();
  const [digest, next] = receiver.received.slice(limits.alertMessagesPerHour).map(({ body }) => JSON.parse(body));
  expect(digest).toMatchObject({ type: "alert.digest", data: { more: 0, project: { id: project.id } } });
  expect(digest.data.alerts).toHaveLength(3);
  expect(next).toMatchObject({ type: "alert.began", data: { event: "deployFailed" } });
  const mail = (await mailsOf(project)).find(({ subject }) => subject.endsWith(": 3 alerts in one mail"));
  expect(mail?.text).toMatch(/- The job job-\d+ failed\. Exit code 1\. Since/);
});

test("what falls over for a moment is nobody's alert, and what stays down is looked at again in time", async () => {
  const project = await api.newProject(owner);
  const about = { projectId: project.id, event: "siteDown", subject: "production" } as const;
  await raiseAlert(api.db, { ...about, detail: "The app exited with code 1." });
  await work();
  await clearAlert(api.db, about);
  await work();
  expect(await mailsOf(project)).toEqual([]);
  await raiseAlert(api.db, { ...about, detail: "The app exited with code 1." });
  await work();
  const waiting = api.db
    .selectFrom("work_item")
    .select("run_at")
    .where("kind", "=", alertLookWork)
    .where("state", "=", "queued");
  expect((await waiting.execute()).length).toBeGreaterThan(0);
  const aMinute = sql<Date>`now() - interval '1 minute'`;
  await api.db.updateTable("alert").set({ changed_at: aMinute }).where("project_id", "=", project.id).execute();
  await hurry(alertLookWork);
  await work();
  expect(await mailsOf(project)).toMatchObject([
    { subject: `${project.slug}: The app on production keeps falling over` },
  ]);
});

test("what a tenant's program said is told as one line of text, whatever was in it, and wherever it is cut", async () => {
  const project = await api.newProject(owner);
  const cut = "x".repeat(limits.alertDetailLengthMax - 1);
  await failed(project, "production", `${cut}\u{1f4a5} and more`);
  await failed(project, "preview", "a\u0000b \u001b[2J\u202ec\r\nmore");
  await failed(project, "dev", "half a \ud83d pair");
  await work();
  const { open } = await alertsOf(project);
  expect(Object.fromEntries(open.map(({ subject, detail }: Record<string, string>) => [subject, detail]))).toEqual({
    production: `${cut}\ufffd`,
    preview: "ab [2Jc",
    dev: "half a \ufffd pair",
  });
});

test("nobody is told of what is gone, of projects that go, and by an address that nobody has confirmed", async () => {
  const project = await api.newProject(owner);
  const about = { projectId: project.id, event: "domainFailing", subject: "shop.example" } as const;
  await raiseAlert(api.db, { ...about, detail: "The record is gone." });
  await work();
  expect((await alertsOf(project)).open).toHaveLength(1);
  await dropAlert(api.db, about);
  await clearAlert(api.db, about);
  expect(await work()).toBe(0);
  expect((await alertsOf(project)).open).toEqual([]);

  const going = await api.newProject(owner);
  await failed(going, "production");
  await api.db.updateTable("project").set({ deleting_at: sql<Date>`now()` }).where("id", "=", going.id).execute();
  await work();
  expect(await mailsOf(going)).toEqual([]);

  const unknown = await api.newUser({ verified: false });
  const theirs = await api.newProject(unknown);
  await failed(theirs, "production");
  await work();
  expect(await mailsOf(theirs)).toEqual([]);
  expect((await api.call("GET", path(theirs), { session: unknown.session })).body.alerts.email).toBeNull();
});

test.each(["is queued", "is being heard"])(
  "what is gone does not come back by what was said before and %s",
  async (when) => {
    const project = await api.newProject(owner);
    const about = { projectId: project.id, event: "jobFailed", subject: "nightly" } as const;
    await raiseAlert(api.db, { ...about, subject: "other", detail: "Exit code 1." });
    await work();
    await raiseAlert(api.db, { ...about, detail: "Exit code 2." });
    const said =
      when === "is queued" ? null : await claimWork(api.db, { kinds: [alertWork], owner: "b", leaseMs: 60_000 });
    await api.db.transaction().execute((tx) => dropAlert(tx, about));
    if (said !== null) {
      const outcome = await handlers()[alertWork]?.(said, new AbortController().signal);
      await finishWork(api.db, said, "b", outcome ?? { state: "done" });
    }
    await work();
    expect((await alertsOf(project)).open).toMatchObject([{ subject: "other" }]);

    // A job of its name may fail again, and then it is news.
    await raiseAlert(api.db, { ...about, detail: "Exit code 3." });
    await work();
    expect((await alertsOf(project)).open).toMatchObject([{ subject: "nightly", detail: "Exit code 3." }, {}]);
  },
);

test("what was over long ago is forgotten, and all of it with its project", async () => {
  const project = await api.newProject(owner);
  const receiver = await startReceiver();
  await newWebhook(api, project.id, receiver.url);
  for (const channel of ["production", "preview"]) await failed(project, channel);
  await raiseAlert(api.db, { projectId: project.id, event: "quotaNear", subject: "2020-01", detail: "" });
  await work();
  await succeeded(project, "preview");
  await work();
  const long = sql<Date>`now() - interval '1 year'`;
  await api.db.updateTable("alert").set({ changed_at: long }).where("project_id", "=", project.id).execute();
  await api.db.updateTable("alert_delivery").set({ ended_at: long }).execute();
  await forgetAlerts(api.db);
  const left = await api.db
    .selectFrom("alert")
    .select(["event", "subject"])
    .where("project_id", "=", project.id)
    .execute();
  expect(left).toEqual([{ event: "deployFailed", subject: "production" }]);
  expect(await api.db.selectFrom("alert_delivery").select("id").execute()).toEqual([]);

  // Of a webhook that is not called any more nothing ever ends.
  const { webhook } = await newWebhook(api, project.id, receiver.url);
  const made = { webhook_id: webhook.id, body: "{}" };
  await api.db
    .insertInto("alert_delivery")
    .values([made, { ...made, created_at: long }])
    .execute();
  await forgetAlerts(api.db);
  expect(await api.db.selectFrom("alert_delivery").select("body").execute()).toHaveLength(1);

  await api.db.deleteFrom("site_host").where("project_id", "=", project.id).execute();
  await api.db.deleteFrom("project").where("id", "=", project.id).execute();
  expect(await api.db.selectFrom("alert_webhook").select("id").where("project_id", "=", project.id).execute()).toEqual(
    [],
  );
});

test("what failed on a channel that was given up is forgotten a day later", async () => {
  const project = await api.newProject(owner);
  for (const subject of ["production", "dev", "preview/7", "preview/8"]) await failed(project, subject);
  await work();
  const host = { project_id: project.id, channel: "preview" as const, pr_number: 8 };
  await api.db
    .insertInto("site_host")
    .values({ ...host, host: `preview-8-${project.slug}.svc.test` })
    .execute();
  const subjects = async () =>
    (await alertsOf(project)).open.map(({ subject }: { subject: string }) => subject).toSorted();
  await forgetAlerts(api.db);
  expect(await subjects()).toHaveLength(4);
  const days = sql<Date>`now() - interval '2 days'`;
  await api.db.updateTable("alert").set({ changed_at: days }).where("project_id", "=", project.id).execute();
  await forgetAlerts(api.db);
  expect(await subjects()).toEqual(["preview/8", "production"]);
});

test("a mail that nobody took for days is old news, and is not sent any more", async () => {
  const project = await api.newProject(owner);
  await failed(project, "production");
  const { [alertMailWork]: _mail, ...others } = handlers();
  for (;;) {
    const item = await claimWork(api.db, { kinds: Object.keys(others), owner: "a", leaseMs: 60_000 });
    if (item === null) break;
    const outcome = await others[item.kind]?.(item, new AbortController().signal);
    await finishWork(api.db, item, "a", outcome ?? { state: "done" });
  }
  const days = sql<Date>`now() - interval '4 days'`;
  await api.db.updateTable("work_item").set({ created_at: days }).where("kind", "=", alertMailWork).execute();
  expect(await work()).toBe(1);
  expect(await mailsOf(project)).toEqual([]);
});

describe("receivers that never answer", () => {
  test("hold up other owners' deliveries at no time", async () => {
    const slow = await startReceiver();
    slow.answers.push(...Array<null>(40).fill(null));
    for (let n = 0; n < 3; n += 1) {
      const project = await api.newProject(owner);
      await newWebhook(api, project.id, slow.url);
      for (let job = 0; job < 8; job += 1)
        await raiseAlert(api.db, { projectId: project.id, event: "jobFailed", subject: `job-${job}`, detail: "" });
    }
    const clock: Clock = { ...systemClock, abortAfter: () => new AbortController().signal };
    const { [alertWebhookWork]: deliver, ...others } = handlers({ clock });
    if (deliver === undefined) throw new Error("nobody delivers");
    for (;;) {
      const item = await claimWork(api.db, { kinds: Object.keys(others), owner: "a", leaseMs: 60_000 });
      if (item === null) break;
      const outcome = await others[item.kind]?.(item, new AbortController().signal);
      await finishWork(api.db, item, "a", outcome ?? { state: "done" });
    }
    const fine = await startReceiver();
    const theirs = await api.newProject(await api.newUser());
    await newWebhook(api, theirs.id, fine.url);
    await failed(theirs, "production");
    await using listener = createListener(systemClock, api.context.config.databaseUrl, log);
    await using _replica = startWorkers({
      ...{ clock: systemClock, rows: workRows(api.db), listener, log, owner: "one", leaseMs: 10_000 },
      groups: [
        { concurrency: 4, handlers: others },
        { concurrency: 16, handlers: { [alertWebhookWork]: deliver } },
      ],
    });
    await until("the other owner's is delivered", async () => fine.received.length === 1);
    expect(slow.received.length).toBeLessThanOrEqual(4);
    // Whatever waits for its turn was not tried.
    const tried = await api.db
      .selectFrom("alert_delivery")
      .innerJoin("alert_webhook", "alert_webhook.id", "alert_delivery.webhook_id")
      .select("tries")
      .where("url", "=", slow.url)
      .where("tries", ">", 0)
      .execute();
    expect(tried.length).toBeLessThanOrEqual(4);
  });
});
