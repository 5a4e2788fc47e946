import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { digestOf } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import {
  blobReads,
  hostOf,
  type OciFixture,
  ociFixture,
  type PublishedImage,
} from "../../tenants/deployments/oci/testing/fixture.ts";
import { aLayer } from "../../tenants/deployments/oci/testing/image.ts";
import { ownRegistry } from "../images/own.ts";
import { collectBaseImages } from "./collect.ts";
import { type BaseImageAnswer, type BaseImages, type BaseImagesDeps, createBaseImages } from "./fetch.ts";

let at: OciFixture;
beforeAll(async () => {
  at = await ociFixture();
});
afterAll(() => at?.[Symbol.asyncDispose]());

const platform = { os: "linux", architecture: "amd64" };
const digestLike = `sha256:${"0".repeat(64)}`;

async function newOwner(): Promise<string> {
  const id = await at.newProject();
  return (await at.db.selectFrom("project").select("owner_id").where("id", "=", id).executeTakeFirstOrThrow()).owner_id;
}

/** Base images of a control server that trusts the registries of `allow`. */
const baseImages = (allow: readonly string[], deps: Partial<BaseImagesDeps> = {}): BaseImages =>
  createBaseImages({
    clock: systemClock,
    db: at.db,
    log: createLog("silent"),
    registry: at.ownClient,
    rules: { allow, ownRegistry: ownRegistry(at.own.url) },
    operators: ["node:24-slim"],
    ...deps,
  });

/** Asks as a node does, until there is an answer. */
async function answerOf(from: BaseImages, reference: string, ownerId: string): Promise<NonNullable<BaseImageAnswer>> {
  for (;;) {
    const answer = await from.fetch({ ownerId, reference, platform });
    if (answer !== null) return answer;
  }
}

/** The code, or the digest. */
async function outcome(reference: string, allow: readonly string[] = [], deps: Partial<BaseImagesDeps> = {}) {
  await using from = baseImages(allow, deps);
  const answer = await answerOf(from, reference, await newOwner());
  return "refusal" in answer ? answer.refusal.code : answer.digest;
}

