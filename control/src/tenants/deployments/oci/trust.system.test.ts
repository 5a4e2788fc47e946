import { readdir } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { digestOf } from "@svc/registry";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Intercept } from "../../../../../registry/src/testing/proxy.ts";
import { putCredential } from "../../registries/store.ts";
import { account, hostOf, type OciFixture, ociFixture } from "./testing/fixture.ts";
import { aLayer, anImage, pushImage, type TestImage } from "./testing/image.ts";

const mebibyte = 1024 * 1024;

let at: OciFixture;
beforeAll(async () => {
  at = await ociFixture();
});
afterAll(() => at?.[Symbol.asyncDispose]());

describe("credentials", () => {
  let image: TestImage;
  let reference = "";
  beforeAll(async () => {
    image = anImage({ layers: [aLayer("private")] });
    await pushImage(at.lockedClient, "team/shop", image, "1");
    reference = `${hostOf(at.locked)}/team/shop:1`;
  });

  const withCredential = async (host: string, secret: string) => {
    const projectId = await at.newProject();
    const row = { projectId, host, now: new Date() };
    await putCredential(at.db, at.secrets, row, { username: account.username, secret });
    return projectId;
  };

  test("open a private registry, and only the right ones do", async () => {
    expect(await at.failure(reference)).toBe("OCI_AUTH_FAILED");
    expect(await at.failure(reference, { projectId: await withCredential(hostOf(at.locked), "wrong") })).toBe(
      "OCI_AUTH_FAILED",
    );
    const projectId = await withCredential(hostOf(at.locked), account.password);
    expect(await at.resolve(reference, { projectId })).toMatchObject({ digest: image.digest });
  });

  test("of one host are not another's, nor those of the same host's other port", async () => {
    await using proxy = await at.hostile(() => false);
    const projectId = await withCredential(hostOf(at.locked), account.password);
    const shop = await at.published();
    await at.through(proxy, shop, { projectId });
    expect(new Set(proxy.seen.map(({ authorization }) => authorization))).toEqual(new Set([null]));
  });

  test("that were moved between rows do not open, and that is said", async () => {
    const [mine, other] = [
      await withCredential(hostOf(at.locked), account.password),
      await withCredential(hostOf(at.locked), account.password),
    ];
    const sealed = (projectId: string) =>
      at.db.selectFrom("registry_credential").select("sealed").where("project_id", "=", projectId);
    await at.db
      .updateTable("registry_credential")
      .set({ sealed: sealed(other) })
      .where("project_id", "=", mine)
      .execute();
    expect(await at.failure(reference, { projectId: mine })).toBe("OCI_CREDENTIAL_INVALID");
    expect(await at.resolve(reference, { projectId: other })).toMatchObject({ digest: image.digest });
  });

  test("are not sent to a token service on another host, nor to another port", async () => {
    for (const host of ["127.0.0.2", "127.0.0.1"]) {
      await using thief = await at.hostile((_, reply) => {
        reply.end(JSON.stringify({ token: "anonymous" }));
        return true;
      }, host);
      await using proxy = await at.hostile((incoming, reply) => {
        if (incoming.headers.authorization === "Bearer anonymous") return false;
        reply.writeHead(401, { "www-authenticate": `Bearer realm="${thief.url}/token",service="x"` }).end();
        return true;
      });
      const projectId = await withCredential(hostOf(proxy), account.password);
      const shop = await at.published();
      const allow = [hostOf(proxy), hostOf(thief)];
      // Whoever needs no credential there is served; nobody's credential went anywhere.
      expect(await at.through(proxy, shop, { allow, projectId })).toMatchObject({ digest: shop.digest });
      expect(thief.seen.length).toBeGreaterThan(0);
      expect(thief.seen.every(({ authorization }) => authorization === null)).toBe(true);
      expect(proxy.seen.some(({ authorization }) => authorization?.startsWith("Basic"))).toBe(false);
      // Not allowed, it is not even asked.
      thief.seen.length = 0;
      expect(await at.failure(`${hostOf(proxy)}/${shop.repository}:1`, { allow: [hostOf(proxy)] })).toBe(
        "OCI_REGISTRY_BLOCKED",
      );
      expect(thief.seen).toEqual([]);
    }
  });

  test("do not follow a redirect to a storage host", async () => {
    await using storage = await at.hostile(() => false, "127.0.0.2");
    const shop = await at.published();
    await using proxy = await at.hostile((incoming, reply) => {
      if (incoming.headers.authorization === undefined) reply.writeHead(401, { "www-authenticate": "Basic realm=x" });
      else if (incoming.url?.includes("/blobs/") !== true) return false;
      else reply.writeHead(307, { location: `${storage.url}${incoming.url}` });
      reply.end();
      return true;
    });
    const projectId = await withCredential(hostOf(proxy), account.password);
    const allow = [hostOf(proxy), hostOf(storage)];
    expect(await at.through(proxy, shop, { allow, projectId })).toMatchObject({ digest: shop.digest });
    expect(storage.seen.length).toBeGreaterThan(0);
    expect(storage.seen.every(({ authorization }) => authorization === null)).toBe(true);
  });
});

