import { createHash, randomBytes, sign, X509Certificate } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import { freePorts } from "./ports.ts";
import { createProgram, type Program } from "./program.ts";
import { provideRegistry } from "./registry.ts";
import type { LocalRegistry } from "./registry-address.ts";

const repository = "svc/p1/bundle";
const manifestType = "application/vnd.oci.image.manifest.v1+json";
const megabyte = 1024 * 1024;

let dir = "";
let port = 0;
let registry: LocalRegistry;
let program: Program;
const said: string[] = [];

const keyFile = () => join(dir, "secrets", "key.pem");

async function start(): Promise<void> {
  registry = await provideRegistry({
    ...{ dir: join(dir, "registry"), port, env: process.env },
    secrets: {
      registryTokenKey: keyFile(),
      registryTokenCertificate: join(dir, "secrets", "cert.pem"),
      registryEventsSecret: join(dir, "secrets", "events"),
    },
    ...{ apiUrl: "http://127.0.0.1:9", log: (line: string) => said.push(line) },
  });
  program = createProgram(
    systemClock,
    registry.spec,
    { runRecords: join(dir, "run"), logs: join(dir, "log") },
    () => {},
  );
  await program.start();
}
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "svc-registry-"));
  for (const name of ["run", "log"]) mkdirSync(join(dir, name));
  port = (await freePorts(systemRandom)).registry;
  await start();
});
afterEach(async () => {
  await program.stop();
  rmSync(dir, { recursive: true, force: true });
});

const digestOf = (content: Buffer) => `sha256:${createHash("sha256").update(content).digest("hex")}`;

/** A token as control makes them, for everything in the repository. */
function token(): string {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const certificate = new X509Certificate(readFileSync(join(dir, "secrets", "cert.pem")));
  const nowSeconds = Math.floor(Date.now() / 1000);
  const access = [{ type: "repository", name: repository, actions: ["pull", "push", "delete"] }];
  const signed = [
    encode({ typ: "JWT", alg: "ES256", x5c: [certificate.raw.toString("base64")] }),
    encode({ iss: "svc-control", aud: "svc-registry", nbf: nowSeconds - 60, exp: nowSeconds + 60, access }),
  ].join(".");
  const key = { key: readFileSync(keyFile()), dsaEncoding: "ieee-p1363" as const };
  return `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
}

async function call(method: string, path: string, expected: number, body?: Buffer, type = "application/octet-stream") {
  const reply = await fetch(new URL(path, registry.url), {
    method,
    headers: {
      authorization: `Bearer ${token()}`,
      accept: manifestType,
      ...(body !== undefined && { "content-type": type }),
    },
    ...(body !== undefined && { body: new Uint8Array(body) }),
  });
  expect(reply.status, `${method} ${path}`).toBe(expected);
  return reply;
}

async function pushBlob(content: Buffer) {
  const digest = digestOf(content);
  const begun = await call("POST", `/v2/${repository}/blobs/uploads/`, 202);
  const at = new URL(begun.headers.get("location") ?? "", registry.url);
  at.searchParams.set("digest", digest);
  await call("PUT", `${at.pathname}${at.search}`, 201, content);
  return { digest, size: content.length };
}

/** An artifact without a tag, as archives and bundles were pushed at all times. Returns the digest of its manifest. */
async function pushArtifact(content: Buffer): Promise<string> {
  const manifest = Buffer.from(
    JSON.stringify({
      ...{ schemaVersion: 2, mediaType: manifestType },
      config: { mediaType: "application/vnd.svc.bundle.v1+json", ...(await pushBlob(Buffer.from("{}"))) },
      layers: [{ mediaType: "application/vnd.svc.bundle.v1.tar+gzip", ...(await pushBlob(content)) }],
    }),
  );
  const digest = digestOf(manifest);
  await call("PUT", `/v2/${repository}/manifests/${digest}`, 201, manifest, manifestType);
  return digest;
}

async function bytesOnDisk(): Promise<number> {
  const files = await readdir(join(dir, "registry", "data"), { recursive: true, withFileTypes: true });
  const sizes = await Promise.all(
    files.filter((file) => file.isFile()).map(async (file) => (await stat(join(file.parentPath, file.name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

test("a restart frees what was deleted, keeps what was not, and the same bytes can be pushed again", async () => {
  const [kept, deleted] = [randomBytes(megabyte), randomBytes(8 * megabyte)];
  const keptDigest = await pushArtifact(kept);
  const deletedDigest = await pushArtifact(deleted);
  await call("DELETE", `/v2/${repository}/manifests/${deletedDigest}`, 202);
  expect(await bytesOnDisk()).toBeGreaterThan(9 * megabyte);

  await program.stop();
  await start();
  expect(said).toEqual([]);
  expect(await bytesOnDisk()).toBeLessThan(1.1 * megabyte);
  await call("GET", `/v2/${repository}/manifests/${keptDigest}`, 200);
  const layer = await call("GET", `/v2/${repository}/blobs/${digestOf(kept)}`, 200);
  expect(digestOf(Buffer.from(await layer.arrayBuffer()))).toBe(digestOf(kept));
  await call("GET", `/v2/${repository}/manifests/${deletedDigest}`, 404);

  expect(await pushArtifact(deleted)).toBe(deletedDigest);
  await call("GET", `/v2/${repository}/blobs/${digestOf(deleted)}`, 200);
});

test("nobody gets in without a token, and a restart knows the same key", async () => {
  const withoutToken = async (method: string, path: string) => {
    const reply = await fetch(new URL(path, registry.url), { method });
    await reply.arrayBuffer();
    return reply.status;
  };
  const digest = await pushArtifact(randomBytes(10));
  const key = readFileSync(keyFile(), "utf8");
  await program.stop();
  await start();
  expect(readFileSync(keyFile(), "utf8")).toBe(key);
  await call("GET", `/v2/${repository}/manifests/${digest}`, 200);
  for (const path of ["/v2/", "/v2/_catalog", `/v2/${repository}/tags/list`])
    expect(await withoutToken("GET", path)).toBe(401);
  expect(await withoutToken("POST", `/v2/${repository}/blobs/uploads/`)).toBe(401);
  // A token of a project is not one for the list of all.
  await call("GET", "/v2/_catalog", 401);
});
