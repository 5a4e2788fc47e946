import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodeBinary } from "./packages.mjs";
import { runQuietly, SetupError } from "./run.mjs";

/** What is generated, from what, and the command that writes it below another folder. */
const outputs = [
  {
    dir: "proto/src/gen",
    from: "the .proto files",
    argv: (root, into) => [join(root, "node_modules/.bin/buf"), "generate", "--output", into],
  },
  {
    dir: "control/src/stores/db/gen",
    from: "the migrations",
    argv: (root, into) => [
      nodeBinary(root),
      join(root, "control/src/stores/db/typing/main.ts"),
      join(into, "control/src/stores/db/gen/tables.ts"),
    ],
  },
  {
    dir: "cli/templates/realtime-todo/vendor",
    from: "the sources of @svc/realtime",
    argv: (root, into) => [
      nodeBinary(root),
      join(root, "realtime/vendor.ts"),
      join(into, "cli/templates/realtime-todo/vendor/svc-realtime"),
    ],
  },
];

/** Writes all generated code below `into`. */
export function generate(root, env, into = root) {
  for (const { argv } of outputs) runQuietly(argv(root, into), { cwd: root, env });
}

/** Generates aside and compares: generated files are never edited, nor forgotten. Throws `SetupError` if one differs. */
export function requireCurrent(root, env) {
  const aside = mkdtempSync(join(tmpdir(), "svc-generated-"));
  try {
    generate(root, env, aside);
    for (const { dir, from } of outputs) {
      try {
        runQuietly(["diff", "--recursive", "--brief", join(aside, dir), join(root, dir)], { env });
      } catch {
        throw new SetupError(`${dir} differs from what ${from} give; run: npm run generate`);
      }
    }
  } finally {
    rmSync(aside, { recursive: true, force: true });
  }
}
