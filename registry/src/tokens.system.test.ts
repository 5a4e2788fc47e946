import { randomBytes } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createRegistry, type Registry } from "./registry.ts";
import { type RegistryProcess, startDockerRegistry } from "./testing/docker-registry.ts";
import { startProxy } from "./testing/proxy.ts";
import { aTokenKey } from "./testing/token-key.ts";
import { type Access, createTokenSigner, type TokenSigner } from "./tokens.ts";
import type { TokenSource } from "./transport.ts";

const repository = "svc/p1/app";
const other = "svc/p2/app";
const content = randomBytes(1000);

let server: RegistryProcess;
let sign: TokenSigner;
/** As control is: whatever is asked is granted. */
let master: Registry;
let digest: string;
let otherDigest: string;
beforeAll(async () => {
  const key = await aTokenKey();
  server = await startDockerRegistry({ tokenCertificate: key.certificate });
  sign = createTokenSigner(systemRandom, key, new Date());
  master = client(async (access) => sign("test", access, new Date()));
  ({ digest } = await master.pushArtifact(repository, { kind: "source", stream: content }));
  ({ digest: otherDigest } = await master.pushArtifact(other, { kind: "source", stream: content }));
});
afterAll(async () => {
  await master.close();
  await server[Symbol.asyncDispose]();
});

const client = (tokens: TokenSource): Registry => createRegistry(systemClock, { url: server.url, tokens });
/** A client that shows the same token whatever it does: a thief's. */
const holderOf = (...access: Access[]): Registry => client(async () => sign("thief", access, new Date()));
const pullOf = (name: string): Access => ({ type: "repository", name, actions: ["pull"] });
const pushOf = (name: string): Access => ({ type: "repository", name, actions: ["pull", "push"] });
const refused = { code: "ARTIFACT_REGISTRY_UNAVAILABLE", status: 401 };

async function statusOf(method: string, path: string, token: string | null): Promise<number> {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const reply = await fetch(new URL(path, server.url), { method, headers });
  await reply.arrayBuffer();
  return reply.status;
}

describe("a registry that goes by tokens", () => {
  test.each(["/v2/", "/v2/_catalog", `/v2/${repository}/tags/list`])("gives nobody %s without one", async (path) => {
    expect(await statusOf("GET", path, null)).toBe(401);
  });

  test("lets the holder of one read the repository that it names, and nothing else", async () => {
    await using holder = holderOf(pullOf(repository));
    const archive = await holder.pullArtifact(repository, digest, { maxSizeBytes: 10_000 });
    expect((await buffer(archive)).equals(content)).toBe(true);
    await expect(holder.getManifest(other, otherDigest)).rejects.toMatchObject(refused);
    await expect(holder.pushBlob(repository, randomBytes(10))).rejects.toMatchObject(refused);
    await expect(holder.deleteManifest(repository, digest)).rejects.toMatchObject(refused);
    const { token } = sign("thief", [pullOf(repository)], new Date());
    expect(await statusOf("GET", "/v2/_catalog", token)).toBe(401);
  });

  test("lets the holder of one write to the repository that it names, and nowhere else, and delete nothing", async () => {
    await using holder = holderOf(pushOf("svc/p1/bundle"));
    await holder.pushArtifact("svc/p1/bundle", { kind: "bundle", stream: randomBytes(100) });
    await expect(holder.pushBlob(repository, randomBytes(10))).rejects.toMatchObject(refused);
    const { digest: own } = await holder.pushArtifact("svc/p1/bundle", { kind: "bundle", stream: randomBytes(100) });
    await expect(holder.deleteManifest("svc/p1/bundle", own)).rejects.toMatchObject(refused);
    // Not even by its digest does it get at what another repository has.
    const { layerDigest } = await master.pushArtifact(other, { kind: "source", stream: randomBytes(500) });
    await expect(holder.mountBlob("svc/p1/bundle", layerDigest, other)).rejects.toMatchObject(refused);
    expect(await holder.hasBlob("svc/p1/bundle", layerDigest)).toBe(false);
  });

  test("lets whoever may read both repositories mount from one into the other", async () => {
    const { layerDigest } = await master.pushArtifact(other, { kind: "source", stream: randomBytes(500) });
    expect(await master.mountBlob(repository, layerDigest, other)).toBe(true);
  });

  test.each([
    { what: "is over", of: (key: TokenSigner) => key("late", [], new Date(Date.now() - 3600_000)) },
    { what: "is not yet", of: (key: TokenSigner) => key("early", [], new Date(Date.now() + 3600_000)) },
  ])("refuses one that $what", async ({ of }) => {
    expect(await statusOf("GET", "/v2/", sign("now", [], new Date()).token)).toBe(200);
    expect(await statusOf("GET", "/v2/", of(sign).token)).toBe(401);
  });

  test("refuses one by another key, also when its certificate says the same", async () => {
    const forged = createTokenSigner(systemRandom, await aTokenKey(), new Date());
    expect(await statusOf("GET", "/v2/", forged("thief", [], new Date()).token)).toBe(401);
  });
});

