import { existsSync } from "node:fs";
import { join } from "node:path";
import { requireCurrent } from "./generated.mjs";
import { findProgram, runQuietly, SetupError } from "./run.mjs";

/** Whether the branch `main` already has protobuf files to stay compatible with. */
function mainHasProto(root) {
  if (!existsSync(join(root, ".git")) || findProgram("git") === null) return false;
  try {
    return runQuietly(["git", "ls-tree", "--name-only", "main", "proto/svc"], { cwd: root }).trim() !== "";
  } catch {
    return false;
  }
}

const steps = [
  { name: "types", argv: ["tsc", "-p", "."] },
  { name: "lint and format", argv: ["biome", "check", "."] },
  { name: "protobuf lint", argv: ["buf", "lint"] },
  { name: "protobuf compatibility", argv: ["buf", "breaking", "--against", ".git#branch=main"], when: mainHasProto },
  { name: "import rules", argv: ["vitest", "run", "--project", "unit", "test/rules"] },
];

/** Runs every check, also after a failure, so that one run shows everything. Resolves to the exit code. */
export function runChecks(root, env) {
  const all = [
    ...steps
      .filter(({ when }) => when === undefined || when(root))
      .map(({ name, argv: [tool, ...args] }) => ({
        name,
        run: () => runQuietly([join(root, "node_modules/.bin", tool), ...args], { cwd: root, env }),
      })),
    { name: "generated code", run: () => requireCurrent(root, env) },
  ];
  let failed = 0;
  for (const { name, run } of all) {
    try {
      run();
      console.log(`ok      ${name}`);
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      failed += 1;
      console.log(`FAILED  ${name}\n${error.message}\n`);
    }
  }
  console.log(`${all.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}
