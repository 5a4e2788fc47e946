import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { defaultCacheDir, nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { binaries } from "@svc/deploy/postgres";
import { layNode } from "@svc/deploy/rootfs";
import { programs } from "@svc/runtime/program-list";
import { type Argv, ownProgram, type ProgramName } from "@svc/runtime/programs";
import { expect, test } from "vitest";
import { openDebianRoot } from "../support/debian-root.ts";

const setupMs = 1_200_000;
const cacheDir = defaultCacheDir(process.env);

/** What the README asks for, and an address for names. */
async function prepare(dir: string): Promise<void> {
  await layNode(dir, { nodeBinary: nodeBinary(), cacheDir, signal: AbortSignal.timeout(setupMs) });
  await copyFile("/etc/resolv.conf", join(dir, "etc/resolv.conf"));
}

/** Asks every program that the platform and its tests start for a word. */
const questions: Argv[] = [
  ...(Object.keys(programs) as ProgramName[])
    .filter((name) => programs[name].need !== "optional")
    .map((name): Argv => [name, ...(programs[name].asks ?? ["--version"])]),
  ...["initdb", "postgres"].map((name): Argv => [ownProgram(join(binaries(), name)), "--version"]),
  [nodeBinary(), "--version"],
];

test.each(["bookworm", "trixie"] as const)(
  "on a bare %s set-up brings every program that is started",
  async (suite) => {
    await using root = await openDebianRoot({ suite, packages: ["git"], prepare, sees: [repositoryRoot] });
    const module = JSON.stringify(join(repositoryRoot, "deploy/setup/programs.mjs"));
    const setUp = `const { ensurePrograms } = await import(${module}); await ensurePrograms({ forTests: true });`;
    await root.run(["node", "--input-type=module", "--eval", setUp], setupMs);
    const silent: string[] = [];
    for (const question of questions) {
      await root.run(question).catch((error: unknown) => silent.push(`${question.join(" ")}: ${error}`));
    }
    expect(silent).toEqual([]);
  },
);
