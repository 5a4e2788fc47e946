import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError, readConfig } from "../config.ts";
import { tokenKeySettings } from "../fleet/registry-tokens/testing.ts";
import { isGuessable } from "./unsafe.ts";

const dir = mkdtempSync(join(tmpdir(), "svc-settings-"));
afterAll(() => rmSync(dir, { recursive: true }));
const file = join(dir, "pem");
writeFileSync(file, "a certificate");
const etcdFiles = { SVC_ETCD_CA_FILE: file, SVC_ETCD_CERT_FILE: file, SVC_ETCD_KEY_FILE: file };
const bucket = { SVC_S3_BUCKET: "b-1", SVC_S3_ACCESS_KEY_ID: "k", SVC_S3_SECRET_ACCESS_KEY_FILE: file };
const tlsEtcd = { SVC_ETCD_ENDPOINTS: "https://etcd-1.test:2379" };
const key = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const random = key(randomBytes(32));

const read = (settings: Record<string, string>) =>
  readConfig(new Date(), {
    ...tokenKeySettings,
    SVC_DATABASE_URL: "postgres://svc@127.0.0.1/svc",
    SVC_MASTER_KEY: random,
    SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
    ...settings,
  });

describe("refused, with what to do", () => {
  test.each<[settings: Record<string, string>, says: RegExp]>([
    [{ SVC_ETCD_ENDPOINTS: "http://10.0.0.5:2379" }, /^SVC_ETCD_ENDPOINTS: .*in the clear.*certificates/],
    [{ ...etcdFiles, SVC_ETCD_ENDPOINTS: "https://etcd-1.test:2379,http://etcd-2.test:2379" }, /^SVC_ETCD_ENDPOINTS: /],
    [{ ...tlsEtcd, SVC_ETCD_CA_FILE: file }, /^SVC_ETCD_CERT_FILE: .*--client-cert-auth/],
    [{ ...tlsEtcd, SVC_ETCD_CA_FILE: file, SVC_ETCD_CERT_FILE: file }, /^SVC_ETCD_KEY_FILE: set it/],
    [tlsEtcd, /^SVC_ETCD_CA_FILE: set it/],
    [etcdFiles, /^SVC_ETCD_ENDPOINTS: certificates are set/],
    [{ SVC_REGISTRY_URL: "http://registry.test:5000" }, /^SVC_REGISTRY_URL: .*in the clear.*https:\/\//],
    [{ SVC_REGISTRY_URL: "http://127.0.0.1.registry.test:5000" }, /^SVC_REGISTRY_URL: /],
    [{ ...bucket, SVC_S3_ENDPOINT: "http://s3.test" }, /^SVC_S3_ENDPOINT: .*in the clear.*https:\/\//],
    [{ SVC_API_URL: "http://control.test" }, /^SVC_API_URL: .*in the clear.*TLS/],
    [{ SVC_DATABASE_URL: "postgres://svc@db.test/svc" }, /^SVC_DATABASE_URL: .*sslmode=verify-full/],
    [{ SVC_DATABASE_URL: "postgres://svc@db.test/svc?sslmode=disable" }, /^SVC_DATABASE_URL: /],
    [{ SVC_DATABASE_URL: "postgres://svc@db.test/svc?sslmode=prefer" }, /^SVC_DATABASE_URL: /],
    [{ SVC_DATABASE_URL: "postgres://svc@db.test/svc?sslmode=no-verify" }, /^SVC_DATABASE_URL: /],
    [{ SVC_DATABASE_URL: "postgres://svc@db.test/svc?sslmode=require&uselibpqcompat=true" }, /^SVC_DATABASE_URL: /],
    [{ SVC_DATABASE_URL: "postgres://svc@localhost/svc?host=db.test" }, /^SVC_DATABASE_URL: /],
    [
      { SVC_API_URL: "https://sites.test", SVC_CONTENT_URL: "https://sites.test" },
      /^SVC_CONTENT_URL: sites of sites\.test would share cookies.*domain of their own/,
    ],
    [{ SVC_API_URL: "https://api.sites.test", SVC_CONTENT_URL: "https://sites.test" }, /^SVC_CONTENT_URL: /],
    [{ SVC_TRUST_PROXY: "10.0.0.0/8,0.0.0.0/0" }, /^SVC_TRUST_PROXY: 0\.0\.0\.0\/0 believes strangers/],
    [{ SVC_TRUST_PROXY: "::/0" }, /^SVC_TRUST_PROXY: /],
    [{ SVC_METRICS_LISTEN: "0.0.0.0:9100" }, /^SVC_METRICS_LISTEN: must be one private address/],
    [{ SVC_METRICS_LISTEN: "198.51.100.7:9100" }, /^SVC_METRICS_LISTEN: /],
    [{ SVC_MASTER_KEY: key(Buffer.alloc(32)) }, /^SVC_MASTER_KEY: the first key is not random.*rotate-key/],
    [{ SVC_MASTER_KEY: `${key(Buffer.alloc(32, 7))}\n${random}` }, /^SVC_MASTER_KEY: /],
    [{ SVC_AUTH_SECRET: "s".repeat(64) }, /^SVC_AUTH_SECRET: .*randomness/],
    [{ SVC_PLAINTEXT_ALLOW: "everything" }, /^SVC_PLAINTEXT_ALLOW/],
  ])("%j", (settings, says) => {
    expect(() => read(settings)).toThrow(ConfigError);
    expect(() => read(settings)).toThrow(says);
  });
});

describe("taken", () => {
  test.each<Record<string, string>>([
    { ...tlsEtcd, ...etcdFiles },
    { SVC_ETCD_ENDPOINTS: "http://localhost:2379,http://[::1]:2379,http://127.0.0.9:2379" },
    { SVC_REGISTRY_URL: "https://registry.test" },
    { ...bucket, SVC_S3_ENDPOINT: "http://127.0.0.1:9000" },
    { ...bucket, SVC_S3_ENDPOINT: "http://s3.test", SVC_PLAINTEXT_ALLOW: "s3" },
    { SVC_DATABASE_URL: "postgres://svc@db.test/svc?sslmode=verify-full&sslrootcert=/etc/svc/db.pem" },
    { SVC_DATABASE_URL: "postgres://svc@db.test/svc?sslmode=require" },
    { SVC_DATABASE_URL: "postgres://svc@[::1]/svc" },
    { SVC_DATABASE_URL: "postgres://svc@%2Frun%2Fpostgresql/svc" },
    { SVC_DATABASE_URL: "postgres:///svc?host=/run/postgresql" },
    // A host beside the sites, and one that they are below of: cookies of the one do not go to the other by themselves.
    { SVC_API_URL: "https://api.svc.test", SVC_CONTENT_URL: "https://sites.svc.test" },
    { SVC_API_URL: "http://localhost:4000", SVC_CONTENT_URL: "http://svc.localhost:8080" },
    { SVC_API_URL: "https://mysites.test", SVC_CONTENT_URL: "https://sites.test" },
    { SVC_TRUST_PROXY: "loopback,10.0.0.0/8,fd00::/8,198.51.100.7" },
    { SVC_METRICS_LISTEN: "10.0.0.7:9100" },
    // The way out of a key that is not random.
    { SVC_MASTER_KEY: `${random}\n${key(Buffer.alloc(32))}` },
    {
      ...{ SVC_API_URL: "http://control.test", SVC_REGISTRY_URL: "http://registry.test" },
      ...{ SVC_ETCD_ENDPOINTS: "http://etcd.test:2379", SVC_DATABASE_URL: "postgres://svc@db.test/svc" },
      SVC_PLAINTEXT_ALLOW: "api,etcd,postgres,registry",
    },
  ])("%j", (settings) => {
    expect(() => read(settings)).not.toThrow();
  });
});

test("what is random is not guessable", () => {
  for (let n = 0; n < 1000; n += 1) expect(isGuessable(createHash("sha256").update(String(n)).digest())).toBe(false);
  expect(isGuessable(Buffer.from(Array.from({ length: 32 }, (_, n) => n)))).toBe(true);
  expect(isGuessable(Buffer.from("01".repeat(16)))).toBe(true);
});