describe("a client with a source of tokens", () => {
  test("asks for what each call needs, and once for calls alike", async () => {
    const asked: string[] = [];
    await using careful = client(async (access) => {
      asked.push(JSON.stringify(access.map(({ name, actions }) => [name, ...actions])));
      return sign("test", access, new Date());
    });
    await careful.pushArtifact(repository, { kind: "source", stream: randomBytes(5 * 1024 * 1024) });
    await careful.getManifest(repository, digest);
    await careful.deleteManifest(repository, digest).catch(() => {});
    await careful.ping();
    expect(new Set(asked).size).toBe(asked.length);
    expect(asked).toHaveLength(4);
    expect(asked).toEqual(
      expect.arrayContaining(
        [["delete"], ["pull"], ["pull", "push"]].map((actions) => JSON.stringify([[repository, ...actions]])),
      ),
    );
    ({ digest } = await master.pushArtifact(repository, { kind: "source", stream: content }));
  });

  test("takes a registry's word to ask elsewhere for nothing, and says so when there is no token", async () => {
    await using proxy = await startProxy(server.url, () => false);
    const nothing = new Error("control is away");
    await using helpless = createRegistry(systemClock, { url: proxy.url, tokens: () => Promise.reject(nothing) });
    const error = { code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true, cause: nothing };
    await expect(helpless.getManifest(repository, digest)).rejects.toMatchObject(error);
    expect(proxy.seen).toEqual([]);
  });

  test("asks anew when a token that it kept is not taken any more", async () => {
    let [asked, taken] = [0, "1"];
    await using proxy = await startProxy(server.url, ({ headers }, reply) => {
      reply.writeHead(headers.authorization === `Bearer ${taken}` ? 200 : 401).end();
      return true;
    });
    await using keeping = createRegistry(systemClock, {
      url: proxy.url,
      tokens: async () => ({ token: String(++asked), expiresInSeconds: 900 }),
    });
    for (const _ of [1, 2]) await keeping.ping();
    expect(asked).toBe(1);
    // As after the registry got another key.
    taken = "2";
    await keeping.ping();
    expect(asked).toBe(2);
    taken = "none";
    await expect(keeping.ping()).rejects.toMatchObject(refused);
  });
});

describe("a key", () => {
  test("of another kind, or with a certificate that is not its own or not valid now, is refused", async () => {
    const [one, two] = [await aTokenKey(), await aTokenKey()];
    const at = new Date();
    expect(() => createTokenSigner(systemRandom, { key: one.key, certificate: two.certificate }, at)).toThrow(
      "not that of the key",
    );
    expect(() => createTokenSigner(systemRandom, one, new Date("2100-06-01"))).toThrow("not now");
    expect(() => createTokenSigner(systemRandom, { ...one, key: "hunter2" }, at)).toThrow(/^the key is not PEM$/);
    expect(() => createTokenSigner(systemRandom, { ...one, certificate: one.key }, at)).toThrow(
      /^the certificate is not PEM$/,
    );
  });
});
