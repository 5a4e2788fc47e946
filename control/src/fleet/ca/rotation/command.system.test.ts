import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../../../stores/db/testing.ts";
import { createSecrets } from "../../../stores/secrets.ts";
import { tokenKeySettings } from "../../registry-tokens/testing.ts";
import { openAuthority } from "../authority.ts";

const main = fileURLToPath(new URL("../../../main.ts", import.meta.url));
const key = randomBytes(32);

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** The real program, as an operator runs it. */
async function run(...args: string[]): Promise<{ code: number; output: string }> {
  const env = {
    PATH: process.env["PATH"],
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
    ...tokenKeySettings,
    SVC_DATABASE_URL: database.url,
    SVC_MASTER_KEY: key.toString("base64"),
    SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
  };
  const child = spawnProgram([thisNode, main, "rotate-ca", ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "close");
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await ended;
  return { code: child.exitCode ?? -1, output: output + errors };
}

// Each start of the program takes a while: a few of them per test.
test("a replacement needs a word on what to do, and an authority", async () => {
  expect(await run("now")).toMatchObject({ code: 2, output: expect.stringContaining("needs start or status") });
  expect(await run("start")).toMatchObject({ code: 2, output: expect.stringContaining("no authority yet") });
});

describe("an operator", () => {
  test("sees that there was no replacement, and starts one", async () => {
    const { caSha256 } = await openAuthority(database.db, createSecrets([key]), {
      clock: systemClock,
      random: systemRandom,
    });
    expect((await run("status")).output).toBe(`authority ${caSha256}\nIt was never replaced.\n`);
    const replaced = expect.stringContaining(`in the place of ${caSha256}`);
    expect(await run("start")).toMatchObject({ code: 0, output: replaced });
  });

  test("cannot start another, and sees how it stands", async () => {
    expect(await run("start")).toMatchObject({ code: 2, output: expect.stringContaining("being replaced already") });
    const status = await run("status");
    expect(status).toMatchObject({ code: 0, output: expect.stringContaining("0 machines moved") });
    expect(status.output).not.toContain("PRIVATE KEY");
    const lines = await database.db.selectFrom("audit").select(["action", "user_id"]).execute();
    expect(lines).toEqual([{ action: "ca.rotate", user_id: null }]);
  });
});
