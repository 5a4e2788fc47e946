import { randomBytes, randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProxy } from "../../../../../registry/src/testing/proxy.ts";
import { createCollector } from "../../../fleet/artifacts/collect.ts";
import { createLog } from "../../../log.ts";
import { blobReads, hostOf, type OciFixture, ociFixture, type RegistryProxy } from "./testing/fixture.ts";
import { aLayer, anImage, type ImageFacts, pushImage, tarOf } from "./testing/image.ts";

const mebibyte = 1024 * 1024;
const gzip = (content: Buffer) => gzipSync(content, { level: 1 });

const layersOf = ({ manifest }: { manifest: Buffer }): string[] =>
  JSON.parse(manifest.toString()).layers.map(({ digest }: { digest: string }) => digest);

/** How often layers of the image were asked for by way of it. */
const layerReads = ({ seen }: RegistryProxy, image: { manifest: Buffer }) =>
  seen.filter(({ method, path }) => method === "GET" && layersOf(image).some((digest) => path.endsWith(digest)));

let at: OciFixture;
beforeAll(async () => {
  at = await ociFixture();
});
afterAll(() => at?.[Symbol.asyncDispose]());

describe("an image that is copied", () => {
  test("is in the project's repository, byte for byte, and found by digest and by its tag", async () => {
    const image = await at.published({ layers: [aLayer("one"), aLayer("two"), aLayer("one")] });
    const projectId = await at.newProject();
    const resolved = await at.resolve(`${hostOf(at.open)}/${image.repository}:1`, { projectId });
    const repository = `svc/${projectId}/app`;
    expect(resolved).toMatchObject({ repository, digest: image.digest, os: "linux", architecture: "amd64" });
    const { id: tag, ...pushed } = await at.db
      .selectFrom("artifact")
      .select(["id", "digest", "kind", "ended_at"])
      .where("project_id", "=", projectId)
      .executeTakeFirstOrThrow();
    expect(pushed).toEqual({ digest: image.digest, kind: "image", ended_at: expect.any(Date) });
    for (const reference of [image.digest, tag])
      expect((await at.ownClient.getManifest(repository, reference)).bytes.equals(image.manifest)).toBe(true);
    const { manifest } = await at.ownClient.getManifest(repository, image.digest);
    for (const { digest } of manifest.layers ?? []) expect(await at.ownClient.hasBlob(repository, digest)).toBe(true);
  });

  test("is the one of an index that a node can run", async () => {
    const [forAmd, forArm] = [await at.published(), anImage({ architecture: "arm64" })];
    await pushImage(at.openClient, forAmd.repository, forArm, "arm");
    const index = Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType: "application/vnd.oci.image.index.v1+json",
        manifests: [forArm, forAmd].map(({ manifest, digest }, at) => ({
          mediaType: "application/vnd.oci.image.manifest.v1+json",
          digest,
          size: manifest.length,
          platform: { os: "linux", architecture: at === 0 ? "arm64" : "amd64" },
        })),
      }),
    );
    const mediaType = "application/vnd.oci.image.index.v1+json";
    await at.openClient.putManifest(forAmd.repository, index, { tag: "both", mediaType });
    const reference = `${hostOf(at.open)}/${forAmd.repository}:both`;
    expect(await at.resolve(reference)).toMatchObject({ digest: forAmd.digest, architecture: "amd64" });
    const arm = { platforms: async () => [{ os: "linux", architecture: "riscv64" }] };
    expect(await at.failure(reference, { deps: arm })).toBe("OCI_PLATFORM_UNSUPPORTED");
  });

  test("a second time is only looked at", async () => {
    const image = await at.published();
    const projectId = await at.newProject();
    await using foreign = await at.hostile(() => false);
    await using near = await startProxy(at.own.url, () => false);
    await using registry = createRegistry(systemClock, { url: near.url });
    const options = { projectId, deps: { registry } };
    const first = await at.through(foreign, image, options);
    const readsBefore = blobReads(foreign);
    near.seen.length = 0;
    foreign.seen.length = 0;
    expect(await at.through(foreign, image, options)).toEqual(first);
    expect(readsBefore).toBe(2);
    expect(foreign.seen.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `GET /v2/${image.repository}/manifests/1`,
    ]);
    expect(near.seen.filter(({ method }) => method === "PATCH" || method === "POST")).toEqual([]);
  });

  test("is there for a deployment by digest though its registry is gone", async () => {
    const image = await at.published();
    const projectId = await at.newProject();
    const proxy = await at.hostile(() => false);
    await at.through(proxy, image, { projectId });
    await proxy[Symbol.asyncDispose]();
    const allow = [hostOf(proxy)];
    const byDigest = `${hostOf(proxy)}/${image.repository}@${image.digest}`;
    expect(await at.resolve(byDigest, { allow, projectId })).toMatchObject({ digest: image.digest });
    expect(await at.failure(byDigest, { allow })).toBe("OCI_PULL_FAILED");
  });

  test("is transferred anew for another account, whoever else has it", async () => {
    const image = await at.published();
    await using proxy = await at.hostile(() => false);
    await at.through(proxy, image);
    expect(blobReads(proxy)).toBe(2);
    await at.through(proxy, image);
    expect(blobReads(proxy)).toBe(4);
  });

  test("is brought once for all projects of an account that deploy it together", async () => {
    const image = await at.published({ layers: [aLayer("shared"), aLayer("by"), aLayer("all")] });
    const ownerId = await at.newAccount();
    const projects = await Promise.all([1, 2, 3, 4, 5, 6].map(() => at.newProject(ownerId)));
    await using foreign = await at.hostile(() => false);
    const resolver = at.newResolver({ allow: [hostOf(foreign)] });
    const results = await Promise.all(
      projects.map((projectId) => at.through(foreign, image, { resolver, projectId, ownerId })),
    );
    expect(results).toEqual(projects.map(() => expect.objectContaining({ digest: image.digest })));
    expect(layerReads(foreign, image)).toHaveLength(3);
    for (const id of projects)
      for (const digest of layersOf(image)) expect(await at.ownClient.hasBlob(`svc/${id}/app`, digest)).toBe(true);
    // Each asked the registry by itself, with what it has of its own.
    expect(foreign.seen.filter(({ path }) => path.endsWith("/manifests/1"))).toHaveLength(6);
    // What one project could read says nothing of another account, or of another place.
    await at.through(foreign, image, { resolver, ownerId: await at.newAccount() });
    expect(layerReads(foreign, image)).toHaveLength(6);
    await pushImage(at.openClient, "apps/elsewhere", image, "1");
    const elsewhere = { ...image, repository: "apps/elsewhere" };
    await at.through(foreign, elsewhere, { resolver, projectId: await at.newProject(ownerId), ownerId });
    expect(layerReads(foreign, image)).toHaveLength(9);
  });

  test("is brought by the next one when whoever was at it breaks off", async () => {
    const image = await at.published();
    const ownerId = await at.newAccount();
    const [one, two] = [await at.newProject(ownerId), await at.newProject(ownerId)];
    let held = 0;
    await using foreign = await at.hostile(({ url }) => {
      const isLayer = layersOf(image).some((digest) => url?.endsWith(digest));
      if (isLayer) held += 1;
      return isLayer && held === 1;
    });
    const resolver = at.newResolver({ allow: [hostOf(foreign)] });
    const leader = new AbortController();
    const first = at.through(foreign, image, { resolver, projectId: one, ownerId, signal: leader.signal });
    const brokenOff = expect(first).rejects.toThrow("canceled");
    await expect.poll(() => held).toBe(1);
    const second = at.through(foreign, image, { resolver, projectId: two, ownerId });
    await expect.poll(() => foreign.seen.filter(({ path }) => path.endsWith("/manifests/1"))).toHaveLength(2);
    leader.abort(new Error("canceled"));
    await brokenOff;
    expect(await second).toMatchObject({ digest: image.digest, repository: `svc/${two}/app` });
  });

  test("goes on in the moment in which there is a place, without being asked for again", async () => {
    const image = await at.published();
    const held: (() => void)[] = [];
    await using foreign = await at.hostile(({ url }, _reply, forward) => {
      if (url?.endsWith("/manifests/1") !== true) return false;
      held.push(forward);
      return true;
    });
    const ownerId = await at.newAccount();
    const resolver = at.newResolver({ allow: [hostOf(foreign)] });
    const projects = await Promise.all([1, 2, 3, 4, 5].map(() => at.newProject(ownerId)));
    const resolved = projects.map((projectId) => at.through(foreign, image, { resolver, projectId, ownerId }));
    await expect.poll(() => held.length).toBe(3);
    for (const place of [0, 1]) {
      held[place]?.();
      await expect.poll(() => held.length).toBe(place + 4);
    }
    for (const forward of held.slice(2)) forward();
    expect(await Promise.all(resolved)).toEqual(projects.map(() => expect.objectContaining({ digest: image.digest })));
  });

  test("goes on where it was broken off", async () => {
    const layers = [1, 2, 3, 4, 5].map((n) => aLayer(`layer ${n}`));
    const image = await at.published({ layers });
    const projectId = await at.newProject();
    const deploymentId = randomUUID();
    const canceled = new AbortController();
    // The last two never arrive.
    await using stuck = await at.hostile(
      (incoming) => incoming.url?.includes("/blobs/") === true && blobReads(stuck) > 4,
    );
    const options = { projectId, deploymentId };
    const copying = at.through(stuck, image, { ...options, signal: canceled.signal });
    const brokenOff = expect(copying).rejects.toThrow("canceled");
    const stored = () => at.db.selectFrom("image_layer").select("digest").where("project_id", "=", projectId).execute();
    await expect.poll(stored).toHaveLength(3);
    canceled.abort(new Error("canceled"));
    await brokenOff;
    await expect(at.ownClient.getManifest(`svc/${projectId}/app`, image.digest)).rejects.toThrow();
    await using proxy = await at.hostile(() => false);
    // A copy that was killed is one that nobody ended.
    await at.db.updateTable("artifact").set({ ended_at: null }).where("project_id", "=", projectId).execute();
    expect(await at.through(proxy, image, options)).toMatchObject({ digest: image.digest });
    const layersRead = proxy.seen.filter(({ method, path }) => method === "GET" && path.includes("/blobs/"));
    expect(layersRead).toHaveLength(2 + 1);
  });

  test("is not deleted under the worker that took over when the one before breaks off", async () => {
    const image = await at.published();
    const projectId = await at.newProject();
    const repository = `svc/${projectId}/app`;
    // The same image is there from an earlier deployment that is over, and would go.
    await pushImage(at.ownClient, repository, image, "earlier");
    const long = new Date(Date.now() - 86_400_000);
    await at.db
      .insertInto("artifact")
      .values({
        ...{ id: randomUUID(), project_id: projectId, repository, kind: "image", digest: image.digest },
        ...{ size_bytes: 1, created_at: long, ended_at: long },
      })
      .execute();
    const options = { projectId, deploymentId: randomUUID() };
    const at1 = new AbortController();
    const at2 = new AbortController();
    // Both read the layers again, to measure them, and get no further.
    const [{ digest: layer }] = JSON.parse(image.manifest.toString()).layers;
    const isHeld = (method = "", path = "") => method === "GET" && path.endsWith(layer);
    await using near = await startProxy(at.own.url, ({ method, url }) => isHeld(method, url));
    const held = () => near.seen.filter(({ method, path }) => isHeld(method, path)).length;
    await using registry = createRegistry(systemClock, { url: near.url });
    const resolve = ({ signal }: AbortController) =>
      at.resolve(`${hostOf(at.open)}/${image.repository}:1`, { ...options, deps: { registry }, signal });
    const first = resolve(at1);
    await expect.poll(held).toBe(1);
    const second = resolve(at2);
    await expect.poll(held).toBe(2);
    at1.abort(new Error("lost its turn"));
    await expect(first).rejects.toThrow("lost its turn");
    const collector = createCollector({
      ...{ db: at.db, registry: at.ownClient, log: createLog("silent"), clock: systemClock },
    });
    await collector.collectProject(projectId);
    expect((await at.ownClient.getManifest(repository, image.digest)).bytes.equals(image.manifest)).toBe(true);
    at2.abort(new Error("enough"));
    await expect(second).rejects.toThrow("enough");
  });

  test("is counted once when its layers were there and are gone", async () => {
    const image = await at.published({
      layers: [gzip(tarOf([{ name: "data", content: Buffer.alloc(5 * mebibyte) }]))],
    });
    const projectId = await at.newProject();
    const [{ digest }] = JSON.parse(image.manifest.toString()).layers;
    await at.db
      .insertInto("image_layer")
      .values({ project_id: projectId, digest, unpacked_bytes: 5 * mebibyte })
      .execute();
    const reference = `${hostOf(at.open)}/${image.repository}:1`;
    expect(await at.resolve(reference, { projectId, maxImageMb: 8 })).toMatchObject({ digest: image.digest });
  });

  test("may be copied by two at once", async () => {
    const image = await at.published({ layers: [aLayer("a"), aLayer("b")] });
    const projectId = await at.newProject();
    const reference = `${hostOf(at.open)}/${image.repository}:1`;
    const results = await Promise.all([1, 2, 3].map(() => at.resolve(reference, { projectId })));
    expect(results.map((each) => ("digest" in each ? each.digest : each.code))).toEqual(Array(3).fill(image.digest));
  });

  test("does not travel when it is in the cluster's registry already", async () => {
    const image = anImage({ layers: [aLayer("tide")] });
    await pushImage(at.ownClient, "examples/tide", image, "1");
    await using near = await startProxy(at.own.url, () => false);
    await using registry = createRegistry(systemClock, { url: near.url });
    const projectId = await at.newProject();
    const reference = `${hostOf(at.own)}/examples/tide:1`;
    expect(await at.resolve(reference, { projectId, deps: { registry } })).toMatchObject({
      repository: `svc/${projectId}/app`,
      digest: image.digest,
    });
    const layerDigest = JSON.parse(image.manifest.toString()).layers[0].digest;
    expect(near.seen.filter(({ method, path }) => method === "GET" && path.endsWith(layerDigest))).toEqual([]);
    expect(await at.ownClient.hasBlob(`svc/${projectId}/app`, layerDigest)).toBe(true);
    expect(await at.failure(`${hostOf(at.own)}/svc/${projectId}/app@${image.digest}`)).toBe("OCI_REGISTRY_BLOCKED");
    expect(await at.failure(`${hostOf(at.own)}/examples/tide:2`)).toBe("OCI_PULL_FAILED");
  });

  test("is what the tag meant when it was asked, once, whatever it means a moment later", async () => {
    const [first, second] = [await at.published(), await at.published()];
    let asked = 0;
    await using proxy = await at.hostile((incoming, reply) => {
      if (incoming.url?.endsWith("/manifests/1") !== true) return false;
      asked += 1;
      reply.setHeader("content-type", "application/vnd.oci.image.manifest.v1+json");
      reply.end(asked === 1 ? first.manifest : second.manifest);
      return true;
    });
    expect(await at.through(proxy, first)).toMatchObject({ digest: first.digest });
    expect(asked).toBe(1);
  });

  test("is taken with labels that are the platform's own, which name nothing", async () => {
    const image = await at.published({ run: { Cmd: ["/app"], Labels: { "svc.project": randomUUID() } } });
    expect(await at.resolve(`${hostOf(at.open)}/${image.repository}:1`)).toMatchObject({ digest: image.digest });
  });
});

