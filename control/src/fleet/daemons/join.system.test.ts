import { createHash, X509Certificate } from "node:crypto";
import { connect as tlsConnect } from "node:tls";
import { Code, ConnectError } from "@connectrpc/connect";
import { identityOfAltName } from "@svc/proto/daemon-identity";
import { DaemonRole } from "@svc/proto/node";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { aCertificateRequest } from "../ca/testing.ts";
import { createBootstrapToken, revokeBootstrapToken } from "../nodes/tokens.ts";
import type { Link } from "./start.ts";
import { anAgent, aWorld, connect, type World } from "./testing.ts";

let world: World;
let link: Link;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const aToken = ({ ttlSeconds = 60, caSha256 = world.authority.caSha256 } = {}) =>
  createBootstrapToken(world.database.db, {
    ...{ role: "node", ttlSeconds, caSha256, createdBy: null, now: new Date() },
    clusterId: world.authority.clusterId,
  });

async function join(token: string, csr: Buffer, proposedName = "web") {
  using connection = connect(link.enrollPort, { ca: world.authority.caCertificate });
  return await connection.enrollment.join({ token, csr: Uint8Array.from(csr), proposedName });
}

const codeOf = (error: unknown) => ConnectError.from(error).code;

/** The certificates that the enrolment port presents to somebody who trusts nobody yet. */
async function presentedChain(): Promise<Buffer[]> {
  const socket = tlsConnect({
    host: "127.0.0.1",
    port: link.enrollPort,
    servername: "control.svc.internal",
    rejectUnauthorized: false,
  });
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  const leaf = socket.getPeerCertificate(true);
  socket.destroy();
  return [leaf.raw, leaf.issuerCertificate.raw];
}

describe("joining", () => {
  test("presents the authority that the token names", async () => {
    const [leaf = Buffer.alloc(0), authority = Buffer.alloc(0)] = await presentedChain();
    expect(createHash("sha256").update(authority).digest("hex")).toBe(world.authority.caSha256);
    expect(new X509Certificate(leaf).checkHost("control.svc.internal")).toBe("control.svc.internal");
  });

  test("gives an identity with which a session opens", async () => {
    const { token } = await aToken();
    const { der, privateKeyPem } = await aCertificateRequest({ subject: "CN=root" });
    const joined = await join(token, der, "Rack 1");
    expect(joined).toMatchObject({
      name: "rack-1",
      role: DaemonRole.NODE,
      clusterId: world.authority.clusterId,
      incarnation: 1n,
    });
    const certificate = new X509Certificate(joined.certificateChain);
    expect(identityOfAltName(certificate.subjectAltName)).toMatchObject({ id: joined.id, role: "node" });
    const { id, name, ca } = joined;
    await using agent = await anAgent(link, {
      ...{ id, name, ca },
      certificate: joined.certificateChain,
      privateKey: privateKeyPem,
      address: "127.0.0.1",
    });
    expect(agent.sessionEpoch).toBeGreaterThan(0n);
  });

  test("again after a lost reply gives the same identity", async () => {
    const { token } = await aToken();
    const { der } = await aCertificateRequest();
    const first = await join(token, der);
    const second = await join(token, der);
    expect([second.id, second.name, second.incarnation]).toEqual([first.id, first.name, first.incarnation]);
  });
});

describe("joining is refused", () => {
  test("with a token that another daemon used", async () => {
    const { token } = await aToken();
    await join(token, (await aCertificateRequest()).der);
    const error = await join(token, (await aCertificateRequest()).der).catch((reason: unknown) => reason);
    expect(codeOf(error)).toBe(Code.PermissionDenied);
    expect(String(error)).toContain("used by another daemon");
  });

  test.each([
    {
      when: "it was revoked",
      says: "revoked",
      token: async () => {
        const { id, token } = await aToken();
        await revokeBootstrapToken(world.database.db, id, new Date());
        return token;
      },
    },
    { when: "it has ended", says: "ended", token: async () => (await aToken({ ttlSeconds: -1 })).token },
    {
      when: "it names another authority",
      says: "does not have any more; make a new token",
      token: async () => (await aToken({ caSha256: "0".repeat(64) })).token,
    },
    { when: "it is none", says: "not one of this cluster", token: async () => "hello" },
  ])("with a token when $when", async ({ says, token }) => {
    const error = await join(await token(), (await aCertificateRequest()).der).catch((reason: unknown) => reason);
    expect(codeOf(error)).toBe(Code.PermissionDenied);
    expect(String(error)).toContain(says);
  });

  test("without a word of the token in the log, whatever it looks like", async () => {
    const lines: string[] = [];
    const log = pino({ level: "trace" }, { write: (line) => void lines.push(line) });
    await using replica = await world.startLink({ log });
    const used = await aToken();
    using connection = connect(replica.enrollPort, { ca: world.authority.caCertificate });
    const tryWith = async (token: string) => {
      const csr = Uint8Array.from((await aCertificateRequest()).der);
      await connection.enrollment.join({ token, csr, proposedName: "web" }).catch(() => {});
    };
    const secret = used.token.slice(-32);
    // Also one that lost its beginning when it was copied.
    const cut = used.token.slice("svcn1.".length);
    for (const token of [used.token, used.token, cut, `a.b.c.${secret}`, secret]) await tryWith(token);
    const text = lines.join("");
    expect(text).toContain(used.id);
    expect(text).toContain("a daemon was not admitted");
    expect(text).not.toContain(secret.slice(0, 12));
  });

  test("with a request that is none", async () => {
    const { token } = await aToken();
    const error = await join(token, Buffer.from("hello")).catch((reason: unknown) => reason);
    expect(codeOf(error)).toBe(Code.InvalidArgument);
    // The token was not used up by it.
    expect((await join(token, (await aCertificateRequest()).der)).role).toBe(DaemonRole.NODE);
  });

  test("at too high a rate", async () => {
    // On one connection, since handshakes would space them out.
    using connection = connect(link.enrollPort, { ca: world.authority.caCertificate });
    const call = () => connection.enrollment.join({ token: "hello", csr: Uint8Array.from(Buffer.from("hello")) });
    const results = await Promise.allSettled(Array.from({ length: 90 }, call));
    const codes = new Set(results.map((result) => (result.status === "rejected" ? codeOf(result.reason) : null)));
    expect(codes).toContain(Code.ResourceExhausted);
  });

  test("on the link port", async () => {
    using connection = connect(link.linkPort, { ca: world.authority.caCertificate });
    await expect(connection.enrollment.join({ token: "hello" })).rejects.toThrow();
  });
});
