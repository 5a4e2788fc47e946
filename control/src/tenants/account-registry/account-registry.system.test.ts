import { randomBytes, randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { limits } from "@svc/proto";
import { createRegistry, createTokenSigner, digestOf, ociManifestType, type Registry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../registry/src/testing/docker-registry.ts";
import { aTokenKey } from "../../../../registry/src/testing/token-key.ts";
import { ownRegistry } from "../../fleet/images/own.ts";
import { createReferencePolicy } from "../../fleet/images/reference.ts";
import { type Answer, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import { until } from "../../stores/etcd/testing.ts";
import { deleteUserWorker } from "../admin/users/deletion/worker.ts";
import { createImageResolver } from "../deployments/oci/oci.ts";
import { aLayer, anImage, pushImage, type TestImage } from "../deployments/oci/testing/image.ts";
import { empty, readKept } from "./contents.ts";
import { claimCleaning, endCleaning, listLeft, listNames, noteManifest } from "./store.ts";
import { sweepAccountRepositories } from "./sweep.ts";

const publicHost = "images.svc.test";
const eventsSecret = randomBytes(32).toString("hex");
const never = new AbortController().signal;
/** Settings of a registry that tells of manifests. */
const toldTo = (apiUrl: string) => ({
  notifications: {
    endpoints: [
      {
        ...{ name: "control", url: `${apiUrl}/api/v1/registry/events` },
        ...{ timeout: "5s", threshold: 5, backoff: "1s" },
        headers: { Authorization: [`Bearer ${eventsSecret}`] },
        ignore: { mediatypes: ["application/octet-stream"], actions: ["pull", "delete"] },
      },
    ],
  },
});
const stack = new AsyncDisposableStack();
let docker: RegistryProcess;
let api: TestApi;
/** Control's own client. */
let own: Registry;
let user: TestUser;
beforeAll(async () => {
  const tokenKey = await aTokenKey();
  // Each tells the other something, so one begins without knowing where the other one is.
  const registry = { url: "http://127.0.0.1:9", publicHost, tokenKey, eventsSecret };
  api = stack.use(await testApi({ config: { registry }, wrongPerMinuteMax: 3 }));
  docker = stack.use(await startDockerRegistry({ tokenCertificate: tokenKey.certificate }, toldTo(api.url)));
  const sign = createTokenSigner(systemRandom, tokenKey, new Date());
  own = stack.use(
    createRegistry(systemClock, { url: docker.url, tokens: async (access) => sign("control", access, new Date()) }),
  );
  // The API judges what an account keeps by its own client.
  api.context.registry = own;
  user = await api.newUser({ plan: { max_image_mb: 64, storage_mb: 1 } });
});
afterAll(() => stack.disposeAsync());

const codeOf = ({ status, body }: Answer) => [status, body.error?.code];
const basic = (name: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${name}:${password}`).toString("base64")}`,
});
const login = async (by: TestUser = user) =>
  (await api.call("POST", "/registry/login", { session: by.session })).body.login;
const ask = (name: string, password: string, ...scopes: string[]) => {
  const query = new URLSearchParams([
    ["service", "svc-registry"],
    ...scopes.map((scope): [string, string] => ["scope", scope]),
  ]);
  return api.call("GET", `/registry/token?${query}`, { headers: basic(name, password) });
};
/** A client that gets its tokens as any client of registries does. */
const clientOf = (name: string, password: string): Registry =>
  createRegistry(systemClock, {
    url: docker.url,
    tokens: async (access) => {
      const scopes = access.map((each) => `${each.type}:${each.name}:${each.actions.join(",")}`);
      const { status, body } = await ask(name, password, ...scopes);
      if (status !== 200) throw new Error(`${status} ${body.errors[0].message}`);
      return { token: body.token, expiresInSeconds: body.expires_in };
    },
  });

const anAccount = (storageMb: number) => api.newUser({ plan: { max_image_mb: 64, storage_mb: storageMb } });
/** As if the last token for pushing had ended. */
const nobodyPushes = ({ id }: TestUser) =>
  sql`update account_repository set push_until = now() - interval '1 ms' where user_id = ${id}`.execute(api.db);
const sweep = () =>
  sweepAccountRepositories({ clock: systemClock, db: api.db, registry: own, log: createLog("silent") }, never);

function anIndex(images: readonly TestImage[]) {
  const mediaType = "application/vnd.oci.image.index.v1+json";
  const manifests = images.map(({ digest, manifest }) => ({
    mediaType: ociManifestType,
    digest,
    size: manifest.length,
  }));
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, manifests }));
  return { mediaType, bytes, digest: digestOf(bytes) };
}

