import { createHash, randomBytes } from "node:crypto";
import { readdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digestOf } from "./digest.ts";
import { ociManifestType } from "./manifests.ts";
import { createRegistry, type Registry } from "./registry.ts";
import { type RegistryProcess, startDockerRegistry } from "./testing/docker-registry.ts";
import { startProxy } from "./testing/proxy.ts";

const repository = "svc/2f1c/source";
const missing = `sha256:${"0".repeat(64)}`;
const mib = 1024 * 1024;
setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");
let server: RegistryProcess;
let registry: Registry;

beforeAll(async () => {
  server = await startDockerRegistry();
  registry = createRegistry(systemClock, { url: server.url });
});
afterAll(async () => {
  await registry.close();
  await server[Symbol.asyncDispose]();
});

/** Where the registry keeps the bytes of `digest`. */
const fileOf = async (digest: string): Promise<string> => {
  const hex = digest.slice("sha256:".length);
  const directory = join(server.directory, "data/docker/registry/v2/blobs/sha256", hex.slice(0, 2), hex);
  expect(await readdir(directory)).toEqual(["data"]);
  return join(directory, "data");
};

/** What the registry keeps of uploads that have not ended. */
async function uploadsUnderWay(): Promise<string[]> {
  const uploads = join(server.directory, "data/docker/registry/v2/repositories", repository, "_uploads");
  const left = await readdir(uploads, { recursive: true }).catch(() => []);
  return left.filter((name) => name.endsWith("/data"));
}

const body = () => Readable.from([randomBytes(1000)]);

