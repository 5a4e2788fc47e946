import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTokenSigner } from "@svc/registry";
import { systemRandom } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import { aTokenKey } from "../../../../registry/src/testing/token-key.ts";
import { ensureKeyFiles } from "./key-files.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-key-files-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

const now = new Date("2030-01-01T00:00:00Z");
const files = () => ({ keyFile: join(dir, "secrets", "key.pem"), certificateFile: join(dir, "cert.pem") });
const read = () => ({
  key: readFileSync(files().keyFile, "utf8"),
  certificate: readFileSync(files().certificateFile, "utf8"),
});

test("a key and its certificate are made once, and fit for decades", async () => {
  expect(await ensureKeyFiles(files(), now)).toBe("both");
  const made = read();
  createTokenSigner(systemRandom, made, now);
  createTokenSigner(systemRandom, made, new Date("2059-12-31T00:00:00Z"));
  expect(statSync(files().keyFile).mode & 0o777).toBe(0o600);
  expect(await ensureKeyFiles(files(), now)).toBe("nothing");
  expect(read()).toEqual(made);
});

test("without a key both are made anew", async () => {
  await ensureKeyFiles(files(), now);
  const before = read();
  rmSync(files().keyFile);
  expect(await ensureKeyFiles(files(), now)).toBe("both");
  expect(read().key).not.toBe(before.key);
  createTokenSigner(systemRandom, read(), now);
});

test("without a certificate the key that is there gets one", async () => {
  await ensureKeyFiles(files(), now);
  const before = read();
  rmSync(files().certificateFile);
  expect(await ensureKeyFiles(files(), now)).toBe("certificate");
  expect(read().key).toBe(before.key);
  createTokenSigner(systemRandom, read(), now);
});

test("a certificate of another key is replaced by one that fits", async () => {
  await ensureKeyFiles(files(), now);
  const { key } = read();
  writeFileSync(files().certificateFile, (await aTokenKey()).certificate);
  expect(await ensureKeyFiles(files(), now)).toBe("certificate");
  expect(read().key).toBe(key);
  createTokenSigner(systemRandom, read(), now);
});

test("several that make them at once leave two that fit, and nothing else", async () => {
  const made = await Promise.all(Array.from({ length: 8 }, () => ensureKeyFiles(files(), now)));
  createTokenSigner(systemRandom, read(), now);
  expect(made.filter((what) => what === "both")).toHaveLength(1);
  expect([...readdirSync(dir), ...readdirSync(join(dir, "secrets"))].sort()).toEqual([
    "cert.pem",
    "key.pem",
    "secrets",
  ]);
});

test.each([
  ["keyFile", "key"],
  ["certificateFile", "certificate"],
] as const)("a %s that is something else stays as it is", async (which, what) => {
  await ensureKeyFiles(files(), now);
  writeFileSync(files()[which], "notes of mine");
  await expect(ensureKeyFiles(files(), now)).rejects.toThrow(`the ${what} is not PEM`);
  expect(readFileSync(files()[which], "utf8")).toBe("notes of mine");
});