test("an account pushes images of its own and reads them again, and nobody else does either", async () => {
  const { username, password, prefix, host, expiresAt } = await login();
  expect([host, prefix, username]).toEqual([publicHost, `accounts/${user.id}/`, user.id]);
  expect(Date.parse(expiresAt) - Date.now()).toBeLessThanOrEqual(limits.registryLoginSeconds * 1000);
  await using mine = clientOf(username, password);
  const image = anImage({ layers: [aLayer("shop")] });
  await pushImage(mine, `${prefix}shop`, image, "1");
  expect((await mine.getManifest(`${prefix}shop`, "1")).digest).toBe(image.digest);

  const stranger = await api.newUser({ plan: { max_image_mb: 64 } });
  const theirs = await login(stranger);
  await using other = clientOf(theirs.username, theirs.password);
  await expect(other.getManifest(`${prefix}shop`, "1")).rejects.toThrow(/401|refused|denied/i);
  await expect(pushImage(other, `${prefix}shop`, anImage(), "1")).rejects.toThrow();
  for (const repository of ["svc/p1/app", "bases/docker.io/library/node", "examples/tide-clock", "shop"])
    await expect(pushImage(mine, repository, image, "1")).rejects.toThrow();

  const lines = await api.db.selectFrom("audit").select(["action", "target"]).where("user_id", "=", user.id).execute();
  expect(lines).toContainEqual({ action: "registry.login", target: user.id });
  expect(lines).toContainEqual({ action: "registry.push", target: `${prefix}shop` });
});

test("what was pushed can be deployed by its owner alone, and is looked through like anything else", async () => {
  const { username, password, prefix } = await login();
  await using mine = clientOf(username, password);
  const image = anImage({ layers: [aLayer("deployed")] });
  await pushImage(mine, `${prefix}app`, image, "1");
  const rules = { allow: [], ownRegistry: ownRegistry(docker.url, publicHost) };
  const { problem } = createReferencePolicy(systemClock, rules, () =>
    Promise.reject(new Error("nothing is looked up")),
  );
  const reference = `${publicHost}/${prefix}app:1`;
  expect(await problem(reference, user.id)).toBeNull();
  expect(await problem(reference, randomUUID())).toMatch(/not yours/);
  expect(await problem(reference)).toMatch(/not yours/);
  expect(await problem(`${publicHost}/svc/p1/app:1`, user.id)).toMatch(/Artifacts of projects/);

  const resolve = createImageResolver({
    clock: systemClock,
    random: systemRandom,
    ...{ db: api.db, secrets: api.context.secrets, log: createLog("silent"), registry: own, rules },
    platforms: async () => [{ os: "linux", architecture: "amd64" }],
  });
  const deploy = async (owner: TestUser, maxImageMb = 64) => {
    const { id: projectId } = await api.newProject(owner, { type: "ociimage" });
    const request = { deploymentId: randomUUID(), projectId, ownerId: owner.id, reference, maxImageMb, signal: never };
    return resolve(request);
  };
  expect(await deploy(user)).toMatchObject({ digest: image.digest });
  expect(await deploy(await api.newUser())).toMatchObject({ code: "OCI_REGISTRY_BLOCKED" });
  const broken = anImage({ layers: [Buffer.alloc(2000, "x")] });
  await pushImage(mine, `${prefix}app`, broken, "1");
  expect(await deploy(user)).toMatchObject({ code: "OCI_INSPECT_FAILED" });
});