describe("an image that may not run", () => {
  const zeros = (size: number) => tarOf([{ name: "zeros", content: Buffer.alloc(size) }]);
  test.each<{ when: string; facts: ImageFacts; code: string }>([
    { when: "it is for Windows", facts: { os: "windows" }, code: "OCI_PLATFORM_UNSUPPORTED" },
    { when: "it is for another processor", facts: { architecture: "s390x" }, code: "OCI_PLATFORM_UNSUPPORTED" },
    { when: "it has nothing to start", facts: { run: {} }, code: "OCI_ENTRYPOINT_MISSING" },
    {
      when: "its user id overflows",
      facts: { run: { Cmd: ["/app"], User: "4294967296" } },
      code: "OCI_INSPECT_FAILED",
    },
    { when: "a layer is no archive", facts: { layers: [Buffer.alloc(2000, "x")] }, code: "OCI_INSPECT_FAILED" },
    {
      when: "a layer is a bomb",
      facts: { layers: [gzip(zeros(80 * mebibyte))] },
      code: "OCI_IMAGE_TOO_LARGE",
    },
    {
      when: "its layers together are too large",
      facts: { layers: [30, 31, 32].map((size) => gzip(zeros(size * mebibyte))) },
      code: "OCI_IMAGE_TOO_LARGE",
    },
    {
      when: "a layer has sparse files",
      facts: { layers: [tarOf([{ name: "hole", type: "S", size: 0 }])] },
      code: "OCI_INSPECT_FAILED",
    },
  ])("is refused when $when, also the second time", async ({ facts, code }) => {
    const image = await at.published(facts);
    const projectId = await at.newProject();
    const reference = `${hostOf(at.open)}/${image.repository}:1`;
    expect(await at.failure(reference, { projectId })).toBe(code);
    expect(await at.failure(reference, { projectId })).toBe(code);
    await expect(at.ownClient.getManifest(`svc/${projectId}/app`, image.digest)).rejects.toThrow();
  });

  test("is refused when it transfers more than the plan allows, without transferring it", async () => {
    const image = await at.published({ layers: [randomBytes(2 * mebibyte)] });
    await using proxy = await at.hostile(() => false);
    expect(await at.through(proxy, image, { maxImageMb: 1 })).toEqual({
      code: "OCI_IMAGE_TOO_LARGE",
      message: "The image has at least 3 MB; the plan allows 1 MB.",
    });
    expect(blobReads(proxy)).toBe(0);
  });

  test("is refused when the plan became smaller since it was copied", async () => {
    const image = await at.published({ layers: [gzip(zeros(10 * mebibyte))] });
    const projectId = await at.newProject();
    const reference = `${hostOf(at.open)}/${image.repository}:1`;
    expect(await at.resolve(reference, { projectId })).toMatchObject({ digest: image.digest });
    expect(await at.failure(reference, { projectId, maxImageMb: 5 })).toBe("OCI_IMAGE_TOO_LARGE");
    expect(await at.failure(reference, { projectId, maxImageMb: 0 })).toBe("OCI_PLAN_UNAVAILABLE");
  });

  test("waits for nobody when there is no node at all", async () => {
    const image = await at.published();
    const reference = `${hostOf(at.open)}/${image.repository}:1`;
    expect(await at.failure(reference, { deps: { platforms: async () => [] } })).toBe("NODE_UNAVAILABLE");
  });
});

test("the cluster's registry being away is trouble of ours, not the image's", async () => {
  const image = await at.published();
  await using registry = createRegistry(systemClock, { url: "http://127.0.0.1:9", timeoutMs: 500 });
  await expect(at.resolve(`${hostOf(at.open)}/${image.repository}:1`, { deps: { registry } })).rejects.toThrow(
    /does not answer/,
  );
});
