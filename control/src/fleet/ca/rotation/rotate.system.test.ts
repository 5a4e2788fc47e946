import { X509Certificate } from "node:crypto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../../../stores/db/testing.ts";
import { createSecrets } from "../../../stores/secrets.ts";
import { enroll } from "../../nodes/enroll.ts";
import { createBootstrapToken } from "../../nodes/tokens.ts";
import { type Authority, openAuthority } from "../authority.ts";
import { readRequest } from "../certificates.ts";
import { noteTrust } from "../store.ts";
import { aCertificateRequest } from "../testing.ts";
import { trustOf, trustOfSubject } from "../trust.ts";
import { rotationReport } from "./report.ts";
import { finishRotation, RotationUnderWay, readRotation, startRotation } from "./rotate.ts";

const now = new Date("2030-01-01T12:00:00Z");
const later = (days: number) => new Date(now.getTime() + days * 86_400_000);
const secrets = createSecrets([Buffer.alloc(32, 7)]);

let database: TestDatabase;
let authority: Authority;
beforeEach(async () => {
  database = await testDatabase();
  authority = await openAuthority(database.db, secrets, {
    clock: { ...systemClock, now: () => now },
    random: systemRandom,
  });
});
afterEach(() => database[Symbol.asyncDispose]());

const rotate = () => database.db.transaction().execute((tx) => startRotation(tx, { secrets, now }));
const finish = (at = now) => finishRotation(database.db, at);
const heldUpBy = async () => (await readRotation(database.db, now))?.rotation?.heldUpBy.map(({ name }) => name);

const aToken = () => {
  const { clusterId, caSha256 } = authority;
  return createBootstrapToken(database.db, {
    ...{ role: "node", ttlSeconds: 600, createdBy: null, clusterId, caSha256, now },
  });
};
async function join(token: string, name: string) {
  const key = await readRequest((await aCertificateRequest()).der);
  return enroll(database.db, authority, { token, key, proposedName: name, address: "" }, now);
}
/** A daemon that has joined and presented its certificate, as its session tells. */
async function aDaemon(name: string) {
  const joined = await join((await aToken()).token, name);
  if ("refused" in joined) throw new Error(joined.refused);
  await present(joined);
  return joined;
}
const trustIn = (certificate: string) => trustOfSubject(new X509Certificate(certificate).subject);
const present = ({ id, certificate }: { id: string; certificate: string }) =>
  noteTrust(database.db, [{ id, trust: trustIn(certificate) }]);
/** As RenewCertificate does. */
async function renew({ id }: { id: string }) {
  const key = await readRequest((await aCertificateRequest()).der);
  return database.db.transaction().execute(async (tx) => {
    const issuer = await authority.lock(tx);
    return { id, ...(await issuer.issueDaemon({ role: "node", id, incarnation: 1 }, key, now)) };
  });
}

describe("a rotation", () => {
  test("signs with a new authority at once, whatever a replica still has in memory", async () => {
    const before = authority.caCertificate;
    await rotate();
    expect(authority.caCertificate).toBe(before);
    const issued = await renew(await aDaemon("one"));
    const next = (await readRotation(database.db, now))?.caCertificate ?? "";
    expect(next).not.toBe(before);
    expect(new X509Certificate(issued.certificate).verify(new X509Certificate(next).publicKey)).toBe(true);
    expect(trustIn(issued.certificate)).toBe(trustOf([before, next]));
    expect(await authority.refresh()).toBe(true);
    expect(await authority.refresh()).toBe(false);
    expect(authority.caCertificate).toBe(next);
    expect(authority.trusted).toBe(`${next.trim()}\n${before.trim()}\n`);
  });

  test("keeps no key of the authority before, and the new one sealed", async () => {
    const before = await database.db.selectFrom("cluster").selectAll().executeTakeFirstOrThrow();
    await rotate();
    const after = await database.db.selectFrom("cluster").selectAll().executeTakeFirstOrThrow();
    expect(after.ca_key.equals(before.ca_key)).toBe(false);
    expect(JSON.stringify(after)).not.toContain("PRIVATE KEY");
    expect(after.ca_key.includes(Buffer.from("PRIVATE KEY"))).toBe(false);
  });

  test("does not begin twice, also when two begin at once", async () => {
    const results = await Promise.allSettled([rotate(), rotate(), rotate()]);
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const result of results) {
      if (result.status === "rejected") expect(result.reason).toBeInstanceOf(RotationUnderWay);
    }
  });

  test("ends when every daemon has presented a certificate of the new authority, and not when it was issued one", async () => {
    const daemons = [await aDaemon("a"), await aDaemon("b"), await aDaemon("c")];
    await rotate();
    const renewed = await Promise.all(daemons.map(renew));
    expect(await finish()).toBe(false);
    expect(await heldUpBy()).toEqual(["a", "b", "c"]);
    for (const each of renewed.slice(0, 2)) await present(each);
    expect(await finish()).toBe(false);
    expect(await heldUpBy()).toEqual(["c"]);
    const state = await readRotation(database.db, now);
    expect(state === null ? [] : rotationReport(state).join("\n")).toContain("c (node");
    for (const each of renewed.slice(2)) await present(each);
    expect((await Promise.all([finish(), finish()])).filter(Boolean)).toHaveLength(1);
    expect(await readRotation(database.db, now)).toMatchObject({ rotation: null, finishedAt: now });
    await authority.refresh();
    expect(authority.trusted.trim()).toBe(authority.caCertificate.trim());
    const lines = await database.db.selectFrom("audit").select("action").where("action", "like", "ca.%").execute();
    expect(lines).toEqual([{ action: "ca.rotation-finish" }]);
    // And may begin again.
    expect(await rotate()).not.toBeNull();
  });

  test.each([
    { when: "is fenced", lifecycle: "fenced" as const, at: now },
    { when: "is removed", lifecycle: "removed" as const, at: now },
    { when: "has a certificate that is over", lifecycle: "active" as const, at: later(31) },
  ])("does not wait for a daemon that $when", async ({ lifecycle, at }) => {
    const { id } = await aDaemon("gone");
    await rotate();
    expect(await finish()).toBe(false);
    await database.db.updateTable("node").set({ lifecycle }).where("id", "=", id).execute();
    expect(await finish(at)).toBe(true);
  });

  test("admits daemons with tokens of both authorities, and waits for the one that knows only the older", async () => {
    const older = await aToken();
    await rotate();
    await authority.refresh();
    const [first, second] = [await join(older.token, "older"), await join((await aToken()).token, "newer")];
    for (const joined of [first, second]) if ("id" in joined) await present(joined);
    expect(await heldUpBy()).toEqual(["older"]);
    if ("refused" in first) throw new Error(first.refused);
    await present(await renew(first));
    expect(await finish()).toBe(true);
  });

  test("leaves no use for an unused token of the authority before", async () => {
    const older = await aToken();
    await rotate();
    expect(await finish()).toBe(true);
    expect(await join(older.token, "late")).toEqual({ refused: "authority" });
    expect(await join(older.token.replace(/[0-9a-f]{32}$/, "0".repeat(32)), "thief")).toEqual({ refused: "unknown" });
  });

  test("has nothing to replace before the first start", async () => {
    await using empty = await testDatabase();
    expect(await empty.db.transaction().execute((tx) => startRotation(tx, { secrets, now }))).toBeNull();
    expect(await readRotation(empty.db, now)).toBeNull();
    expect(await finishRotation(empty.db, now)).toBe(false);
  });
});
