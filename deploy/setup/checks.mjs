import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProgram, runQuietly, SetupError } from "./run.mjs";

/** Regenerates the protobuf code aside and compares: generated files are never edited, nor forgotten. */
function generatedIsCurrent(root, env) {
  const dir = mkdtempSync(join(tmpdir(), "svc-generated-"));
  try {
    cpSync(join(root, "proto"), join(dir, "proto"), {
      recursive: true,
      filter: (path) => !path.includes("node_modules") && !path.includes(join("proto", "src")),
    });
    for (const name of ["buf.yaml", "buf.gen.yaml"]) cpSync(join(root, name), join(dir, name));
    runQuietly([join(root, "node_modules/.bin/buf"), "generate"], { cwd: dir, env });
    try {
      runQuietly(["diff", "--recursive", "--brief", join(dir, "proto/src/gen"), join(root, "proto/src/gen")], { env });
    } catch {
      throw new SetupError("proto/src/gen differs from what the .proto files give; run: npm run generate");
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

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
    { name: "generated code", run: () => generatedIsCurrent(root, env) },
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