describe("a token of the registry", () => {
  const repository = () => `repository:accounts/${user.id}/shop:pull`;

  test("is given for a password or for an API key with the scope, by id or address", async () => {
    const { key } = await api.newKey(user, { scopes: ["deploy"] });
    for (const name of [user.id, user.email, user.email.toUpperCase()])
      expect((await ask(name, key, repository())).status).toBe(200);
    const { key: reader } = await api.newKey(user, { scopes: ["projects:read"] });
    expect(codeOf(await ask(user.id, reader, repository()))).toEqual([403, "FORBIDDEN_SCOPE"]);
    const project = await api.newProject(user);
    const { key: limited } = await api.newKey(user, { projectIds: [project.id] });
    const refused = await ask(user.id, limited, repository());
    expect(codeOf(refused)).toEqual([403, "FORBIDDEN_SCOPE"]);
    expect(refused.body.errors).toEqual([{ code: "DENIED", message: refused.body.error.message }]);
  });

  test("dies with the credential that asked for the password", async () => {
    const { id, key } = await api.newKey(user, { scopes: ["deploy"] });
    const { password } = (await api.call("POST", "/registry/login", { key })).body.login;
    expect((await ask(user.id, password)).status).toBe(200);
    await api.db.deleteFrom("api_token").where("id", "=", id).execute();
    const refused = await ask(user.id, password);
    expect(refused.status).toBe(401);
    expect(refused.headers.get("www-authenticate")).toMatch(/^Basic/);
    const nobody = await api.call("GET", "/registry/token?service=svc-registry");
    expect([nobody.status, nobody.body.errors[0].message]).toEqual([401, expect.stringMatching(/svc registry login/)]);
    // Nor is the password anything for the API itself.
    expect((await api.call("GET", "/me", { key: (await login()).password })).status).toBe(401);
  });

  test("is no longer given for a password whose time is over", async () => {
    const later = new Date(Date.now() + limits.registryLoginSeconds * 1000 + 1_000);
    const { password } = await login();
    const { readPassword } = await import("./password.ts");
    expect(readPassword(api.context.secrets, password, new Date())).not.toBeNull();
    expect(readPassword(api.context.secrets, password, later)).toBeNull();
  });

  test("is refused to guesses, which are told to wait, and not to who is right meanwhile", async () => {
    const { password } = await login();
    const wrong = await Promise.all(
      Array.from({ length: 8 }, () => ask(user.id, `svcr_${randomBytes(40).toString("base64url")}`)),
    );
    expect(wrong.map(({ status }) => status)).toContain(429);
    const last = wrong.find(({ status }) => status === 429);
    expect(codeOf(last ?? expect.fail("none"))).toEqual([429, "RATE_LIMITED"]);
    expect(Number(last?.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await ask(user.id, password)).status).toBe(200);
    const stranger = await api.newUser();
    expect((await ask(stranger.id, password)).status).not.toBe(200);
  });
});