describe("blobs", () => {
  test.each([
    { what: "nothing", size: 0 },
    { what: "a few bytes", size: 11 },
    { what: "exactly one piece", size: 4 * mib },
    { what: "one byte more than a piece", size: 4 * mib + 1 },
    { what: "several pieces", size: 13 * mib + 7 },
  ])("$what come back as they were pushed", async ({ size }) => {
    const content = randomBytes(size);
    const parts = Array.from({ length: Math.ceil(size / 100_000) }, (_, at) =>
      content.subarray(at * 100_000, (at + 1) * 100_000),
    );
    const stored = await registry.pushBlob(repository, Readable.from(parts));
    expect(stored).toEqual({ digest: digestOf(content), sizeBytes: size });
    expect(await registry.hasBlob(repository, stored.digest)).toBe(true);
    const pulled = await buffer(await registry.pullBlob(repository, stored.digest, { sizeBytes: size }));
    expect(pulled.equals(content)).toBe(true);
  });

  test("a buffer that is there already is not sent again", async () => {
    await using proxy = await startProxy(server.url, () => false);
    await using client = createRegistry(systemClock, { url: proxy.url });
    const content = randomBytes(1000);
    const first = await client.pushBlob(repository, content);
    const before = proxy.seen.length;
    expect(await client.pushBlob(repository, content)).toEqual(first);
    expect(proxy.seen.slice(before).map(({ method }) => method)).toEqual(["HEAD"]);
  });

  test("memory stays bounded while a large blob passes through", async () => {
    const piece = randomBytes(mib);
    const total = 192;
    const hash = createHash("sha256");
    async function* produce(): AsyncGenerator<Buffer> {
      for (let n = 0; n < total; n++) {
        piece.writeUInt32BE(n);
        hash.update(piece);
        if (n % 16 === 0) peak = Math.max(peak, held());
        yield Buffer.from(piece);
      }
    }
    // Without what only waits to be collected, which a busy machine lets wait for long.
    const held = () => {
      collectGarbage();
      return process.memoryUsage().arrayBuffers;
    };
    const start = held();
    let peak = start;
    const { digest, sizeBytes } = await registry.pushBlob(repository, Readable.from(produce()));
    let pulled = 0;
    for await (const part of await registry.pullBlob(repository, digest)) {
      if (Math.floor(pulled / mib / 16) < Math.floor((pulled + part.length) / mib / 16)) peak = Math.max(peak, held());
      pulled += part.length;
    }
    expect({ digest, sizeBytes, pulled }).toEqual({
      digest: `sha256:${hash.digest("hex")}`,
      sizeBytes: total * mib,
      pulled: total * mib,
    });
    expect((peak - start) / mib).toBeLessThan(80);
  });

  test("a blob of another repository is mounted without being sent, and one that is nowhere is not", async () => {
    const { digest } = await registry.pushBlob("svc/2f1c/from", randomBytes(1000));
    expect(await registry.mountBlob(repository, digest, "svc/2f1c/from")).toBe(true);
    expect(await registry.hasBlob(repository, digest)).toBe(true);
    expect(await registry.mountBlob(repository, missing, "svc/2f1c/from")).toBe(false);
    expect(await uploadsUnderWay()).toEqual([]);
  });

  test("a blob that is not there is ARTIFACT_NOT_FOUND", async () => {
    expect(await registry.hasBlob(repository, missing)).toBe(false);
    await expect(registry.pullBlob(repository, missing)).rejects.toMatchObject({
      code: "ARTIFACT_NOT_FOUND",
      temporary: false,
    });
  });

  test("a push over its limit is refused and leaves no blob", async () => {
    const content = randomBytes(9 * mib);
    const push = registry.pushBlob(repository, Readable.from([content]), { maxSizeBytes: 8 * mib });
    await expect(push).rejects.toMatchObject({ code: "ARTIFACT_TOO_LARGE" });
    expect(await registry.hasBlob(repository, digestOf(content))).toBe(false);
    expect(await uploadsUnderWay()).toEqual([]);
  });

  test.each([
    { what: "a push", act: (client: Registry, signal: AbortSignal) => client.pushBlob(repository, body(), { signal }) },
    {
      what: "a mount",
      act: (client: Registry, signal: AbortSignal) =>
        client.mountBlob(repository, missing, "svc/2f1c/from", { signal }),
    },
  ])("$what that is broken off while the registry begins an upload leaves none", async ({ act }) => {
    const asked = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<void>();
    await using proxy = await startProxy(server.url, ({ method }, _, forward) => {
      if (method !== "POST") return false;
      asked.resolve();
      void aborted.promise.then(forward);
      return true;
    });
    await using client = createRegistry(systemClock, { url: proxy.url });
    const abort = new AbortController();
    const done = act(client, abort.signal).catch((error: unknown) => error);
    await asked.promise;
    abort.abort(new Error("nobody wants it any more"));
    aborted.resolve();
    await done;
    expect(proxy.seen.map(({ method }) => method)).toContain("DELETE");
    expect(await uploadsUnderWay()).toEqual([]);
  });

  test("a pull over its limit is refused before anything is read", async () => {
    const { digest } = await registry.pushBlob(repository, randomBytes(5000));
    const pull = registry.pullBlob(repository, digest, { maxSizeBytes: 4999 });
    await expect(pull).rejects.toMatchObject({ code: "ARTIFACT_TOO_LARGE" });
  });

  test("bytes that rotted on disk are ARTIFACT_DIGEST_MISMATCH, never data", async () => {
    const { digest } = await registry.pushBlob(repository, randomBytes(5000));
    const file = await fileOf(digest);
    const bytes = await readFile(file);
    bytes[2500] = (bytes[2500] ?? 0) ^ 1;
    await writeFile(file, bytes);
    const rotten = buffer(await registry.pullBlob(repository, digest));
    await expect(rotten).rejects.toMatchObject({ code: "ARTIFACT_DIGEST_MISMATCH" });
    await truncate(file, 100);
    const short = buffer(await registry.pullBlob(repository, digest, { sizeBytes: 5000 }));
    await expect(short).rejects.toMatchObject({ code: "ARTIFACT_DIGEST_MISMATCH" });
  });

  test("a source that fails is passed on and the upload is given up", async () => {
    const broken = Readable.from(
      (async function* () {
        yield randomBytes(6 * mib);
        throw new Error("the visitor went away");
      })(),
    );
    await expect(registry.pushBlob(repository, broken)).rejects.toThrow("the visitor went away");
  });

  test.each(["../x", "A/b", "a//b", "a/b/", "", "a/b?c", `a${"/b".repeat(200)}`])(
    "the repository name %j is never sent",
    async (name) => {
      await expect(registry.hasBlob(name, missing)).rejects.toThrow(TypeError);
    },
  );
});

