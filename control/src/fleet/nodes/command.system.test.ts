import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import { tokenKeySettings } from "../registry-tokens/testing.ts";

const main = fileURLToPath(new URL("../../main.ts", import.meta.url));

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** The real program, as an operator runs it. */
async function makeTokens(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const env = {
    PATH: process.env["PATH"],
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
    ...tokenKeySettings,
    SVC_DATABASE_URL: database.url,
    SVC_MASTER_KEY: randomBytes(32).toString("base64"),
    SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
  };
  const child = spawnProgram([thisNode, main, "bootstrap-token", ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "close");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await ended;
  return { code: child.exitCode, stdout, stderr };
}

test("several machines are let in by a token each", async () => {
  const { code, stdout, stderr } = await makeTokens("--role", "node", "--count", "3");
  expect([code, stderr]).toEqual([0, ""]);
  const tokens = stdout.trimEnd().split("\n");
  expect(new Set(tokens).size).toBe(3);
  for (const token of tokens) expect(token).toMatch(/^svcn1\./);
  const rows = await database.db.selectFrom("bootstrap_token").select(["role", "used_at"]).execute();
  expect(rows).toEqual(Array.from({ length: 3 }, () => ({ role: "node", used_at: null })));
});

test.each(["0", "101"])("a count of %s is refused with a word on what to do", async (count) => {
  const refused = await makeTokens("--role", "edge", "--count", count);
  expect(refused).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("--count is a number") });
});
