import { X509Certificate } from "node:crypto";
import { identityOfAltName } from "@svc/proto/daemon-identity";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import { createSecrets } from "../../stores/secrets.ts";
import { type Authority, openAuthority } from "../ca/authority.ts";
import { readRequest } from "../ca/certificates.ts";
import { aCertificateRequest } from "../ca/testing.ts";
import { findIdentity } from "../sessions/identity.ts";
import { type Enrolled, enroll } from "./enroll.ts";
import { findNodeRow, listNodeRows, rollCall } from "./store.ts";
import { createBootstrapToken, revokeBootstrapToken } from "./tokens.ts";

const now = new Date("2030-01-01T12:00:00Z");
const origin = { clock: { ...systemClock, now: () => now }, random: systemRandom };
const later = (ms: number) => new Date(now.getTime() + ms);
const secrets = createSecrets([Buffer.alloc(32, 7)]);

let database: TestDatabase;
let authority: Authority;
beforeAll(async () => {
  database = await testDatabase();
  authority = await openAuthority(database.db, secrets, origin);
});
afterAll(() => database[Symbol.asyncDispose]());

const aToken = (options: { role?: "node" | "edge"; ttlSeconds?: number } = {}) =>
  createBootstrapToken(database.db, {
    role: "node",
    ttlSeconds: 600,
    createdBy: null,
    clusterId: authority.clusterId,
    caSha256: authority.caSha256,
    now,
    ...options,
  });
const aKey = async () => readRequest((await aCertificateRequest()).der);
const join = (token: string, key: Awaited<ReturnType<typeof aKey>>, at = now, proposedName = "web") =>
  enroll(database.db, authority, { token, key, proposedName, address: "198.51.100.7" }, at);

function admitted(result: Enrolled | { refused: string }): Enrolled {
  if ("refused" in result) throw new Error(`refused: ${result.refused}`);
  return result;
}

describe("the authority", () => {
  test("is the same for every replica, also when they start at once", async () => {
    await using empty = await testDatabase();
    const opened = await Promise.all([1, 2, 3].map(() => openAuthority(empty.db, secrets, origin)));
    expect(new Set(opened.map(({ caSha256 }) => caSha256)).size).toBe(1);
    expect(new Set(opened.map(({ clusterId }) => clusterId)).size).toBe(1);
  });

  test("keeps its key sealed", async () => {
    const row = await database.db.selectFrom("cluster").selectAll().executeTakeFirstOrThrow();
    expect(row.ca_key.includes(Buffer.from("PRIVATE KEY"))).toBe(false);
    const stranger = createSecrets([Buffer.alloc(32, 8)]);
    await expect(openAuthority(database.db, stranger, origin)).rejects.toThrow();
  });
});

