import { delimiter, resolve } from "node:path";
import { channels, envReply } from "@svc/proto";
import { ownProgram, type ProgramFile } from "@svc/runtime/programs";
import { argument, command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { runInPlace } from "../dev/child.ts";
import { findProgram, isProgram } from "../dev/seen.ts";
import { CliError } from "../errors.ts";
import { resolveTarget, targetFacts } from "../target.ts";
import { envPath } from "./env/dotenv-file.ts";

export const run = command({
  name: "run",
  summary: "Run a command with the project's environment variables",
  details:
    "The variables are the project's own, and over them those of one channel; they go over those of this shell, and are written nowhere. The address of a managed database is not among them: `svc dev --db` has it. Nothing is printed but what the command prints, and its exit status is the command's. A scoped key needs env:read, and projects:read where the project is named by its slug.",
  flags: {
    project: flag.project,
    channel: flag.choice("--channel <channel>", "Whose variables; default: dev", channels),
  },
  arguments: { line: argument.many("command", "What to run, after --, with its arguments") },
  examples: ["svc run -- node scripts/seed.js", "svc run --channel production -- printenv"],
  async run(context, { project, channel = "dev", line }) {
    const [name = "", ...args] = line;
    const target = await resolveTarget(context, project);
    const api = await context.api();
    const [own, overlay] = await Promise.all([
      api.get(envPath(target.id, undefined), envReply),
      api.get(envPath(target.id, channel), envReply),
    ]);
    const env = { ...context.env, ...own.vars, ...overlay.vars };
    const program = await findCommand(context, name, env);
    const { exitCode } = await runInPlace(context, { argv: [program, ...args], cwd: context.cwd, env });
    return { project: targetFacts(target), channel, exitCode };
  },
  render: () => "",
  exitCode: ({ exitCode }) => exitCode,
});

/** The program that a shell would run for `name`. */
async function findCommand({ cwd }: Context, name: string, env: NodeJS.ProcessEnv): Promise<ProgramFile> {
  if (name.includes("/")) {
    const file = resolve(cwd, name);
    if (await isProgram(file)) return ownProgram(file);
  } else {
    const folders = (env["PATH"] ?? "").split(delimiter).map((folder) => resolve(cwd, folder));
    const found = await findProgram(name, folders);
    if (found !== null) return found;
  }
  throw new CliError("CLI_INVALID_USAGE", `There is no program ${name}`, {
    hint: name.includes(" ")
      ? "Write the command's words one by one after --, or give them to a shell: `svc run -- sh -c '…'`"
      : "Look whether it is installed, and on the PATH",
  });
}
