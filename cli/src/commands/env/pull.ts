import { resolve } from "node:path";
import { dotenvText, envReply, plural } from "@svc/proto";
import { command, flag } from "../../command.ts";
import { confirmLoss } from "../../confirm.ts";
import { CliError } from "../../errors.ts";
import { replaceFile } from "../../files.ts";
import { resolveTarget, targetFacts } from "../../target.ts";
import { channelFlag, defaultFile, envPath, readDotenv } from "./dotenv-file.ts";

export const envPull = command({
  name: "env pull",
  summary: "Write the project's environment variables to a dotenv file",
  details:
    "The file is replaced as a whole, and only you can read it (mode 0600). Where it holds something else a person is asked first, and a program is warned. Values never appear on the terminal. A scoped key needs env:read, and projects:read where the project is named by its slug.",
  flags: {
    project: flag.project,
    file: flag.text("--file <path>", `The file to write (default: ${defaultFile})`),
    channel: channelFlag,
  },
  examples: [
    "svc env pull",
    "svc env pull --file .env.production --project shop",
    "svc env pull --file .env.preview --channel preview",
  ],
  async run(context, { project, file = defaultFile, channel }) {
    const target = await resolveTarget(context, project);
    const { vars } = await (await context.api()).get(envPath(target.id, channel), envReply);
    for (const value of Object.values(vars)) context.terminal.hide(value);
    const content = dotenvText(vars);
    if ("unfit" in content)
      throw new CliError("UNEXPECTED", `A dotenv file cannot hold the values of ${content.unfit.join(", ")}`, {
        hint: "They mix quotes, backslashes or carriage returns; read them from the API instead",
      });
    const loss = await lossOf(context.cwd, file, vars);
    // Who sits at a terminal may keep what only the file has; who does not is told by its name what that was.
    if (loss !== null && context.terminal.interactive)
      await confirmLoss(context, { loss: `${file} will be replaced: ${loss}.`, name: file });
    await replaceFile(resolve(context.cwd, file), content.text, { mode: 0o600, refusal: "CLI_INVALID_USAGE" });
    if (loss !== null && !context.terminal.interactive) context.warn(`${file} was replaced: ${loss}`);
    return {
      project: targetFacts(target),
      ...(channel !== undefined && { channel }),
      file,
      keys: Object.keys(vars).sort(),
    };
  },
  render: ({ file, keys }, { paint }) =>
    `${paint("green", "✓")} Wrote ${plural(keys.length, "variable")} to ${file}${keys.length === 0 ? "" : `: ${keys.join(", ")}`}`,
});

/** What is in the file and not in `vars`, in words; null when nothing is. */
async function lossOf(cwd: string, file: string, vars: Readonly<Record<string, string>>): Promise<string | null> {
  let held: Record<string, string> | null;
  try {
    held = await readDotenv(cwd, file);
  } catch (thrown) {
    if (thrown instanceof CliError) return "what it holds cannot be read as a dotenv file";
    throw thrown;
  }
  const names = Object.keys(held ?? {});
  const gone = names.filter((name) => !Object.hasOwn(vars, name));
  const other = names.filter((name) => Object.hasOwn(vars, name) && held?.[name] !== vars[name]);
  const parts = [
    ...(gone.length > 0 ? [`${gone.join(", ")} ${gone.length === 1 ? "is" : "are"} only there`] : []),
    ...(other.length > 0 ? [`${other.join(", ")} ${other.length === 1 ? "has" : "have"} another value there`] : []),
  ];
  return parts.length === 0 ? null : parts.join("; ");
}