describe("enrolment", () => {
  test("gives the identity that control decided", async () => {
    const { token } = await aToken();
    const key = await aKey();
    const joined = admitted(await join(token, key, now, "Rack 7"));
    expect(joined).toMatchObject({ name: "rack-7", role: "node", incarnation: 1, again: false });
    const certificate = new X509Certificate(joined.certificate);
    expect(certificate.checkIssued(new X509Certificate(authority.caCertificate))).toBe(true);
    expect(identityOfAltName(certificate.subjectAltName)).toEqual({
      clusterId: authority.clusterId,
      role: "node",
      id: joined.id,
      incarnation: 1,
    });
    const row = await findNodeRow(database.db, joined.id);
    expect(row?.certificate_expires_at?.getTime()).toBe(new Date(certificate.validTo).getTime());
  });

  test("repeats its answer for the same token and key", async () => {
    const { token } = await aToken({ role: "edge" });
    const key = await aKey();
    const first = admitted(await join(token, key));
    const second = admitted(await join(token, key));
    expect(second).toMatchObject({ id: first.id, name: first.name, role: "edge", incarnation: 1, again: true });
  });

  test("admits one of many that try the same token at once", async () => {
    const { id, token } = await aToken();
    const keys = await Promise.all(Array.from({ length: 5 }, aKey));
    const results = await Promise.all(keys.map((key) => join(token, key, now, "racer")));
    expect(results.filter((result) => "id" in result)).toHaveLength(1);
    expect(results.filter((result) => "refused" in result && result.refused === "used")).toHaveLength(4);
    // One line for all of them tells administrators that somebody else has it too, and from where.
    const lines = await database.db.selectFrom("audit").selectAll().where("target", "=", id).execute();
    expect(lines.map(({ action, address, user_id }) => ({ action, address, user_id }))).toEqual([
      { action: "bootstrap-token.reuse", address: "198.51.100.7", user_id: null },
    ]);
    expect(JSON.stringify(lines)).not.toContain(token.slice(-32));
    await join(token, await aKey(), later(3_700_000));
    expect(await database.db.selectFrom("audit").select("id").where("target", "=", id).execute()).toHaveLength(2);
  });

  test("gives different names to daemons that wish for the same", async () => {
    const names: string[] = [];
    for (let i = 0; i < 3; i += 1)
      names.push(admitted(await join((await aToken()).token, await aKey(), now, "same")).name);
    expect(names).toEqual(["same", "same-2", "same-3"]);
    const leave = (lifecycle: "fenced" | "removed", name: string) =>
      database.db.updateTable("node").set({ lifecycle }).where("name", "=", name).execute();
    // One that is fenced is still shown; one that was removed has given its name back.
    await Promise.all([leave("fenced", "same"), leave("removed", "same-2")]);
    expect(admitted(await join((await aToken()).token, await aKey(), now, "same")).name).toBe("same-2");
  });

  test.each([
    {
      when: "the token was revoked",
      refused: "revoked",
      token: async () => {
        const made = await aToken();
        expect(await revokeBootstrapToken(database.db, made.id, now)).toEqual({ node: null });
        return made.token;
      },
    },
    { when: "the token ended", refused: "expired", token: async () => (await aToken({ ttlSeconds: 1 })).token },
    {
      when: "the token names another authority",
      refused: "authority",
      token: async () => (await aToken()).token.replace(authority.caSha256, "0".repeat(64)),
    },
    {
      when: "the secret is wrong",
      refused: "unknown",
      token: async () => (await aToken()).token.replace(/[0-9a-f]{32}$/, "0".repeat(32)),
    },
    { when: "the token is no token", refused: "unknown", token: async () => "svcn1.nothing" },
  ])("is refused when $when", async ({ refused, token }) => {
    const before = await listNodeRows(database.db);
    expect(await join(await token(), await aKey(), later(5_000))).toEqual({ refused });
    expect(await listNodeRows(database.db)).toHaveLength(before.length);
  });

  test("does not answer again for a daemon that was fenced", async () => {
    const { token } = await aToken();
    const key = await aKey();
    const { id } = admitted(await join(token, key));
    await database.db.updateTable("node").set({ lifecycle: "fenced", incarnation: 2 }).where("id", "=", id).execute();
    expect(await join(token, key)).toEqual({ refused: "fenced" });
  });

  test("revoking an unknown token says so", async () => {
    expect(await revokeBootstrapToken(database.db, "0".repeat(16), now)).toBeNull();
  });
});

describe("the fleet", () => {
  test("answers the roll call only for identities that still may speak", async () => {
    const kept = admitted(await join((await aToken()).token, await aKey()));
    const gone = admitted(await join((await aToken()).token, await aKey()));
    await database.db.updateTable("node").set({ lifecycle: "removed" }).where("id", "=", gone.id).execute();
    const heard = [
      { id: kept.id, incarnation: 1 },
      { id: gone.id, incarnation: 1 },
    ];
    expect(await rollCall(database.db, heard, later(1_000))).toEqual(new Set([kept.id]));
    expect((await findNodeRow(database.db, kept.id))?.last_seen_at).toEqual(later(1_000));
    expect(await rollCall(database.db, [{ id: kept.id, incarnation: 9 }], now)).toEqual(new Set());
    expect(await findIdentity(database.db, gone.id)).toMatchObject({ lifecycle: "removed" });
  });
});
