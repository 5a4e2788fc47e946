import { resolve } from "node:path";
import { parseDotenv, replaceEnvReply } from "@svc/proto";
import { command, flag } from "../../command.ts";
import { CliError } from "../../errors.ts";
import { readTextFile } from "../../files.ts";
import { plural } from "../../format.ts";
import { resolveTarget, targetFacts } from "../../target.ts";

const defaultFile = ".env";
const fileBytesMax = 4 * 1024 * 1024;

export const envPush = command({
  name: "env push",
  summary: "Replace the project's environment variables with those of a dotenv file",
  details:
    "Variables that the file does not name are removed. What already runs sees the change after the next deploy.",
  flags: { project: flag.project, file: flag.text("--file <path>", `The file to read (default: ${defaultFile})`) },
  examples: ["svc env push", "svc env push --file .env.production --project shop"],
  async run(context, { project, file = defaultFile }) {
    const vars = await readVars(resolve(context.cwd, file), file);
    const target = await resolveTarget(context, project);
    const api = await context.api();
    const { keys } = await api.put(`/projects/${target.id}/env`, replaceEnvReply, { body: { vars } });
    return { project: targetFacts(target), keys };
  },
  render: ({ keys }, { paint }) =>
    [
      `${paint("green", "✓")} The project has ${plural(keys.length, "variable")}${keys.length === 0 ? "" : `: ${keys.join(", ")}`}`,
      "  What already runs sees them after the next `svc deploy`",
    ].join("\n"),
});

async function readVars(path: string, file: string): Promise<Record<string, string>> {
  const text = await readTextFile(path, fileBytesMax);
  if (text === null)
    throw new CliError("ENV_FILE_NOT_FOUND", `There is no file ${file}`, {
      hint: "Name it with --file <path>, or get one with `svc env pull`",
    });
  const found = parseDotenv(text);
  // A line that is passed over would silently remove its variable.
  if ("badLines" in found)
    throw new CliError(
      "CLI_INVALID_USAGE",
      `${file} has no NAME=value in line ${found.badLines.slice(0, 5).join(", ")}`,
      {
        hint: "Close every quote, and put values with a # or a line break in quotes",
      },
    );
  return Object.fromEntries(found.variables.map(({ name, value }) => [name, value]));
}
