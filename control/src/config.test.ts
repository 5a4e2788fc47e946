import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError, readConfig } from "./config.ts";
import { tokenKeySettings } from "./fleet/registry-tokens/testing.ts";

const required = {
  ...tokenKeySettings,
  SVC_DATABASE_URL: "postgres://svc@127.0.0.1/svc",
  SVC_MASTER_KEY: randomBytes(32).toString("base64"),
  SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
};
const endpointsOf = (text: string) => readConfig(new Date(), { ...required, SVC_ETCD_ENDPOINTS: text }).etcd.endpoints;

describe("members of etcd", () => {
  test.each(["http://127.0.0.1:2379", "http://127.0.0.1:2379, http://127.0.0.1:2381", "http://[::1]:2379"])(
    "may be %s",
    (text) => {
      expect(endpointsOf(text)).toEqual(text.split(", "));
    },
  );

  test.each([
    { when: "it has no scheme", text: "127.0.0.1:2379" },
    { when: "one of several has no scheme", text: "http://127.0.0.1:2379,etcd-2.svc.test:2379" },
    { when: "it is of another scheme", text: "unix:///run/etcd" },
    { when: "it has no host", text: "http://" },
    { when: "it has a user", text: "http://root@127.0.0.1:2379" },
    { when: "it has a password", text: "https://root:hunter2@etcd.svc.test:2379" },
    { when: "there is none", text: " , " },
  ])("are refused when $when", ({ text }) => {
    const read = () => endpointsOf(text);
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(/^SVC_ETCD_ENDPOINTS: each must be an http/);
    expect(read).not.toThrow(/hunter2/);
  });
});

describe("the secret by which the registry tells what was pushed", () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-config-"));
  afterAll(() => rmSync(dir, { recursive: true }));
  const read = (text: string) => {
    const file = join(dir, "secret");
    writeFileSync(file, text);
    return readConfig(new Date(), { ...required, SVC_REGISTRY_EVENTS_SECRET_FILE: file }).registry.eventsSecret;
  };

  test("is the file's, and there need be none", () => {
    const secret = randomBytes(32).toString("hex");
    expect(read(`${secret}\n`)).toBe(secret);
    expect(readConfig(new Date(), required).registry.eventsSecret).toBeNull();
  });

  test.each([
    { when: "it is short", text: randomBytes(8).toString("hex") },
    { when: "it is guessable", text: "a".repeat(64) },
  ])("is refused when $when", ({ text }) => {
    expect(() => read(text)).toThrow(/^SVC_REGISTRY_EVENTS_SECRET_FILE: has to hold 32 random characters/);
  });
});

describe("what signs the tokens of the registry", () => {
  const { SVC_REGISTRY_TOKEN_KEY_FILE: key, SVC_REGISTRY_TOKEN_CERT_FILE: certificate } = tokenKeySettings;

  test("is read from its files", () => {
    expect(readConfig(new Date(), required).registry.tokenKey).toEqual({
      key: expect.stringMatching(/^-----BEGIN PRIVATE KEY-----/),
      certificate: expect.stringMatching(/^-----BEGIN CERTIFICATE-----/),
    });
  });

  test.each([
    {
      when: "it is not set",
      change: { SVC_REGISTRY_TOKEN_KEY_FILE: "" },
      says: /^SVC_REGISTRY_TOKEN_KEY_FILE: set it/,
    },
    {
      when: "its certificate is not set",
      change: { SVC_REGISTRY_TOKEN_CERT_FILE: "" },
      says: /^SVC_REGISTRY_TOKEN_CERT_FILE: set it/,
    },
    { when: "it is not there", change: { SVC_REGISTRY_TOKEN_KEY_FILE: "/nowhere" }, says: /cannot read \/nowhere$/ },
    { when: "it is no key", change: { SVC_REGISTRY_TOKEN_KEY_FILE: certificate }, says: /the key is not PEM$/ },
    {
      when: "its certificate is none",
      change: { SVC_REGISTRY_TOKEN_CERT_FILE: key },
      says: /the certificate is not PEM$/,
    },
  ])("is refused when $when", ({ change, says }) => {
    const read = () => readConfig(new Date(), { ...required, ...change });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(says);
  });
});