describe("where a registry may lead", () => {
  const otherName = (url: string): string => url.replace("127.0.0.1", "localhost");

  /** A server of the private kind that counts who comes. */
  async function trap() {
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.3", done));
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    return {
      host: `127.0.0.3:${port}`,
      port,
      connections: () => connections,
      [Symbol.asyncDispose]: () => new Promise<void>((done) => void server.close(() => done())),
    };
  }

  test.each([
    { to: "the metadata service", location: () => "http://169.254.169.254/latest/meta-data/" },
    { to: "the metadata service over https", location: () => "https://169.254.169.254/x" },
    { to: "a private server", location: (host: string) => `http://${host}/x` },
    { to: "a private server over https", location: (host: string) => `https://${host}/x` },
    { to: "a private server as IPv6", location: () => "https://[::ffff:127.0.0.3]/x" },
    { to: "a private server in other digits", location: () => "https://0x7f000003/x" },
    { to: "a name of the inside", location: () => "https://metadata.internal/x" },
    { to: "the cluster's registry", location: () => `${at.own.url}/v2/` },
    { to: "the cluster's registry by another name", location: () => `${otherName(at.own.url)}/v2/` },
  ])("a redirect to $to is not followed", async ({ location }) => {
    await using target = await trap();
    const image = await at.published();
    await using proxy = await at.hostile((incoming, reply) => {
      if (incoming.url?.includes("/blobs/") !== true) return false;
      reply.writeHead(302, { location: location(target.host) }).end();
      return true;
    });
    // The operator's other registries, the cluster's own among them, are in the list.
    const allow = [hostOf(proxy), hostOf(at.own), hostOf({ url: otherName(at.own.url) })];
    expect(await at.failure(`${hostOf(proxy)}/${image.repository}:1`, { allow })).toBe("OCI_REGISTRY_BLOCKED");
    expect(target.connections()).toBe(0);
  });

  test("another name of the cluster's registry leads to nobody's artifacts, whatever the operator allows", async () => {
    const image = await at.published();
    const projectId = await at.newProject();
    await at.resolve(`${hostOf(at.open)}/${image.repository}:1`, { projectId });
    const alias = hostOf({ url: otherName(at.own.url) });
    const artifact = `svc/${projectId}/app@${image.digest}`;
    expect(await at.failure(`${alias}/${artifact}`, { allow: [alias] })).toBe("OCI_REGISTRY_BLOCKED");
    const named = `registry.test:${new URL(at.own.url).port}`;
    for (const [resolve, code] of [
      [async () => ["127.0.0.1"], "OCI_REGISTRY_BLOCKED"],
      [() => Promise.reject(new Error("SERVFAIL")), "OCI_PULL_FAILED"],
    ] as const)
      expect(await at.failure(`${named}/${artifact}`, { allow: [named], deps: { resolve } })).toBe(code);
  });

  test("a name that was public when it was accepted and is private now is not dialled", async () => {
    await using target = await trap();
    for (const addresses of [
      ["127.0.0.3"],
      ["::ffff:127.0.0.3"],
      ["64:ff9b::7f00:3"],
      ["::7f00:3"],
      ["2002:7f00:3::"],
      ["93.184.215.14", "127.0.0.3"],
    ]) {
      const asked: string[] = [];
      const deps = {
        resolve: async (name: string) => {
          asked.push(name);
          return addresses;
        },
      };
      const reference = "registry.example.test:5000/shop:1";
      expect(await at.failure(reference, { deps })).toBe("OCI_REGISTRY_BLOCKED");
      expect(asked).toEqual(["registry.example.test"]);
    }
    expect(target.connections()).toBe(0);
  });

  test("a name whose meaning alternates is judged each time that it is dialled", async () => {
    await using target = await trap();
    let asked = 0;
    // Public first, but nobody answers there; then private.
    const deps = { resolve: async () => (asked++ % 2 === 0 ? ["192.0.1.1"] : ["127.0.0.3"]) };
    expect(await at.failure("registry.example.test/shop:1", { deps })).toBe("OCI_REGISTRY_BLOCKED");
    expect(asked).toBe(2);
    expect(target.connections()).toBe(0);
  });

  test("a registry that is not allowed any more is refused", async () => {
    const image = await at.published();
    expect(await at.failure(`${hostOf(at.open)}/${image.repository}:1`, { allow: [] })).toBe("OCI_REGISTRY_BLOCKED");
  });

  test("a name that cannot be looked up is a failure to pull", async () => {
    const deps = { resolve: () => Promise.reject(new Error("SERVFAIL")) };
    expect(await at.failure("registry.example.test/shop:1", { deps })).toBe("OCI_PULL_FAILED");
  });
});