describe("what an account may keep", () => {
  test("is what the plan allows, and what is deleted makes room", async () => {
    const big = await api.newUser({ plan: { max_image_mb: 64, storage_mb: 1 } });
    const { username, password, prefix } = await login(big);
    await using mine = clientOf(username, password);
    const image = anImage({ layers: [randomBytes(1_200_000)] });
    await pushImage(mine, `${prefix}big`, image, "1");
    const push = () => ask(username, password, `repository:${prefix}other:pull,push`);
    const refused = await push();
    expect(codeOf(refused)).toEqual([403, "QUOTA_EXCEEDED"]);
    expect(refused.body.error.message).toMatch(/2 MiB.*allows 1 MiB/);
    expect((await ask(username, password, `repository:${prefix}big:pull`)).status).toBe(200);
    await mine.deleteManifest(`${prefix}big`, image.digest);
    expect((await push()).status).toBe(200);
  });

  test("is as large as the registry has it, whatever a manifest says", async () => {
    const { username, password, prefix } = await login(await anAccount(1));
    await using mine = clientOf(username, password);
    const image = anImage({ layers: [randomBytes(1_200_000)], descriptor: { size: 0 } });
    await pushImage(mine, `${prefix}big`, image, "1");
    const refused = await ask(username, password, `repository:${prefix}big:push`);
    expect(codeOf(refused)).toEqual([403, "QUOTA_EXCEEDED"]);
    expect(refused.body.error.message).toMatch(/2 MiB/);
    // Where it was remembered it counts as much.
    expect(codeOf(await ask(username, password, `repository:${prefix}big:push`))).toEqual([403, "QUOTA_EXCEEDED"]);
  });

  test("is counted once where it is in several images, and with what belongs to an index", async () => {
    const account = await anAccount(64);
    const { username, password, prefix } = await login(account);
    await using mine = clientOf(username, password);
    const layer = randomBytes(500_000);
    const images = ["1", "2"].map((run) => anImage({ layers: [layer], run: { Cmd: [run] } }));
    for (const image of images) await pushImage(mine, `${prefix}shop`, image, "child");
    const index = anIndex(images);
    await mine.putManifest(`${prefix}shop`, index.bytes, { tag: "all", mediaType: index.mediaType });
    const kept = await readKept({ db: api.db, registry: own }, account.id, never);
    const small = [...images.flatMap(({ manifest, config }) => [manifest, config]), index.bytes];
    const bytes = small.reduce((sum, { length }) => sum + length, layer.length);
    expect(kept).toEqual({ bytes, manifests: 3, unreadable: null, tags: { shop: 2 } });
    expect(await readKept({ db: api.db, registry: own }, account.id, never)).toEqual(kept);
  });

  test("has no manifest that is too large to be counted, until it is deleted", async () => {
    const { username, password, prefix } = await login(await anAccount(64));
    await using mine = clientOf(username, password);
    const image = anImage({ manifest: { annotations: { text: "x".repeat(300_000) } } });
    await pushImage(mine, `${prefix}shop`, image, "1");
    const push = () => ask(username, password, `repository:${prefix}shop:push`);
    expect((await push()).body.error?.message).toContain(`shop@${image.digest} is larger`);
    await mine.deleteManifest(`${prefix}shop`, image.digest);
    expect((await push()).status).toBe(200);
  });

  test("has so many tags, and beyond those nothing is pushed anywhere", async () => {
    const { username, password, prefix } = await login(await anAccount(64));
    await using mine = clientOf(username, password);
    const image = anImage();
    for (let count = 1; count <= limits.accountTagsMax; count += 1)
      await pushImage(mine, `${prefix}shop`, image, `t${count}`);
    const push = (name: string) => ask(username, password, `repository:${prefix}${name}:push`);
    expect(codeOf(await push("shop"))).toEqual([403, "QUOTA_EXCEEDED"]);
    expect((await push("other")).status).toBe(200);
    await pushImage(mine, `${prefix}shop`, image, "one-more");
    expect((await push("other")).body.error?.message).toMatch(/^shop has more than 100 tags/);
    await mine.deleteManifest(`${prefix}shop`, image.digest);
    expect((await push("shop")).status).toBe(200);
  });

  test("is counted one at a time, and whoever asks too often is told to wait", async () => {
    const { username, password, prefix } = await login(await anAccount(64));
    await using mine = clientOf(username, password);
    await pushImage(mine, `${prefix}shop`, anImage(), "1");
    const opened = Promise.withResolvers<void>();
    const looks = { now: 0, most: 0 };
    api.context.registry = {
      ...own,
      async listTags(...args) {
        looks.now += 1;
        looks.most = Math.max(looks.most, looks.now);
        await opened.promise;
        looks.now -= 1;
        return own.listTags(...args);
      },
    };
    try {
      const asked = Array.from({ length: 12 }, () => ask(username, password, `repository:${prefix}shop:push`));
      const first = await Promise.race(asked);
      expect(codeOf(first)).toEqual([429, "RATE_LIMITED"]);
      expect(Number(first.headers.get("retry-after"))).toBeGreaterThan(0);
      opened.resolve();
      const answers = await Promise.all(asked);
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(11);
      expect(looks.most).toBe(1);
    } finally {
      opened.resolve();
      api.context.registry = own;
    }
  });

  test("is in so many repositories and no more, and one without tags into which nobody can push is none", async () => {
    const busy = await anAccount(64);
    const { username, password, prefix } = await login(busy);
    const push = (name: string) => ask(username, password, `repository:${prefix}${name}:push`);
    for (let count = 0; count < limits.accountRepositoriesMax; count += 1)
      expect((await push(`r${count}`)).status).toBe(200);
    expect(codeOf(await push("one-more"))).toEqual([403, "QUOTA_EXCEEDED"]);
    expect((await push("r0")).status).toBe(200);
    await using mine = clientOf(username, password);
    await pushImage(mine, `${prefix}r0`, anImage(), "1");
    await nobodyPushes(busy);
    expect((await push("one-more")).status).toBe(200);
    expect(await listNames(api.db, busy.id)).toEqual(["one-more", "r0"]);
  });

  test("is what tags name: what a newer image has replaced goes once nobody can push there", async () => {
    const account = await anAccount(64);
    const { username, password, prefix } = await login(account);
    await using mine = clientOf(username, password);
    const repository = `${prefix}shop`;
    const there = async (image: { digest: string }) => (await own.findManifest(repository, image.digest)) !== null;
    const children = ["1", "2"].map((run) => anImage({ run: { Cmd: [run] } }));
    for (const image of children) await pushImage(mine, repository, image, "latest");
    const index = anIndex(children);
    await mine.putManifest(repository, index.bytes, { tag: "all", mediaType: index.mediaType });
    const replaced = anImage({ layers: [aLayer("replaced")] });
    await pushImage(mine, repository, replaced, "latest");
    expect((await ask(username, password, `repository:${repository}:push`)).status).toBe(200);
    const newest = anImage({ layers: [aLayer("newest")] });
    await pushImage(mine, repository, newest, "latest");
    expect((await ask(username, password, `repository:${repository}:push`)).status).toBe(200);
    await sweep();
    expect(await there(replaced)).toBe(true);
    await nobodyPushes(account);
    await sweep();
    expect(await Promise.all([replaced, newest, ...children].map(there))).toEqual([false, true, true, true]);
    expect((await own.findManifest(repository, "all"))?.digest).toBe(index.digest);
    expect((await readKept({ db: api.db, registry: own }, account.id, never)).manifests).toBe(4);
  });

  /** The registry tells a moment later. */
  const isNoted = ({ id }: TestUser, { digest }: { digest: string }) =>
    until("the registry to have told of it", () =>
      api.db
        .selectFrom("account_push")
        .select("digest")
        .where("user_id", "=", id)
        .where("digest", "=", digest)
        .executeTakeFirst(),
    );

  test("is also what was put by its digest alone, and that goes once nobody can push there", async () => {
    const account = await anAccount(1);
    const { username, password, prefix } = await login(account);
    await using mine = clientOf(username, password);
    const repository = `${prefix}shop`;
    const child = anImage({ layers: [randomBytes(1_200_000)] });
    await pushImage(mine, repository, child);
    const index = anIndex([child]);
    await mine.putManifest(repository, index.bytes, { mediaType: index.mediaType });
    await isNoted(account, index);
    await isNoted(account, child);
    const push = () => ask(username, password, `repository:${repository}:push`);
    expect(codeOf(await push())).toEqual([403, "QUOTA_EXCEEDED"]);
    expect(codeOf(await push())).toEqual([403, "QUOTA_EXCEEDED"]);
    expect((await readKept({ db: api.db, registry: own }, account.id, never)).manifests).toBe(2);
    await nobodyPushes(account);
    await sweep();
    for (const { digest } of [child, index]) expect(await own.findManifest(repository, digest)).toBeNull();
    expect((await push()).status).toBe(200);
    expect(await listNames(api.db, account.id)).toEqual(["shop"]);
  });

  test("is also what a tag named only before anybody looked", async () => {
    const account = await anAccount(64);
    const { username, password, prefix } = await login(account);
    await using mine = clientOf(username, password);
    const images = ["1", "2"].map((run) => anImage({ run: { Cmd: [run] } }));
    for (const image of images) await pushImage(mine, `${prefix}shop`, image, "latest");
    for (const image of images) await isNoted(account, image);
    expect((await readKept({ db: api.db, registry: own }, account.id, never)).manifests).toBe(2);
  });

  test("goes with the account also when nobody has looked at it since it was put by its digest", async () => {
    const leaver = await anAccount(64);
    const { username, password, prefix } = await login(leaver);
    await using mine = clientOf(username, password);
    const image = anImage({ layers: [aLayer("by digest")] });
    await pushImage(mine, `${prefix}shop`, image);
    await isNoted(leaver, image);
    await empty({ db: api.db, registry: own }, leaver.id, "shop", never);
    expect(await own.findManifest(`${prefix}shop`, image.digest)).toBeNull();
  });

  test("is looked at again when the registry tells of more while somebody looks", async () => {
    const account = await anAccount(64);
    const { username, password, prefix } = await login(account);
    expect((await ask(username, password, `repository:${prefix}shop:push`)).status).toBe(200);
    await nobodyPushes(account);
    const isLeft = async () => (await listLeft(api.db, 100)).some(({ userId }) => userId === account.id);
    const look = async (during: () => Promise<void>) => {
      expect(await claimCleaning(api.db, account.id, "shop")).toBe(true);
      await during();
      await endCleaning(api.db, account.id, "shop", { isFree: false });
    };
    await look(async () => {});
    expect(await isLeft()).toBe(false);
    await look(() => noteManifest(api.db, account.id, "shop", `sha256:${"0".repeat(64)}`));
    expect(await isLeft()).toBe(true);
  });

  test("is told by the registry alone", async () => {
    const account = await anAccount(64);
    const { username, password, prefix } = await login(account);
    expect((await ask(username, password, `repository:${prefix}shop:push`)).status).toBe(200);
    const target = { repository: `${prefix}shop`, digest: `sha256:${"0".repeat(64)}` };
    const tell = (secret: string, body: unknown) =>
      fetch(`${api.url}/api/v1/registry/events`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${secret}`,
          "content-type": "application/vnd.docker.distribution.events.v1+json",
        },
        body: JSON.stringify(body),
      });
    const noted = async () =>
      (await api.db.selectFrom("account_push").select("digest").where("user_id", "=", account.id).execute()).length;
    const events = [{ action: "push", target }];
    expect((await tell("wrong", { events })).status).toBe(401);
    expect(await noted()).toBe(0);
    expect((await tell(eventsSecret, { events: 1 })).status).toBe(400);
    const others = ["svc/p1/app", "accounts/me/shop", `${prefix}never-asked-for`, `accounts/${randomUUID()}/shop`];
    const more = others.map((repository) => ({ action: "push", target: { ...target, repository } }));
    expect((await tell(eventsSecret, { events: [...more, ...events, ...events] })).status).toBe(204);
    expect(await noted()).toBe(1);
    // The one is not there, and the other is no manifest.
    const { digest } = await own.pushBlob(`${prefix}shop`, randomBytes(100));
    expect((await tell(eventsSecret, { events: [{ action: "push", target: { ...target, digest } }] })).status).toBe(
      204,
    );
    const kept = await readKept({ db: api.db, registry: own }, account.id, never);
    expect([kept.manifests, await noted()]).toEqual([0, 0]);
  });

  test("is pushed to by nobody while something is being deleted there", async () => {
    const account = await anAccount(64);
    const { username, password, prefix } = await login(account);
    const push = (name: string) => ask(username, password, `repository:${prefix}${name}:push`);
    expect((await push("shop")).status).toBe(200);
    await nobodyPushes(account);
    expect(await claimCleaning(api.db, account.id, "shop")).toBe(true);
    expect(await claimCleaning(api.db, account.id, "shop")).toBe(false);
    expect(codeOf(await push("shop"))).toEqual([429, "RATE_LIMITED"]);
    expect((await push("other")).status).toBe(200);
    // It was killed.
    await sql`update account_repository set cleaning_until = now() - interval '1 ms' where user_id = ${account.id}`.execute(
      api.db,
    );
    expect((await push("shop")).status).toBe(200);
    expect(await claimCleaning(api.db, account.id, "shop")).toBe(false);
  });

  test("goes with the account, once nobody can push any more", async () => {
    const leaver = await api.newUser({ plan: { max_image_mb: 64 } });
    const admin = await api.newUser({ admin: true });
    const { username, password, prefix } = await login(leaver);
    await using mine = clientOf(username, password);
    for (const tag of ["1", "2"]) await pushImage(mine, `${prefix}shop`, anImage({ layers: [aLayer(tag)] }), tag);
    expect((await api.call("DELETE", `/admin/users/${leaver.id}`, { session: admin.session })).status).toBe(200);
    expect((await ask(username, password)).status).not.toBe(200);
    const work = deleteUserWorker({ db: api.db, registry: own, log: createLog("silent"), graceMs: 0 });
    const item = { id: 1, kind: "delete-user", key: "k", payload: { userId: leaver.id }, attempt: 1, maxAttempts: 1 };
    const waits = await work({ ...item, ageMs: 0 }, never);
    expect(waits).toMatchObject({ refund: true, retryAfterMs: expect.any(Number) });
    expect(await own.listTags(`${prefix}shop`, 10)).toHaveLength(2);
    await sql`update account_repository set push_until = now() where user_id = ${leaver.id}`.execute(api.db);
    expect(await work({ ...item, ageMs: 0 }, never)).toEqual({ state: "done" });
    expect(await own.listTags(`${prefix}shop`, 10)).toEqual([]);
  });

  test("goes with the account whatever it is: malformed, replaced, or named by a tag and not there", async () => {
    const leaver = await anAccount(64);
    const admin = await api.newUser({ admin: true });
    const { username, password, prefix } = await login(leaver);
    await using mine = clientOf(username, password);
    const repository = `${prefix}shop`;
    const replaced = anImage({ layers: [aLayer("replaced")] });
    const odd = anImage({ layers: [aLayer("odd")], descriptor: { size: -1 } });
    const lost = anImage({ layers: [aLayer("lost")] });
    await pushImage(mine, repository, replaced, "latest");
    await pushImage(mine, repository, odd, "odd");
    expect((await ask(username, password, `repository:${repository}:push`)).status).toBe(200);
    await pushImage(mine, repository, anImage(), "latest");
    await pushImage(mine, repository, lost, "lost");
    const revision = `_manifests/revisions/sha256/${lost.digest.slice("sha256:".length)}`;
    await rm(join(docker.directory, "data/docker/registry/v2/repositories", repository, revision), { recursive: true });
    expect(await own.findManifest(repository, "lost")).toBeNull();
    expect((await api.call("DELETE", `/admin/users/${leaver.id}`, { session: admin.session })).status).toBe(200);
    await nobodyPushes(leaver);
    const work = deleteUserWorker({ db: api.db, registry: own, log: createLog("silent"), graceMs: 0 });
    const item = { id: 1, kind: "delete-user", key: "k", payload: { userId: leaver.id }, attempt: 1, maxAttempts: 1 };
    expect(await work({ ...item, ageMs: 0 }, never)).toEqual({ state: "done" });
    expect(await own.listTags(repository, 10)).toEqual(["lost"]);
    for (const { digest } of [replaced, odd, anImage()]) expect(await own.findManifest(repository, digest)).toBeNull();
  });
});