describe("manifests and artifacts", () => {
  test.each(["source", "bundle"] as const)("a %s artifact round-trips by its manifest's digest", async (kind) => {
    const archive = randomBytes(300_000);
    const pushed = await registry.pushArtifact(repository, { kind, stream: Readable.from([archive]) });
    expect(pushed.sizeBytes).toBe(archive.length);
    expect(await registry.pushArtifact(repository, { kind, stream: archive })).toEqual(pushed);
    const found = await registry.getManifest(repository, pushed.digest);
    expect(found.digest).toBe(pushed.digest);
    expect(found.contentBytes).toBe(archive.length + 2);
    expect(found.manifest.config?.mediaType).toBe(`application/vnd.svc.${kind}.v1+json`);
    const pulled = await registry.pullArtifact(repository, pushed.digest, { maxSizeBytes: archive.length });
    expect((await buffer(pulled)).equals(archive)).toBe(true);
    const refused = registry.pullArtifact(repository, pushed.digest, { maxSizeBytes: archive.length - 1 });
    await expect(refused).rejects.toMatchObject({ code: "ARTIFACT_TOO_LARGE" });
  });

  test("a tag finds the manifest, and deleting removes it once", async () => {
    const { digest } = await registry.pushArtifact(repository, { kind: "bundle", stream: randomBytes(50) });
    const { manifest } = await registry.getManifest(repository, digest);
    expect(await registry.putManifest(repository, manifest, { tag: "latest" })).toMatchObject({ digest });
    expect((await registry.getManifest(repository, "latest")).digest).toBe(digest);
    expect(await registry.deleteManifest(repository, digest)).toBe(true);
    expect(await registry.deleteManifest(repository, digest)).toBe(false);
    await expect(registry.getManifest(repository, digest)).rejects.toMatchObject({ code: "ARTIFACT_NOT_FOUND" });
  });

  test("a manifest whose layer is missing is refused", async () => {
    const config = await registry.pushBlob(repository, Buffer.from("{}"));
    const put = registry.putManifest(repository, {
      schemaVersion: 2,
      config: { mediaType: "application/vnd.test.v1+json", digest: config.digest, size: 2 },
      layers: [{ mediaType: "application/vnd.test.v1.tar", digest: missing, size: 7 }],
    });
    await expect(put).rejects.toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: false });
  });

  test("the same archive pushed by several at once arrives, for everybody", async () => {
    for (let round = 0; round < 30; round += 1) {
      const content = randomBytes(500);
      const push = () => registry.pushArtifact(`race/${round}`, { kind: "source", stream: Readable.from([content]) });
      const digests = new Set((await Promise.all([push(), push(), push(), push()])).map(({ digest }) => digest));
      expect(digests.size).toBe(1);
    }
  });

  test("an image that is no artifact of ours is not read as one", async () => {
    const config = await registry.pushBlob(repository, Buffer.from("{}"));
    const { digest } = await registry.putManifest(repository, {
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: { mediaType: "application/vnd.oci.image.config.v1+json", digest: config.digest, size: 2 },
      layers: [],
    });
    const pull = registry.pullArtifact(repository, digest, { maxSizeBytes: mib });
    await expect(pull).rejects.toMatchObject({ code: "ARTIFACT_NOT_FOUND" });
  });

  test("what the registry has is told without reading it, also of a manifest that says otherwise", async () => {
    const content = randomBytes(1000);
    const { digest } = await registry.pushBlob(repository, content);
    expect(await registry.sizeOfBlob(repository, digest)).toBe(1000);
    expect(await registry.sizeOfBlob(repository, missing)).toBeNull();
    const part = { mediaType: "application/octet-stream", digest, size: -1 };
    const odd = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: ociManifestType, config: part, layers: [] }));
    const stored = await registry.putManifest(repository, odd, { tag: "odd" });
    await expect(registry.getManifest(repository, "odd")).rejects.toThrow(/not a manifest/);
    expect(await registry.findManifest(repository, "odd")).toEqual({ ...stored, isIndex: false });
    await expect(registry.findManifest(repository, digest)).rejects.toMatchObject({ status: 500 });
    expect(await registry.findManifest(repository, missing)).toBeNull();
    expect(await registry.readManifest(repository, stored.digest, odd.length)).toEqual(odd);
    await expect(registry.readManifest(repository, stored.digest, odd.length - 1)).rejects.toThrow(/more than/);
    expect(await registry.readManifest(repository, missing, 1000)).toBeNull();
  });

  test("of a list of tags that is too long to be read the first are listed", async () => {
    const tags = Array.from({ length: 12_000 }, (_, at) => `${at}-${"x".repeat(120)}`);
    await using proxy = await startProxy(server.url, (_, reply) => {
      reply.end(JSON.stringify({ name: repository, tags }));
      return true;
    });
    await using client = createRegistry(systemClock, { url: proxy.url });
    expect(await client.listTags(repository, 3)).toEqual(tags.slice(0, 3));
    expect((await client.listTags(repository, tags.length)).length).toBeGreaterThan(7_000);
  });
});

