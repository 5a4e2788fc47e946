import { systemClock } from "@svc/runtime/system";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSecrets } from "../../stores/secrets.ts";
import { areEdgesAnswering } from "../certificates/answering.ts";
import { type CertificateFeed, startCertificateFeed } from "../certificates/feed.ts";
import { keyAad } from "../certificates/store.ts";
import { aDomain } from "../certificates/testing.ts";
import { type EdgeAppliedValue, keys } from "../cluster/keys.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, aRouter, aWorld, type DaemonFiles, until, type World } from "../daemons/testing.ts";

const secrets = createSecrets([Buffer.alloc(32, 1)]);
const now = new Date("2030-01-01T00:00:00Z");
let world: World;
let feed: CertificateFeed;
let link: Link;
let edge: DaemonFiles;
beforeAll(async () => {
  world = await aWorld();
  const { listener } = world;
  const log = pino({ level: "silent" });
  feed = startCertificateFeed({ clock: systemClock, db: world.database.db, secrets, listener, wildcard: null, log });
  link = await world.startLink({ certificates: feed });
  edge = await aDaemon(world, link, "edge");
});
afterAll(async () => {
  await link?.[Symbol.asyncDispose]();
  await feed?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

async function hold(name: string, fingerprint = "f1", sealedBy = secrets): Promise<void> {
  const about = {
    state: "issued" as const,
    since: now,
    next_at: now,
    not_before: now,
    not_after: now,
    issuer: "https://ca.test",
  };
  const shown = {
    chain: `chain ${fingerprint}`,
    fingerprint,
    key: sealedBy.seal(Buffer.from(`key ${name}`), keyAad(name)),
  };
  await world.database.db
    .insertInto("certificate")
    .values({ name, registered_domain: name, ...about, ...shown })
    .onConflict((conflict) => conflict.column("name").doUpdateSet(shown))
    .execute();
}
const appliedNow = () => world.read<EdgeAppliedValue>(keys.edgeApplied(edge.id));
const named = (certificates: readonly { name: string }[]) => certificates.map(({ name }) => name);

test("a router is told all certificates of wanted names first, then what changes, and never what is not wanted", async () => {
  const { db } = world.database;
  const { id } = await aDomain(db, "a.shop.example");
  await hold("a.shop.example");
  await hold("nobodys.example");
  await until("control to have read them", async () => feed.current()?.certificates.has("a.shop.example"));
  await using router = await aRouter(link, edge, { knowsCertificates: true });
  const held = (number: bigint) => router.send({ case: "certificatesHeld", value: { number } });
  // Without any challenge this is said too: what was answered before is not to be any more.
  const none = await router.next("challenges");
  expect(none.challenges).toEqual([]);
  held(none.number);
  const first = await router.next("certificates");
  expect(first).toMatchObject({ first: true, more: false, removedNames: [] });
  expect(first.upserts).toMatchObject([
    { name: "a.shop.example", chain: "chain f1", privateKey: "key a.shop.example" },
  ]);
  held(first.number);

  await hold("a.shop.example", "f2");
  const second = await router.next("certificates");
  expect(second).toMatchObject({ first: false, upserts: [{ chain: "chain f2" }] });
  held(second.number);

  // Where records lead is looked at from one place and once a day: visitors who do come are not to lose TLS by that.
  await db.updateTable("custom_domain").set({ dns_status: "not-pointing" }).where("id", "=", id).execute();
  await hold("a.shop.example", "f3");
  const led = await router.next("certificates");
  expect(led).toMatchObject({ upserts: [{ chain: "chain f3" }], removedNames: [] });
  held(led.number);

  await db.updateTable("custom_domain").set({ routing_target: "disabled" }).where("id", "=", id).execute();
  const third = await router.next("certificates");
  expect(third).toMatchObject({ upserts: [], removedNames: ["a.shop.example"] });
  held(third.number);

  await db.updateTable("custom_domain").set({ routing_target: "production" }).where("id", "=", id).execute();
  const fourth = await router.next("certificates");
  expect(named(fourth.upserts)).toEqual(["a.shop.example"]);
  held(fourth.number);
  await db.deleteFrom("custom_domain").where("id", "=", id).execute();
  expect((await router.next("certificates")).removedNames).toEqual(["a.shop.example"]);
});

test("a router is told the name of a certificate whose key control cannot open: without it, it would remove its own", async () => {
  const { db } = world.database;
  const { id } = await aDomain(db, "a.locked.example");
  await hold("a.locked.example", "f1", createSecrets([Buffer.alloc(32, 2)]));
  await until("control to have read it", async () => feed.current()?.certificates.has("a.locked.example"));
  await using router = await aRouter(link, edge, { knowsCertificates: true });
  const { number } = await router.next("challenges");
  router.send({ case: "certificatesHeld", value: { number } });
  expect(await router.next("certificates")).toMatchObject({
    ...{ first: true, more: false, removedNames: [] },
    upserts: [{ name: "a.locked.example", chain: "", privateKey: "" }],
  });
  await db.deleteFrom("custom_domain").where("id", "=", id).execute();
});

test("the CA may look once every edge in rotation has said that it answers", async () => {
  const { db } = world.database;
  const applied = new Map<string, EdgeAppliedValue>();
  const areAnswering = areEdgesAnswering(db, (id) => applied.get(id) ?? null);
  const token = "token-of-16-letters";
  await using router = await aRouter(link, edge, { knowsCertificates: true });
  await db
    .insertInto("acme_challenge")
    .values({ token, name: "b.shop.example", kind: "http-01", answer: `${token}.x` })
    .execute();
  await db
    .insertInto("acme_challenge")
    .values({ token: "of-dns", name: "*.x.example", kind: "dns-01", answer: "x" })
    .execute();
  let told = await router.next("challenges");
  while (told.challenges.length === 0) {
    router.send({ case: "certificatesHeld", value: { number: told.number } });
    const all = await router.next("certificates");
    router.send({ case: "certificatesHeld", value: { number: all.number } });
    told = await router.next("challenges");
  }
  expect(told.challenges).toMatchObject([{ host: "b.shop.example", token, answer: `${token}.x` }]);
  expect(await areAnswering(token)).toBe(false);
  router.send({ case: "certificatesHeld", value: { number: told.number, tokens: [token] } });
  const value = await until("the answer to be known", async () => {
    const now = await appliedNow();
    return now?.challenges?.includes(token) ? now : null;
  });
  applied.set(edge.id, value);
  await db.updateTable("node").set({ last_seen_at: now, entering: false }).where("id", "=", edge.id).execute();
  expect(await areAnswering(token)).toBe(true);

  const other = await aDaemon(world, link, "edge");
  await db.updateTable("node").set({ last_seen_at: now, entering: false }).where("id", "=", other.id).execute();
  expect(await areAnswering(token)).toBe(false);
  await db.updateTable("node").set({ schedulable: false }).where("id", "=", other.id).execute();
  expect(await areAnswering(token)).toBe(true);
});

test("a certificate that a router does not take holds up nothing, is named, and goes when its name does", async () => {
  const { db } = world.database;
  const { id } = await aDomain(db, "a.swapped.example");
  await hold("a.swapped.example");
  await until("control to have read it", async () => feed.current()?.certificates.has("a.swapped.example"));
  await using router = await aRouter(link, edge, { knowsCertificates: true });
  const held = (number: bigint, error = "") => router.send({ case: "certificatesHeld", value: { number, error } });
  held((await router.next("challenges")).number);
  const first = await router.next("certificates");
  expect(named(first.upserts)).toEqual(["a.swapped.example"]);
  held(first.number, "a.swapped.example: the key is another one's");
  await until("the problem to be known", async () =>
    (await appliedNow())?.certificateProblem?.includes("another one's"),
  );

  await aDomain(db, "a.next.example");
  await hold("a.next.example");
  const second = await router.next("certificates");
  expect(named(second.upserts)).toEqual(["a.next.example"]);
  held(second.number);
  await db.deleteFrom("custom_domain").where("id", "=", id).execute();
  const third = await router.next("certificates");
  expect(third).toMatchObject({ upserts: [], removedNames: ["a.swapped.example"] });
  held(third.number);
  await until("the problem to be over", async () => (await appliedNow())?.certificateProblem === null);
});

test("a challenge that an edge's Caddy did not give is told again", async () => {
  const { db } = world.database;
  const token = "token-of-a-slow-caddy";
  await db.deleteFrom("acme_challenge").execute();
  await db
    .insertInto("acme_challenge")
    .values({ token, name: "c.shop.example", kind: "http-01", answer: `${token}.x` })
    .execute();
  await until("control to have read it", async () => feed.current()?.challenges.some((each) => each.token === token));
  await using router = await aRouter(link, edge, { knowsCertificates: true });
  const first = await router.next("challenges");
  router.send({ case: "certificatesHeld", value: { number: first.number, tokens: [] } });
  const all = await router.next("certificates");
  router.send({ case: "certificatesHeld", value: { number: all.number } });
  expect((await router.next("challenges")).challenges).toMatchObject([{ token }]);
});

test("a router of the version before is told nothing of certificates", async () => {
  await using router = await aRouter(link, edge);
  router.send({ case: "renew", value: { n: 1n } });
  await router.next("renewAck");
  expect([router.waiting("certificates"), router.waiting("challenges")]).toEqual([0, 0]);
});