describe("a base image", () => {
  test("is copied by digest, whether it has a command or not, and looked up once", async () => {
    const image = await at.published({ run: {} });
    await using proxy = await at.hostile(() => false);
    await using from = baseImages([hostOf(proxy)]);
    const ask = async () => answerOf(from, `${hostOf(proxy)}/${image.repository}:1`, await newOwner());
    const repository = `bases/${hostOf(proxy).replace(":", "_")}/${image.repository}`;
    expect(await ask()).toEqual({ repository, digest: image.digest });
    expect((await at.ownClient.getManifest(repository, image.digest)).digest).toBe(image.digest);
    proxy.seen.length = 0;
    expect(await ask()).toEqual({ repository, digest: image.digest });
    expect(proxy.seen).toEqual([]);
  });

  test("that many builds want at once is transferred once", async () => {
    const image = await at.published();
    await using proxy = await at.hostile(() => false);
    await using from = baseImages([hostOf(proxy)]);
    const owners = await Promise.all([1, 2, 3, 4, 5, 6].map(newOwner));
    const reference = `${hostOf(proxy)}/${image.repository}:1`;
    const answers = await Promise.all(owners.map((ownerId) => answerOf(from, reference, ownerId)));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(blobReads(proxy)).toBe(2);
  });

  test("that takes long is not waited for, and is not transferred twice when control is killed meanwhile", async () => {
    const image = await at.published({ layers: [1, 2, 3, 4, 5].map((n) => aLayer(`layer ${n}`)) });
    let isStuck = true;
    // The last two layers do not arrive.
    await using proxy = await at.hostile(
      (incoming) => isStuck && incoming.url?.includes("/blobs/") === true && blobReads(proxy) > 4,
    );
    const reference = `${hostOf(proxy)}/${image.repository}@${image.digest}`;
    const repository = `bases/${hostOf(proxy).replace(":", "_")}/${image.repository}`;
    const ownerId = await newOwner();
    const copied = () =>
      at.db.selectFrom("base_image").select("copied_at").where("digest", "=", image.digest).execute();
    {
      await using killed = baseImages([hostOf(proxy)], { bounds: { patienceMs: 50 } });
      const waitForStuck = async () => {
        expect(await killed.fetch({ ownerId, reference, platform })).toBeNull();
        return blobReads(proxy);
      };
      await expect.poll(waitForStuck).toBe(6);
      // That the last two were asked for does not say that the first three have been stored.
      const stored = () => Promise.all(image.layers.map((layer) => at.ownClient.hasBlob(repository, digestOf(layer))));
      await expect.poll(stored).toEqual([true, true, true, false, false]);
      expect(await copied()).toEqual([{ copied_at: null }]);
    }
    isStuck = false;
    proxy.seen.length = 0;
    await using next = baseImages([hostOf(proxy)]);
    expect(await answerOf(next, reference, ownerId)).toMatchObject({ digest: image.digest });
    // Its description and the two layers that had not arrived.
    expect(blobReads(proxy)).toBe(3);
    expect(await copied()).toEqual([{ copied_at: expect.any(Date) }]);
  });

  test.each([
    { text: "localhost.:4500/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "0x7f.1:4500/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "127.1/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "2130706433:5000/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "[::1]/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "host.test:99999/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "LOCALHOST/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "bücher.test/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "metadata.internal/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: `registry.test/${"a".repeat(200)}`, code: "BUILD_FAILED" },
  ])("$text is refused with $code", async ({ text, code }) => {
    expect(await outcome(text)).toBe(code);
  });

  test("of the cluster's own registry is not to be named", async () => {
    const own = hostOf(at.own);
    expect(await outcome(`${own}/svc/p/app@${digestLike}`, [own])).toBe("OCI_REGISTRY_BLOCKED");
    expect(await outcome(`${own}/bases/docker.io/library/node@${digestLike}`, [own])).toBe("OCI_REGISTRY_BLOCKED");
    const { port } = new URL(at.own.url);
    for (const alias of [`127.1.1.1:${port}`, `x.localhost:${port}`])
      expect(await outcome(`${alias}/svc/p/app@${digestLike}`, [alias]), alias).toBe("OCI_REGISTRY_BLOCKED");
  });

  test("of a public name that leads inside is refused, and nobody was dialled", async () => {
    let dialled = 0;
    const server = createServer();
    server.on("connection", () => {
      dialled += 1;
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const resolve = async () => ["127.0.0.1"];
    expect(await outcome("registry.example.test/x", [], { resolve })).toBe("OCI_REGISTRY_BLOCKED");
    expect(await outcome(`registry.example.test:${port}/x`, [], { resolve })).toBe("OCI_REGISTRY_BLOCKED");
    expect(dialled).toBe(0);
    await new Promise((closed) => server.close(closed));
  });

  test("of the operator may come from where nobody else's may", async () => {
    const image = await at.published();
    const baseImage = `${hostOf(at.open)}/${image.repository}:1`;
    expect(await outcome(baseImage, [], { operators: [baseImage] })).toBe(image.digest);
    expect(await outcome(baseImage)).toBe("OCI_REGISTRY_BLOCKED");
  });

  test("is fetched with nobody's credential", async () => {
    const host = hostOf(at.locked);
    expect(await outcome(`${host}/x:1`, [host])).toBe("OCI_AUTH_FAILED");
  });

  test("is held to its size, and an account to all of them", async () => {
    const host = hostOf(at.open);
    const noise = Buffer.from(Array.from({ length: 700_000 }, (_, n) => (n * n * 31) % 251));
    const layer = (n: number) => aLayer(`${n}${noise.toString("latin1")}`);
    const large = await at.published({ layers: [layer(1), layer(2), layer(3)] });
    expect(await outcome(`${host}/${large.repository}:1`, [host], { bounds: { maxImageMb: 1 } })).toBe(
      "OCI_IMAGE_TOO_LARGE",
    );
    await using from = baseImages([host], { bounds: { maxMbPerAccount: 0 } });
    const ownerId = await newOwner();
    const small = await at.published();
    const refused = await answerOf(from, `${host}/${small.repository}:1`, ownerId);
    expect(refused).toMatchObject({ refusal: { code: "BUILD_FAILED", message: expect.stringContaining("account") } });
    // What is there already costs nobody anything.
    expect(await outcome(`${host}/${small.repository}:1`, [host])).toBe(small.digest);
    await using again = baseImages([host], { bounds: { maxMbPerAccount: 0 } });
    expect(await answerOf(again, `${host}/${small.repository}:1`, ownerId)).toMatchObject({ digest: small.digest });
  });

  test("that one account has no room for is copied for another", async () => {
    await using proxy = await at.hostile(() => false);
    await using from = baseImages([hostOf(proxy)], { bounds: { maxMbPerAccount: 1 } });
    const [full, empty] = [await newOwner(), await newOwner()];
    const content = { repository: "bases/registry.test/large", digest: digestLike };
    const values = { ...content, size_bytes: 1024 * 1024, owner_id: full, copied_at: new Date() };
    await at.db.insertInto("base_image").values(values).execute();
    const refused = { refusal: { code: "BUILD_FAILED", message: expect.stringContaining("account") } };
    const ask = async (image: PublishedImage, ownerId: string) =>
      answerOf(from, `${hostOf(proxy)}/${image.repository}:1`, ownerId);
    const first = await at.published();
    expect(await ask(first, full)).toEqual(refused);
    expect(await ask(first, empty)).toMatchObject({ digest: first.digest });
    const second = await at.published();
    expect(await Promise.all([ask(second, full), ask(second, empty)])).toMatchObject([
      refused,
      { digest: second.digest },
    ]);
  });

  describe("of which an account has room for one", () => {
    const anImage = () => at.published({ layers: [aLayer(randomBytes(600_000).toString("base64"))] });
    const bounds = { maxMbPerAccount: 1 };
    const isRefused = (answer: NonNullable<BaseImageAnswer>) => "refusal" in answer;
    const insert = (ownerId: string, name: string, ageHours: number) =>
      at.db
        .insertInto("base_image")
        .values({
          ...{ repository: `bases/registry.test/${name}`, digest: digestLike, size_bytes: 1024 * 1024 },
          ...{ owner_id: ownerId, used_at: sql<Date>`now() - ${ageHours} * interval '1 hour'` },
        })
        .execute();

    test("leaves the room when it could not be copied", async () => {
      const [broken, whole] = [await anImage(), await anImage()];
      const isBroken = (incoming: IncomingMessage, outgoing: ServerResponse) => {
        if (!incoming.url?.includes(`${broken.repository}/blobs/${digestOf(broken.layers[0] ?? Buffer.alloc(0))}`))
          return false;
        outgoing.writeHead(404).end();
        return true;
      };
      await using proxy = await at.hostile(isBroken);
      await using from = baseImages([hostOf(proxy)], { bounds });
      const ownerId = await newOwner();
      const ask = (image: PublishedImage) => answerOf(from, `${hostOf(proxy)}/${image.repository}:1`, ownerId);
      expect(await ask(broken)).toMatchObject({ refusal: { code: "OCI_PULL_FAILED" } });
      expect(await ask(whole)).toMatchObject({ digest: whole.digest });
    });

    test("is one of those that are asked for at once", async () => {
      const host = hostOf(at.open);
      const images = [await anImage(), await anImage(), await anImage()];
      const ownerId = await newOwner();
      const askOneReplica = async (image: PublishedImage) => {
        await using from = baseImages([host], { bounds });
        return await answerOf(from, `${host}/${image.repository}:1`, ownerId);
      };
      const answers = await Promise.all(images.map(askOneReplica));
      expect(answers.filter(isRefused)).toHaveLength(2);
    });

    test("counts for a day when control was killed, and then goes", async () => {
      const host = hostOf(at.open);
      const image = await anImage();
      await using from = baseImages([host], { bounds });
      const [today, yesterday] = [await newOwner(), await newOwner()];
      await insert(today, "today", 1);
      await insert(yesterday, "yesterday", 25);
      const ask = (ownerId: string) => answerOf(from, `${host}/${image.repository}:1`, ownerId);
      expect(isRefused(await ask(today))).toBe(true);
      expect(await ask(yesterday)).toMatchObject({ digest: image.digest });
      const deps = { clock: systemClock, db: at.db, registry: at.ownClient, log: createLog("silent") };
      expect(await collectBaseImages(deps, new AbortController().signal)).toBe(1);
    });
  });

  test("that is known does not wait for others' slow registries", async () => {
    let isStuck = false;
    await using proxy = await at.hostile(() => isStuck);
    const host = hostOf(proxy);
    const [known, looked, operators, other] = [
      await at.published(),
      await at.published(),
      await at.published(),
      await at.published(),
    ];
    const baseImage = `${hostOf(at.open)}/${operators.repository}:1`;
    await using from = baseImages([host], { operators: [baseImage], bounds: { patienceMs: 50 } });
    const ownerId = await newOwner();
    const knownByDigest = `${host}/${known.repository}@${known.digest}`;
    {
      await using earlier = baseImages([host]);
      await answerOf(earlier, knownByDigest, ownerId);
    }
    await answerOf(from, `${host}/${looked.repository}:1`, ownerId);
    isStuck = true;
    for (const owner of [await newOwner(), await newOwner(), await newOwner()])
      for (const tag of [1, 2, 3])
        await from.fetch({ ownerId: owner, reference: `${host}/stuck/${owner}:${tag}`, platform });
    const asked = () => new Set(proxy.seen.map(({ path }) => path).filter((path) => path.includes("/stuck/"))).size;
    await expect.poll(asked).toBe(8);
    const ask = (reference: string) => from.fetch({ ownerId, reference, platform });
    await expect.poll(() => ask(knownByDigest)).toMatchObject({ digest: known.digest });
    await expect.poll(() => ask(`${host}/${looked.repository}:1`)).toMatchObject({ digest: looked.digest });
    await expect.poll(() => ask(baseImage)).toMatchObject({ digest: operators.digest });
    // Everything else waits.
    expect(await ask(`${host}/${other.repository}:1`)).toBeNull();
    expect(proxy.seen.some(({ path }) => path.includes(other.repository))).toBe(false);
  });

  test("goes when no build has used it for a month, and comes again", async () => {
    const host = hostOf(at.open);
    const [used, unused] = [await at.published(), await at.published()];
    await using from = baseImages([host]);
    const ownerId = await newOwner();
    const ask = (image: { repository: string }) => answerOf(from, `${host}/${image.repository}:1`, ownerId);
    const copies = [await ask(used), await ask(unused)].map((answer) => ("digest" in answer ? answer : null));
    await at.db
      .updateTable("base_image")
      .set({ used_at: sql<Date>`now() - interval '31 days'` })
      .where("digest", "in", [used.digest, unused.digest])
      .execute();
    await ask(used);
    const deps = { clock: systemClock, db: at.db, registry: at.ownClient, log: createLog("silent") };
    expect(await collectBaseImages(deps, new AbortController().signal)).toBe(1);
    const isThere = (copy: { repository: string; digest: string } | null | undefined) =>
      at.ownClient.getManifest(copy?.repository ?? "", copy?.digest ?? "").then(
        () => true,
        () => false,
      );
    expect([await isThere(copies[0]), await isThere(copies[1])]).toEqual([true, false]);
    expect(await ask(unused)).toEqual(copies[1]);
    expect(await isThere(copies[1])).toBe(true);
  });
});