describe("credentials", () => {
  const account = { username: "svc", password: "correct horse: battery" };

  test("a registry with accounts takes the right password only", async () => {
    await using locked = await startDockerRegistry(account);
    await using good = createRegistry(systemClock, { url: locked.url, ...account });
    await good.ping();
    const content = randomBytes(5 * mib);
    const { digest } = await good.pushBlob(repository, Readable.from([content]));
    expect((await buffer(await good.pullBlob(repository, digest))).equals(content)).toBe(true);
    await using wrong = createRegistry(systemClock, { url: locked.url, username: "svc", password: "wrong" });
    await using nobody = createRegistry(systemClock, { url: locked.url });
    for (const client of [wrong, nobody]) {
      const error = await client.pullBlob(repository, digest).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: false });
      expect(JSON.stringify(error) + String(error)).not.toMatch(/wrong|horse/);
    }
  });

  test("a token is fetched for the scope, reused, and the password goes to the token service only", async () => {
    await using proxy = await startProxy(server.url, (incoming, reply) => {
      const { url = "", headers } = incoming;
      if (url.startsWith("/token")) {
        const basic = `Basic ${Buffer.from(`${account.username}:${account.password}`).toString("base64")}`;
        const scope = new URL(url, "http://x.test").searchParams.get("scope") ?? "";
        reply.statusCode = headers.authorization === basic ? 200 : 401;
        reply.end(JSON.stringify({ token: Buffer.from(scope).toString("base64url"), expires_in: 300 }));
        return true;
      }
      const actions = ["GET", "HEAD"].includes(incoming.method ?? "") ? "pull" : "pull,push";
      const scope = `repository:${repository}:${actions}`;
      if (headers.authorization === `Bearer ${Buffer.from(scope).toString("base64url")}`) return false;
      reply.writeHead(401, {
        "www-authenticate": `Bearer realm="http://${headers.host}/token",service="test",scope="${scope}"`,
      });
      reply.end();
      return true;
    });
    await using client = createRegistry(systemClock, { url: proxy.url, ...account });
    const content = randomBytes(9 * mib);
    const { digest } = await client.pushBlob(repository, Readable.from([content]));
    expect((await buffer(await client.pullBlob(repository, digest))).equals(content)).toBe(true);
    expect(proxy.seen.filter(({ path }) => path.startsWith("/token"))).toHaveLength(2);
    const basic = proxy.seen.filter(({ authorization }) => authorization?.startsWith("Basic") === true);
    expect(basic.every(({ path }) => path.startsWith("/token"))).toBe(true);
  });

  test("a registry that sends the password to another host does not get it", async () => {
    await using thief = await startProxy(server.url, () => false);
    const realm = thief.url.replace("127.0.0.1", "127.0.0.2");
    await using proxy = await startProxy(server.url, (_, reply) => {
      reply.writeHead(401, { "www-authenticate": `Bearer realm="${realm}/token"` }).end();
      return true;
    });
    await using client = createRegistry(systemClock, { url: proxy.url, ...account });
    await expect(client.ping()).rejects.toThrow("another host");
    expect(thief.seen).toEqual([]);
  });

  test("a redirect to a storage host is followed without the credential", async () => {
    const content = randomBytes(1000);
    const { digest } = await registry.pushBlob(repository, content);
    await using storage = await startProxy(server.url, () => false);
    await using proxy = await startProxy(server.url, (incoming, reply) => {
      if (incoming.headers.authorization === undefined) reply.writeHead(401, { "www-authenticate": "Basic realm=x" });
      else reply.writeHead(307, { location: `${storage.url}${incoming.url}` });
      reply.end();
      return true;
    });
    await using client = createRegistry(systemClock, { url: proxy.url, ...account });
    expect((await buffer(await client.pullBlob(repository, digest))).equals(content)).toBe(true);
    expect(storage.seen.map(({ authorization }) => authorization)).toEqual([null]);
  });
});