describe("the bucket outside of this site", () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-config-"));
  afterAll(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "secret");
  writeFileSync(file, "a/secret+key\n");
  const bucket = {
    ...{ SVC_S3_ENDPOINT: "https://s3.test/", SVC_S3_BUCKET: "svc-offsite", SVC_S3_ACCESS_KEY_ID: "AKIDTEST" },
    SVC_S3_SECRET_ACCESS_KEY_FILE: file,
  };
  const read = (settings: Record<string, string>) => readConfig(new Date(), { ...required, ...settings }).offsite;

  test("is what the settings say, and there need be none", () => {
    expect(read({})).toBeNull();
    expect(read(bucket)).toEqual({
      ...{ endpoint: "https://s3.test", bucket: "svc-offsite", region: "us-east-1", prefix: "" },
      ...{ accessKeyId: "AKIDTEST", secretAccessKey: "a/secret+key" },
    });
    const named = read({ ...bucket, SVC_S3_REGION: "eu-central-1", SVC_S3_PREFIX: "svc/production" });
    expect(named).toMatchObject({ region: "eu-central-1", prefix: "svc/production/" });
  });

  test.each<[settings: Record<string, string>, says: RegExp]>([
    [{ ...bucket, SVC_S3_BUCKET: "" }, /^SVC_S3_BUCKET: set it as well/],
    [{ SVC_S3_REGION: "eu-central-1" }, /^SVC_S3_ENDPOINT: set it as well/],
    [{ SVC_S3_PREFIX: "svc" }, /^SVC_S3_ENDPOINT: set it as well/],
    [{ ...bucket, SVC_S3_SECRET_ACCESS_KEY_FILE: "/nowhere" }, /^SVC_S3_SECRET_ACCESS_KEY_FILE: cannot read/],
    [{ ...bucket, SVC_S3_BUCKET: "a/b" }, /^SVC_S3_BUCKET: must be/],
    [{ ...bucket, SVC_S3_PREFIX: "../other" }, /^SVC_S3_PREFIX: must not/],
    [{ ...bucket, SVC_S3_PREFIX: "/svc" }, /^SVC_S3_PREFIX: must be/],
    [{ ...bucket, SVC_S3_ENDPOINT: "s3.test" }, /^SVC_S3_ENDPOINT/],
  ])("is refused: %j", (settings, says) => {
    expect(() => read(settings)).toThrow(says);
  });
});

describe("the records that prove the content domain", () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-config-"));
  afterAll(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "dns-key");
  writeFileSync(file, randomBytes(32).toString("base64"));
  const short = join(dir, "dns-key-short");
  writeFileSync(short, "c2hvcnQ=");
  const base = { SVC_CONTENT_URL: "https://sites.svc.example", SVC_ACME_DIRECTORY: "https://ca.test/dir" };
  const update = {
    ...{ SVC_ACME_DNS_SERVER: "10.0.0.53", SVC_ACME_DNS_KEY_NAME: "svc-acme", SVC_ACME_DNS_KEY_FILE: file },
  };
  const read = (settings: Record<string, string>) =>
    readConfig(new Date(), { ...required, ...base, ...settings }).acme?.wildcard;

  test("are written by nobody, by messages, or by a program", () => {
    expect(read({})).toBeNull();
    expect(read(update)).toMatchObject({
      name: "*.sites.svc.example",
      dns: { by: "update", server: { host: "10.0.0.53", port: 53 }, zone: "svc.example", key: { name: "svc-acme" } },
    });
    const elsewhere = read({
      ...update,
      SVC_ACME_DNS_SERVER: "[fd00::53]:5353",
      SVC_ACME_DNS_ZONE: "sites.svc.example",
    });
    expect(elsewhere?.dns).toMatchObject({ server: { host: "fd00::53", port: 5353 }, zone: "sites.svc.example" });
    expect(read({ SVC_ACME_DNS_HOOK: "/opt/dns" })?.dns).toEqual({ by: "hook", program: "/opt/dns" });
  });

  test.each<[Record<string, string>, RegExp]>([
    [{ ...update, SVC_ACME_DNS_HOOK: "/opt/dns" }, /^SVC_ACME_DNS_HOOK: set it, or/],
    [{ ...update, SVC_ACME_DNS_SERVER: "" }, /^SVC_ACME_DNS_SERVER: set it as well/],
    [{ ...update, SVC_ACME_DNS_KEY_NAME: "" }, /^SVC_ACME_DNS_KEY_NAME: set it as well/],
    [{ ...update, SVC_ACME_DNS_KEY_FILE: "" }, /^SVC_ACME_DNS_KEY_FILE: set it as well/],
    [{ ...update, SVC_ACME_DNS_KEY_FILE: short }, /^SVC_ACME_DNS_KEY_FILE: has to hold/],
    [{ ...update, SVC_ACME_DNS_SERVER: "ns.svc.example" }, /^SVC_ACME_DNS_SERVER: must be an address/],
    [{ ...update, SVC_ACME_DNS_KEY_NAME: "a b" }, /^SVC_ACME_DNS_KEY_NAME: must be/],
    [{ SVC_ACME_DNS_HOOK: "dns" }, /^SVC_ACME_DNS_HOOK: must be the absolute path/],
    [{ SVC_ACME_DIRECTORY: "", SVC_ACME_DNS_HOOK: "/opt/dns" }, /^SVC_ACME_DIRECTORY: set it/],
  ])("%o is refused", (settings, message) => {
    expect(() => read(settings)).toThrow(message);
  });
});
