import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { expect, test } from "vitest";
import { aDirectory, binary, envelopeOf, svc } from "../testing/svc.ts";

test("bash completes with the script that is printed", async () => {
  await using directory = await aDirectory();
  const { path: cwd } = directory;
  const { stdout: script } = await svc(["completions", "bash"], { cwd });
  await writeFile(join(cwd, "svc"), `#!/bin/sh\nexec "${process.execPath}" "${binary}" "$@"\n`);
  await chmod(join(cwd, "svc"), 0o755);
  await writeFile(
    join(cwd, "try.bash"),
    `${script}\nCOMP_WORDS=(svc projects re); COMP_CWORD=2; _svc; printf '%s\\n' "\${COMPREPLY[@]}"\n`,
  );
  const { stdout } = await run(["bash", "--norc", "try.bash"], {
    cwd,
    env: { PATH: `${cwd}:${process.env["PATH"]}`, HOME: cwd },
    timeoutMs: 15_000,
  });
  expect(stdout).toBe("rename\n");
});

test("the script is in the envelope, and a shell that nobody knows is a usage error", async () => {
  await using directory = await aDirectory();
  const { path: cwd } = directory;
  expect(envelopeOf(await svc(["completions", "fish", "--json"], { cwd }))).toMatchObject({
    ok: true,
    operation: "completions",
    shell: "fish",
    script: expect.stringContaining("complete -c svc"),
  });
  const wrong = await svc(["completions", "tcsh", "--json"], { cwd });
  expect([wrong.status, envelopeOf(wrong)["error"]]).toMatchObject([2, { code: "CLI_INVALID_USAGE" }]);
});