describe("faults", () => {
  test("a push that breaks off starts again when its content can be opened again", async () => {
    const content = randomBytes(11 * mib);
    const again = (): Readable => Readable.from([content]);
    for (const [at, { source, works }] of [
      { source: again, works: true },
      { source: content, works: true },
      { source: again(), works: false },
    ].entries()) {
      let pieces = 0;
      await using proxy = await startProxy(server.url, (incoming) => {
        if (incoming.method !== "PATCH" || ++pieces !== 2) return false;
        incoming.socket.destroy();
        return true;
      });
      await using client = createRegistry(systemClock, { url: proxy.url });
      const push = client.pushBlob(`svc/faults/${at}`, source);
      if (works) expect(await push).toEqual({ digest: digestOf(content), sizeBytes: content.length });
      else await expect(push).rejects.toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true });
      expect(pieces).toBe(works ? 5 : 2);
    }
  });

  test("a blob that was stored although the answer was lost counts as stored", async () => {
    const content = randomBytes(100);
    await using proxy = await startProxy(server.url, (incoming, reply, forward) => {
      if (incoming.method !== "PUT") return false;
      forward();
      reply.writeHead = () => {
        incoming.socket.destroy();
        return reply;
      };
      return true;
    });
    await using client = createRegistry(systemClock, { url: proxy.url });
    expect(await client.pushBlob(repository, Readable.from([content]))).toMatchObject({ digest: digestOf(content) });
  });

  test("a 503 is tried again, a third one is told", async () => {
    let left = 2;
    await using proxy = await startProxy(server.url, (_, reply) => {
      if (left === 0) return false;
      left--;
      reply.writeHead(503).end("maintenance");
      return true;
    });
    await using client = createRegistry(systemClock, { url: proxy.url });
    await client.ping();
    left = 99;
    const error = await client.ping().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true });
    expect(String(error)).not.toContain("maintenance");
  });

  test("a registry that accepts and says nothing does not hold anybody up", async () => {
    await using proxy = await startProxy(server.url, () => true);
    await using client = createRegistry(systemClock, { url: proxy.url, timeoutMs: 300 });
    await expect(client.ping()).rejects.toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true });
  });

  test("a body that stops coming errors, and so does one that comes too slowly", async () => {
    const digest = missing;
    let drip: NodeJS.Timeout | undefined;
    await using proxy = await startProxy(server.url, (incoming, reply) => {
      reply.writeHead(200, { "content-length": "1000000" });
      reply.write("x");
      if (incoming.url?.includes("slow") === true) drip = setInterval(() => reply.write("x"), 50);
      return true;
    });
    await using stalled = createRegistry(systemClock, { url: proxy.url, timeoutMs: 300 });
    // Where the machine stands still it may be the head of the answer that comes too late.
    const silent = stalled.pullBlob("silent", digest).then(buffer);
    await expect(silent).rejects.toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true });
    await using slow = createRegistry(systemClock, { url: proxy.url, timeoutMs: 5000, transferTimeoutMs: 400 });
    const dripping = slow.pullBlob("slow", digest).then(buffer);
    await expect(dripping).rejects.toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true });
    clearInterval(drip);
  });

  test("a transfer that breaks before anybody reads it errors for its reader and nobody else", async () => {
    let cut = (): void => undefined;
    await using proxy = await startProxy(server.url, (incoming, reply) => {
      reply.writeHead(200, { "content-length": "1000000" });
      reply.write("x");
      cut = () => incoming.socket.destroy();
      return true;
    });
    await using client = createRegistry(systemClock, { url: proxy.url });
    const stream = await client.pullBlob(repository, missing);
    cut();
    // By the time another call has gone through, the break has arrived.
    await expect(client.ping()).resolves.toBeUndefined();
    await expect(buffer(stream)).rejects.toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true });
  });

  test("nobody listens", async () => {
    // A port that the system gives to nobody who asks for any.
    await using client = createRegistry(systemClock, { url: "http://127.0.0.1:1" });
    await expect(client.ping()).rejects.toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true });
  });

  test("the caller's own signal ends a pull with the caller's reason", async () => {
    await using proxy = await startProxy(server.url, () => true);
    await using client = createRegistry(systemClock, { url: proxy.url });
    const abort = new AbortController();
    const pull = client.pullBlob(repository, missing, { signal: abort.signal });
    abort.abort(new Error("shutting down"));
    await expect(pull).rejects.toThrow("shutting down");
  });
});
