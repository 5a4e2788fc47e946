import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../../../stores/etcd/testing.ts";
import { type AcmeClient, createAcmeClient } from "./client.ts";
import { createRequest } from "./csr.ts";
import { createAccountKey, dnsValue, keyAuthorization, newKeyPem } from "./jws.ts";
import { readLeaf } from "./leaf.ts";
import { startCa, type TestCa } from "./testing.ts";

const key = createAccountKey();
const { signal } = new AbortController();
let ca: TestCa;
let client: AcmeClient;
let kid: string;
const answers = new Map<string, string>();
let site: Server;

beforeAll(async () => {
  ca = await startCa({ badNonces: 30 });
  site = createServer((request, response) => {
    const body = answers.get(request.url ?? "");
    response.writeHead(body === undefined ? 404 : 200).end(body ?? "");
  }).listen(ca.httpPort, "127.0.0.1");
  await once(site, "listening");
  client = clientOf(ca.directoryUrl);
  kid = await client.register("ops@shop.test", signal);
});
afterAll(async () => {
  site?.close();
  await ca?.[Symbol.asyncDispose]();
});

const clientOf = (directoryUrl: string, rootPem: string | null = ca.rootPem): AcmeClient =>
  createAcmeClient({ clock: systemClock, directoryUrl, rootPem, key, userAgent: "svc-test" });

async function challengeOf(type: string, authorizationUrl: string) {
  const authorization = await client.authorization(kid, authorizationUrl, signal);
  const challenge = authorization.challenges.find((each) => each.type === type);
  if (challenge?.token === undefined) throw new Error(`no challenge of ${type}`);
  return { ...challenge, token: challenge.token, answer: keyAuthorization(challenge.token, key.thumbprint) };
}

const isDone = (url: string) =>
  until("the authorization to be decided", async () => {
    const { status, challenges } = await client.authorization(kid, url, signal);
    return status === "pending" ? null : { status, challenges };
  });

async function finish(order: Awaited<ReturnType<AcmeClient["newOrder"]>>, name: string) {
  const keyPem = newKeyPem();
  await client.finalize(kid, order, await createRequest(keyPem, [name]), signal);
  const certificate = await until(
    "the certificate",
    async () => (await client.order(kid, order.url, signal)).certificate,
  );
  return readLeaf(await client.download(kid, certificate, signal), keyPem, name);
}

test("an account is found again by its key", async () => {
  expect(await clientOf(ca.directoryUrl).register(null, signal)).toBe(kid);
});

test("a host that answers over HTTP gets a certificate", async () => {
  ca.dns.set("shop.test", { A: ["127.0.0.1"] });
  const order = await client.newOrder(kid, { names: ["shop.test"] }, signal);
  const [url = ""] = order.authorizations;
  const challenge = await challengeOf("http-01", url);
  answers.set(`/.well-known/acme-challenge/${challenge.token}`, challenge.answer);
  await client.startChallenge(kid, challenge.url, signal);
  expect(await isDone(url)).toMatchObject({ status: "valid" });
  const leaf = await finish(order, "shop.test");
  expect(leaf.notAfter.getTime()).toBeGreaterThan(leaf.notBefore.getTime());
  expect(leaf.ariId).toMatch(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/);
});

test("a wildcard gets one by a record of DNS", async () => {
  const order = await client.newOrder(kid, { names: ["*.content.test"] }, signal);
  const [url = ""] = order.authorizations;
  const challenge = await challengeOf("dns-01", url);
  ca.dns.set("_acme-challenge.content.test", { TXT: [dnsValue(challenge.answer)] });
  await client.startChallenge(kid, challenge.url, signal);
  expect(await isDone(url)).toMatchObject({ status: "valid" });
  expect((await finish(order, "*.content.test")).ariId).not.toBeNull();
});

describe("what comes to nothing is told", () => {
  test("a challenge that nobody answers", async () => {
    ca.dns.set("silent.test", { A: ["127.0.0.1"] });
    const order = await client.newOrder(kid, { names: ["silent.test"] }, signal);
    const [url = ""] = order.authorizations;
    await client.startChallenge(kid, (await challengeOf("http-01", url)).url, signal);
    const { status, challenges } = await isDone(url);
    expect(status).toBe("invalid");
    expect(challenges.some(({ error }) => error !== undefined)).toBe(true);
    expect(await client.order(kid, order.url, signal)).toMatchObject({ status: "invalid" });
  });

  test("a name that is none", async () => {
    await expect(client.newOrder(kid, { names: ["a_b"] }, signal)).rejects.toMatchObject({ trouble: "refused" });
  });

  test("an account that the CA does not know", async () => {
    const unknown = kid.replace(/[^/]+$/, "unknown");
    await expect(client.newOrder(unknown, { names: ["a.test"] }, signal)).rejects.toMatchObject({
      problem: { type: "accountDoesNotExist" },
    });
  });

  test("a CA that is away, and one that nobody vouches for", async () => {
    await expect(clientOf("https://127.0.0.1:9/dir").directory(signal)).rejects.toMatchObject({ trouble: "away" });
    await expect(clientOf(ca.directoryUrl, null).directory(signal)).rejects.toMatchObject({ trouble: "away" });
    await expect(clientOf(ca.directoryUrl.replace("https", "http")).directory(signal)).rejects.toMatchObject({
      trouble: "nonsense",
    });
  });
});

test("when to renew is known only from a CA that says so", async () => {
  expect(await client.renewalInfo("AAAA.AQ", signal)).toBeNull();
});