describe("a registry that lies", () => {
  test.each<{ about: string; intercept: (image: TestImage) => Intercept; code: string }>([
    {
      about: "the digest of its manifest",
      intercept: () => (incoming, reply) => {
        if (incoming.url?.includes("/manifests/") !== true) return false;
        reply.setHeader("docker-content-digest", `sha256:${"0".repeat(64)}`);
        reply.end(anImage().manifest);
        return true;
      },
      code: "OCI_DIGEST_MISMATCH",
    },
    {
      about: "the content of a blob",
      intercept: () => (incoming, reply) => {
        if (incoming.url?.includes("/blobs/") !== true) return false;
        reply.end("{}");
        return true;
      },
      code: "OCI_DIGEST_MISMATCH",
    },
    {
      about: "the content of a layer",
      intercept:
        ({ layers }) =>
        (incoming, reply) => {
          const [layer] = layers;
          if (layer === undefined || incoming.url?.endsWith(digestOf(layer)) !== true) return false;
          reply.end(Buffer.alloc(layer.length, "x"));
          return true;
        },
      code: "OCI_DIGEST_MISMATCH",
    },
    {
      about: "a manifest that is none",
      intercept: () => (incoming, reply) => {
        if (incoming.url?.includes("/manifests/") !== true) return false;
        reply.end("<html>please sign in</html>");
        return true;
      },
      code: "OCI_INSPECT_FAILED",
    },
    {
      about: "a manifest that never ends",
      intercept: () => (incoming, reply) => {
        if (incoming.url?.includes("/manifests/") !== true) return false;
        reply.end(Buffer.alloc(5 * mebibyte, " "));
        return true;
      },
      code: "OCI_INSPECT_FAILED",
    },
    {
      about: "how to be asked",
      intercept: () => (_, reply) => {
        reply.writeHead(401, { "www-authenticate": 'Bearer realm="gopher://x/"' }).end();
        return true;
      },
      code: "OCI_PULL_FAILED",
    },
    {
      about: "being there",
      intercept: () => (_, reply) => {
        reply.writeHead(404).end("SECRET BODY");
        return true;
      },
      code: "OCI_PULL_FAILED",
    },
    {
      about: "its limits",
      intercept: () => (_, reply) => {
        reply.writeHead(429).end("SECRET BODY");
        return true;
      },
      code: "OCI_PULL_FAILED",
    },
  ])("about $about is told so, and nothing that it said is passed on", async ({ intercept, code }) => {
    const image = await at.published();
    await using proxy = await at.hostile(intercept(image));
    const result = await at.through(proxy, image);
    expect(result).toMatchObject({ code });
    expect(JSON.stringify(result)).not.toMatch(/SECRET|html|gopher/);
  });

  test("about the length of a layer is cut off, and leaves nothing behind", async () => {
    const image = await at.published({ layers: [aLayer("small")] });
    const projectId = await at.newProject();
    let sent = 0;
    await using proxy = await at.hostile((incoming, reply) => {
      const [last] = JSON.parse(image.manifest.toString()).layers;
      if (incoming.url?.endsWith(last.digest) !== true || incoming.method !== "GET") return false;
      const more = (): void => {
        while (!reply.destroyed && reply.write(Buffer.alloc(65_536))) sent += 65_536;
        if (!reply.destroyed) reply.once("drain", more);
      };
      more();
      return true;
    });
    expect(await at.through(proxy, image, { projectId })).toMatchObject({ code: "OCI_DIGEST_MISMATCH" });
    expect(sent).toBeLessThan(8 * mebibyte);
    const uploads = join(at.own.directory, "data/docker/registry/v2/repositories/svc", projectId, "app/_uploads");
    const left = await readdir(uploads, { recursive: true }).catch(() => []);
    expect(left.filter((name) => name.endsWith("/data"))).toEqual([]);
  });

  test("by being slow ends with the time that a pull may take", async () => {
    const image = await at.published();
    const projectId = await at.newProject();
    const drips: NodeJS.Timeout[] = [];
    await using proxy = await at.hostile((incoming, reply) => {
      if (incoming.url?.includes("/blobs/") !== true) return false;
      reply.writeHead(200, { "content-length": "200" });
      drips.push(setInterval(() => reply.write("x"), 100));
      return true;
    });
    const startedAt = performance.now();
    expect(await at.through(proxy, image, { projectId, deps: { limitMs: 1_000 } })).toMatchObject({
      code: "OCI_PULL_TIMEOUT",
    });
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    for (const drip of drips) clearInterval(drip);
  });

  test("by breaking off is asked again", async () => {
    const image = await at.published();
    let broken = false;
    await using proxy = await at.hostile((incoming, reply) => {
      if (broken || incoming.url?.endsWith(digestOf(image.layers[0] ?? Buffer.alloc(0))) !== true) return false;
      broken = true;
      reply.writeHead(200, { "content-length": "100000" });
      reply.write("x");
      setImmediate(() => incoming.socket.destroy());
      return true;
    });
    expect(await at.through(proxy, image)).toMatchObject({ digest: image.digest });
    expect(broken).toBe(true);
  });
});
