import { randomUUID, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createListener, type Listener } from "../../stores/db/listen.ts";
import { type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import { createResolver } from "../../stores/dns/resolver.ts";
import { until } from "../../stores/etcd/testing.ts";
import { createSecrets } from "../../stores/secrets.ts";
import { workRows } from "../../stores/work/rows.ts";
import { startWorkers } from "../../stores/work/worker.ts";
import { AcmeError } from "./acme/problem.ts";
import { startCa, type TestCa } from "./acme/testing.ts";
import { createDnsWriter } from "./dns-writer.ts";
import { createIssuers, type FindIssuer } from "./issuers.ts";
import { certificateRound, startCertificateRounds } from "./round.ts";
import { certificateTopic, countPlaced, keyAad } from "./store.ts";
import { aDomain } from "./testing.ts";
import { certificateKind, certificateWorker, type DnsWriter } from "./worker.ts";

const log = pino({ level: process.env["SVC_TEST_LOG_LEVEL"] ?? "silent" });
const secrets = createSecrets([Buffer.alloc(32, 1)]);
const wildcard = "*.content.example";
const stack = new AsyncDisposableStack();
let ca: TestCa;
let database: TestDatabase;
let listener: Listener;
let edge: Server;
/** What the edges of this test do with a challenge. */
let edgesAnswer = true;
/** Of the one CA that is asked first. */
let directories: [string, ...string[]];

beforeAll(async () => {
  [ca, database] = await Promise.all([startCa(), testDatabase()]);
  stack.use(ca);
  stack.use(database);
  directories = [ca.directoryUrl];
  listener = stack.use(createListener(systemClock, database.url, log));
  edge = createServer((request, response) => {
    const [, token = ""] = /^\/\.well-known\/acme-challenge\/([\w-]+)$/.exec(request.url ?? "") ?? [];
    database.db
      .selectFrom("acme_challenge")
      .select("answer")
      .where("token", "=", token)
      .where("name", "=", (request.headers.host ?? "").split(":")[0] ?? "")
      .executeTakeFirst()
      .then((row) => response.writeHead(row === undefined ? 404 : 200).end(row?.answer));
  }).listen(ca.httpPort, "127.0.0.1");
  await once(edge, "listening");
  stack.defer(() => void edge.close());
});
afterAll(() => stack.disposeAsync());
beforeEach(async () => {
  edgesAnswer = true;
  troubled = { with: null, times: 0 };
  await database.db.deleteFrom("custom_domain").execute();
  for (const table of ["certificate", "acme_challenge", "acme_order", "work_item"] as const)
    await database.db.deleteFrom(table).execute();
});

const dnsOfCa: DnsWriter = {
  put: async (name, value) => ca.dns.set(name, { TXT: [value] }),
  remove: async (name) => ca.dns.remove(name),
};

/** What the CA says to whoever asks about an order that it has taken; null: it answers. And how often it said so. */
let troubled: { with: AcmeError | null; times: number };
/** Where the CA can be in trouble. */
const inTrouble =
  (find: FindIssuer): FindIssuer =>
  async (directory) => {
    const issuer = await find(directory);
    const { order } = issuer.client;
    const troubledOrder: typeof order = (...about) => {
      if (troubled.with === null) return order(...about);
      troubled.times += 1;
      return Promise.reject(troubled.with);
    };
    return { ...issuer, client: { ...issuer.client, order: troubledOrder } };
  };

/** A replica that issues, until the test is over. */
function startReplica(options: { dns?: DnsWriter } = {}): AsyncDisposable {
  const { db } = database;
  const replica = new AsyncDisposableStack();
  const acme = { directories, email: null, rootPem: ca.rootPem, profile: "tlsserver", wildcard: null };
  const content = options.dns ? { name: wildcard, dns: options.dns } : null;
  const handler = certificateWorker({
    ...{ clock: systemClock, random: systemRandom, db, secrets, acme, log, wildcard: content },
    resolver: createResolver({ clock: systemClock, servers: [ca.dns.server], timeoutMs: 30_000 }),
    findIssuer: inTrouble(createIssuers({ clock: systemClock, db, secrets, acme })),
    edgeHost: "edge.content.example",
    areEdgesAnswering: async () => edgesAnswer,
  });
  replica.use(
    startWorkers({
      ...{ clock: systemClock, rows: workRows(db), listener, log, owner: randomUUID(), leaseMs: 10_000 },
      groups: [{ concurrency: 8, handlers: { [certificateKind]: handler } }],
    }),
  );
  replica.use(startCertificateRounds({ clock: systemClock, db, wildcard: content, log, listener }));
  return replica;
}

/** Names whose end was told. */
let late: readonly string[] = [];
const aRound = () =>
  certificateRound({
    ...{ clock: systemClock, db: database.db, wildcard: null, log },
    tellLate: (names) => {
      late = names;
    },
  });

/** What comes to nothing for a moment, as on a machine that stands still, is tried again after a minute. */
const patienceMs = 150_000;
const find = (name: string) =>
  database.db.selectFrom("certificate").selectAll().where("name", "=", name).executeTakeFirst();
const isIssued = (name: string) =>
  until(
    `a certificate for ${name}`,
    async () => {
      const row = await find(name);
      return row?.state === "issued" ? row : null;
    },
    patienceMs,
  );
const hasFailed = (name: string, code: string) =>
  until(
    `${name} to fail for ${code}`,
    async () => {
      const row = await find(name);
      return row?.failure_code === code ? row : null;
    },
    patienceMs,
  );
const points = (name: string) => ca.dns.set(name, { A: ["127.0.0.1"] });

test("a proven domain gets a certificate, its twin too where it leads here, and the key is sealed", async () => {
  points("shop.example");
  points("www.shop.example");
  await using _replica = startReplica();
  await aDomain(database.db, "shop.example");
  const row = await isIssued("shop.example");
  expect(new X509Certificate(row.chain ?? "").subjectAltName).toBe("DNS:shop.example");
  const key = secrets.open(row.key ?? Buffer.alloc(0), keyAad("shop.example")).toString("utf8");
  expect(key).toContain("BEGIN PRIVATE KEY");
  expect(row.renew_at?.getTime()).toBeLessThan(row.not_after?.getTime() ?? 0);
  await isIssued("www.shop.example");
  const challenges = await database.db.selectFrom("acme_challenge").selectAll().execute();
  expect(challenges).toHaveLength(2);
  expect(challenges.every(({ remove_after }) => remove_after !== null)).toBe(true);
});

test("a twin that leads elsewhere holds nothing up", async () => {
  points("alone.example");
  ca.dns.set("www.alone.example", { A: ["192.0.2.1"] });
  await using _replica = startReplica();
  await aDomain(database.db, "alone.example");
  await isIssued("alone.example");
  expect((await hasFailed("www.alone.example", "not-pointing")).failure).toContain("192.0.2.1");
  const orders = await database.db.selectFrom("acme_order").select("name").execute();
  expect(orders).toEqual([{ name: "alone.example" }]);
});

test("a twin whose records come later gets its certificate without anybody asking", async () => {
  points("later.example");
  ca.dns.set("www.later.example", { A: ["192.0.2.1"] });
  await using _replica = startReplica();
  await aDomain(database.db, "later.example");
  await hasFailed("www.later.example", "not-pointing");
  const asFailed = () => database.db.updateTable("certificate").where("name", "=", "www.later.example");
  await asFailed().set({ failures: 9, next_at: systemClock.now() }).execute();
  await aRound();
  const row = await until("another failure", async () => {
    const found = await find("www.later.example");
    return found?.failures === 10 ? found : null;
  });
  expect(row.next_at.getTime() - (row.since?.getTime() ?? 0)).toBeLessThan(3 * 3_600_000);
  points("www.later.example");
  await asFailed().set({ next_at: systemClock.now() }).execute();
  await aRound();
  await isIssued("www.later.example");
});

test("the CA is told only when every edge answers", async () => {
  points("a.late.example");
  edgesAnswer = false;
  await using _replica = startReplica();
  await aDomain(database.db, "a.late.example");
  await until("its challenge", async () => (await find("a.late.example"))?.state === "challenge_published");
  edgesAnswer = true;
  await isIssued("a.late.example");
});

test("the wildcard of the content domain is proven by DNS", async () => {
  await using _replica = startReplica({ dns: dnsOfCa });
  const row = await isIssued(wildcard);
  expect(new X509Certificate(row.chain ?? "").subjectAltName).toBe(`DNS:${wildcard}`);
});

test("a record that cannot be written is why there is no wildcard, and tried again later", async () => {
  const parts = { clock: systemClock, random: systemRandom };
  const dns = createDnsWriter(parts, { by: "hook", program: "/bin/false" });
  await using _replica = startReplica({ dns });
  const row = await hasFailed(wildcard, "dns-writer");
  expect(row.failure).toMatch(/_acme-challenge\.content\.example was not written.*code 1/);
  expect(row).toMatchObject({ state: "failed", ca_failures: 0, order_url: null });
});

describe("nothing is ordered for", () => {
  test.each([
    { when: "a domain that is not proven", domain: { status: "pending" as const } },
    { when: "one that is disabled", domain: { routing_target: "disabled" as const } },
    { when: "one that points elsewhere", domain: { dns_status: "not-pointing" as const } },
    { when: "one at which nobody has looked", domain: { dns_status: null } },
  ])("$when", async ({ domain }) => {
    await aDomain(database.db, "a.quiet.example", domain);
    await aRound();
    expect(await find("a.quiet.example")).toBeUndefined();
    expect(await database.db.selectFrom("work_item").selectAll().execute()).toEqual([]);
  });
});

test("what the CA refuses is told, and tried again later", async () => {
  // Nothing listens there.
  ca.dns.set("a.broken.example", { A: ["127.0.0.77"] });
  await using _replica = startReplica();
  await aDomain(database.db, "a.broken.example");
  const row = await until("a failure", async () => {
    const found = await find("a.broken.example");
    return found?.state === "failed" ? found : null;
  });
  expect(row.failure).not.toBe("");
  expect(row).toMatchObject({ failures: 1, ca_failures: 0, order_url: null, chain: null });
  expect(row.next_at.getTime()).toBeGreaterThan(row.since?.getTime() ?? 0);
});

test("what nobody wants any more is dropped in the middle", async () => {
  points("a.gone.example");
  edgesAnswer = false;
  await using _replica = startReplica();
  await aDomain(database.db, "a.gone.example");
  await until("its challenge", async () => (await find("a.gone.example"))?.state === "challenge_published");
  await database.db.updateTable("custom_domain").set({ routing_target: "disabled" }).execute();
  await until("the order to be dropped", async () => (await find("a.gone.example"))?.state === "none");
  expect((await find("a.gone.example"))?.order_url).toBeNull();
});

test("a renewal leaves the old certificate in place until the new one is there", async () => {
  points("a.again.example");
  await using _replica = startReplica();
  await aDomain(database.db, "a.again.example");
  const before = await isIssued("a.again.example");
  edgesAnswer = false;
  const now = systemClock.now();
  await database.db.updateTable("certificate").set({ renew_at: now, next_at: now }).execute();
  await aRound();
  const during = await until("the renewal to begin", async () => {
    const row = await find("a.again.example");
    return row?.state === "challenge_published" ? row : null;
  });
  expect(during.fingerprint).toBe(before.fingerprint);
  edgesAnswer = true;
  const after = await isIssued("a.again.example");
  expect(after.fingerprint).not.toBe(before.fingerprint);
  const orders = await database.db.selectFrom("acme_order").select(["is_renewal", "issued_at"]).orderBy("id").execute();
  expect(orders).toEqual([
    { is_renewal: false, issued_at: expect.any(Date) },
    { is_renewal: true, issued_at: expect.any(Date) },
  ]);
});

test("the end of a certificate that is not renewed is told while its name is wanted", async () => {
  await aDomain(database.db, "a.late.example");
  await aRound();
  const days = (count: number) => new Date(systemClock.now().getTime() + count * 86_400_000);
  const shown = { chain: "chain", key: Buffer.from("key"), fingerprint: "f", issuer: "https://ca.test/dir" };
  const end = (notAfter: Date) =>
    database.db
      .updateTable("certificate")
      .set({ ...shown, state: "issued", not_before: days(-80), not_after: notAfter, next_at: days(1) })
      .execute();
  await end(days(40));
  await aRound();
  expect(late).toEqual([]);
  await end(days(10));
  await aRound();
  expect(late).toEqual(["a.late.example"]);
  await database.db.deleteFrom("custom_domain").execute();
  await aRound();
  expect(late).toEqual([]);
});

test("a look at DNS that finds nothing new has nobody read all names again", async () => {
  const { db } = database;
  let told = 0;
  const { id } = await aDomain(db, "a.still.example", { status: "pending", dns_status: "direct" });
  using _heard = listener.on(certificateTopic, () => {
    told += 1;
  });
  /** Everything that was announced before this has been heard. */
  async function heard(): Promise<void> {
    let isHeard = false;
    using _mark = listener.on("svc_test_mark", () => {
      isHeard = true;
    });
    await until("a mark to be heard", async () => {
      await sql`select pg_notify('svc_test_mark', '')`.execute(db);
      return isHeard;
    });
  }
  const change = (values: { status: "pending" | "verified"; dns_status: "direct"; reason?: string }) =>
    db.updateTable("custom_domain").set(values).where("id", "=", id).execute();
  await heard();
  const before = told;
  await change({ status: "verified", dns_status: "direct" });
  await heard();
  expect(told - before).toBe(1);
  await change({ status: "verified", dns_status: "direct", reason: "looked at" });
  await heard();
  expect(told - before).toBe(1);
  await change({ status: "pending", dns_status: "direct" });
  await heard();
  expect(told - before).toBe(2);
});

test("somebody with many domains leaves room for others", async () => {
  const { db } = database;
  const { projectId } = await aDomain(db, "a.first.example");
  const many = Array.from({ length: 60 }, (_, index) => `shop-${index}.many-${index}.example`);
  for (const domain of many) await aDomain(db, domain, { project_id: projectId });
  await aDomain(db, "a.small.example");
  await aRound();
  const waiting = async () => (await db.selectFrom("work_item").select("key").execute()).map(({ key }) => key);
  const begun = await waiting();
  expect(begun.length).toBeLessThan(many.length);
  expect(begun).toContain("certificate/small.example");
  await aRound();
  expect((await waiting()).sort()).toEqual(begun.sort());
  // What is done makes room for the next ones.
  await db.deleteFrom("work_item").execute();
  await db
    .updateTable("certificate")
    .set({ next_at: new Date("2999-01-01") })
    .where("name", "in", many.slice(0, 40))
    .execute();
  await aRound();
  expect(await waiting()).toContain("certificate/many-59.example");
});

test("orders count for who has the domain, its twin's too, and renewals do not", async () => {
  const { db } = database;
  const { projectId } = await aDomain(db, "many.example");
  const { owner_id } = await db
    .selectFrom("project")
    .select("owner_id")
    .where("id", "=", projectId)
    .executeTakeFirstOrThrow();
  const at = systemClock.now();
  const placed = (name: string, is_renewal = false) =>
    db
      .insertInto("acme_order")
      .values({ name, is_renewal, at, directory: ca.directoryUrl, registered_domain: "many.example" })
      .execute();
  for (const name of ["many.example", "www.many.example", "nobodys.example"]) await placed(name);
  await placed("many.example", true);
  expect(await countPlaced(db, new Date(at.getTime() - 1_000))).toEqual(new Map([[owner_id, 2]]));
  expect(await countPlaced(db, at)).toEqual(new Map());
});

test("two replicas share one account and place one order for a name", async () => {
  points("a.two.example");
  await using _one = startReplica();
  await using _two = startReplica();
  await aDomain(database.db, "a.two.example");
  await isIssued("a.two.example");
  expect(await database.db.selectFrom("acme_order").select("name").execute()).toHaveLength(1);
  expect(await database.db.selectFrom("acme_account").select("directory").execute()).toHaveLength(1);
});

test("a CA that is away is the CA's fault, and one that lost its accounts gets them again", async () => {
  points("a.away.example");
  await ca.stop();
  await using _replica = startReplica();
  await aDomain(database.db, "a.away.example");
  expect(await hasFailed("a.away.example", "away")).toMatchObject({ failures: 1, ca_failures: 1 });
  await ca.start();
  const tryNow = async () => {
    const now = systemClock.now();
    await database.db.updateTable("certificate").set({ next_at: now }).execute();
    await aRound();
  };
  await tryNow();
  await hasFailed("a.away.example", "accountDoesNotExist");
  await tryNow();
  await isIssued("a.away.example");
});

test.each([
  { trouble: "away", retryAfterMs: null },
  { trouble: "limited", retryAfterMs: 1_000 },
] as const)("an order that was placed goes on when the CA was $trouble", async ({ trouble, retryAfterMs }) => {
  const name = `a.${trouble}-once.example`;
  points(name);
  troubled.with = new AcmeError(trouble, "not now", { retryAfterMs });
  await using _replica = startReplica();
  await aDomain(database.db, name);
  await until("the CA to be asked", () => troubled.times > 0);
  troubled.with = null;
  await isIssued(name);
  expect(await database.db.selectFrom("acme_order").select("name").execute()).toEqual([{ name }]);
});

test("after three failures of a CA the other one is asked", async () => {
  points("a.second.example");
  const [first] = directories;
  directories = ["https://127.0.0.1:9/dir", first];
  try {
    await using _replica = startReplica();
    await aDomain(database.db, "a.second.example");
    await hasFailed("a.second.example", "away");
    const now = systemClock.now();
    await database.db.updateTable("certificate").set({ ca_failures: 3, next_at: now }).execute();
    await aRound();
    expect((await isIssued("a.second.example")).issuer).toBe(first);
  } finally {
    directories = [first];
  }
});
