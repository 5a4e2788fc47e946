import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { anAuthority } from "../testing/certificates.ts";
import { createCredentialStore } from "./credentials.ts";

const id = "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b";
let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-credentials-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test("a certificate for edges that was left from another key keeps nobody from the node's own", async () => {
  const authority = await anAuthority();
  const store = createCredentialStore(dir, pino({ level: "silent" }));
  await authority.certify(dir, { id, address: "127.0.0.8" });
  await store.refresh();
  const before = store.current();
  expect(before?.entrance).not.toBeNull();
  // As an agent does that knows of no entrances.
  await authority.certify(dir, { id });
  await store.refresh();
  expect(store.current()?.pem.cert).not.toBe(before?.pem.cert);
  expect(store.current()?.entrance).toBeNull();
});
