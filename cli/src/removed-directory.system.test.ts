import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { thisNode } from "@svc/runtime/programs";
import { expect, test } from "vitest";
import { aUser, ok, startApi } from "./testing/api.ts";
import { aDirectory, testedProgram } from "./testing/svc.ts";

/** Runs the program in a directory that somebody else removes under it. */
async function svcInRemoved(argv: readonly string[], apiUrl: string): Promise<unknown> {
  await using home = await aDirectory({ "gone/.keep": "" });
  const gone = join(home.path, "gone");
  const script = `
    import { rmSync } from "node:fs";
    const { spawnProgram, thisNode } = await import(${JSON.stringify(import.meta.resolve("@svc/runtime/programs"))});
    process.chdir(${JSON.stringify(gone)});
    rmSync(${JSON.stringify(gone)}, { recursive: true });
    const env = { PATH: process.env.PATH, HOME: ${JSON.stringify(home.path)}, PWD: ${JSON.stringify(gone)},
      SVC_TOKEN: "svc_key-secret", SVC_API_URL: ${JSON.stringify(apiUrl)} };
    const argv = [thisNode, ...${JSON.stringify([testedProgram().program, ...argv])}];
    spawnProgram(argv, { env, stdio: ["ignore", "inherit", "ignore"] }).on("exit", (status) => console.log(status));
  `;
  const { stdout } = await run([thisNode, "--input-type=module", "--eval", script]);
  const [envelope = "", status] = stdout.split("\n");
  return { status: Number(status), envelope: JSON.parse(envelope) };
}

test("in a directory that was removed a command that needs nothing of it works, and another says what is missing", async () => {
  await using api = await startApi({ "GET /api/v1/me": ok({ user: aUser, scopes: null, projectIds: null }) });
  expect(await svcInRemoved(["whoami", "--json"], api.url)).toMatchObject({ status: 0, envelope: { ok: true } });
  expect(await svcInRemoved(["deploy", "--json"], api.url)).toMatchObject({
    status: 2,
    envelope: { ok: false, operation: "deploy", error: { code: "MANIFEST_NOT_FOUND" } },
  });
});
