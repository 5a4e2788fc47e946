import { resolve } from "node:path";
import { dotenvText, envReply } from "@svc/proto";
import { command, flag } from "../../command.ts";
import { CliError } from "../../errors.ts";
import { replaceFile } from "../../files.ts";
import { plural } from "../../format.ts";
import { resolveTarget, targetFacts } from "../../target.ts";

const defaultFile = ".env";

export const envPull = command({
  name: "env pull",
  summary: "Write the project's environment variables to a dotenv file",
  details: "The file is replaced, and only you can read it (mode 0600). Values never appear on the terminal.",
  flags: { project: flag.project, file: flag.text("--file <path>", `The file to write (default: ${defaultFile})`) },
  examples: ["svc env pull", "svc env pull --file .env.production --project shop"],
  async run(context, { project, file = defaultFile }) {
    const target = await resolveTarget(context, project);
    const { vars } = await (await context.api()).get(`/projects/${target.id}/env`, envReply);
    const content = dotenvText(vars);
    if ("unfit" in content)
      throw new CliError("UNEXPECTED", `A dotenv file cannot hold the values of ${content.unfit.join(", ")}`, {
        hint: "They mix quotes, backslashes or carriage returns; read them from the API instead",
      });
    await replaceFile(resolve(context.cwd, file), content.text, { mode: 0o600, refusal: "CLI_INVALID_USAGE" });
    return { project: targetFacts(target), file, keys: Object.keys(vars).sort() };
  },
  render: ({ file, keys }, { paint }) =>
    `${paint("green", "✓")} Wrote ${plural(keys.length, "variable")} to ${file}${keys.length === 0 ? "" : `: ${keys.join(", ")}`}`,
});
