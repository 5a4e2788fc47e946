import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTokenSigner } from "@svc/registry";
import { afterEach, beforeEach, expect, test } from "vitest";
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
  expect(await ensureKeyFiles(files(), now)).toBe(true);
  const made = read();
  createTokenSigner(made, now);
  createTokenSigner(made, new Date("2059-12-31T00:00:00Z"));
  expect(statSync(files().keyFile).mode & 0o777).toBe(0o600);
  expect(await ensureKeyFiles(files(), now)).toBe(false);
  expect(read()).toEqual(made);
});

test.each(["keyFile", "certificateFile"] as const)("without its %s both are made anew", async (missing) => {
  await ensureKeyFiles(files(), now);
  const before = read();
  rmSync(files()[missing]);
  expect(await ensureKeyFiles(files(), now)).toBe(true);
  expect(read()).not.toEqual(before);
  createTokenSigner(read(), now);
});
