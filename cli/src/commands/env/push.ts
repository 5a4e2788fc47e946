import { envReply, plural, replaceEnvReply } from "@svc/proto";
import type { Api } from "../../api.ts";
import { command, flag } from "../../command.ts";
import { confirmLoss } from "../../confirm.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import { resolveTarget, targetFacts } from "../../target.ts";
import { channelFlag, defaultFile, envPath, readDotenv, whose } from "./dotenv-file.ts";

const namesShownMax = 20;

export const envPush = command({
  name: "env push",
  summary: "Replace the project's environment variables with those of a dotenv file",
  details:
    "Variables that the file does not name are removed: a person is asked first, and a program is warned. What already runs sees the change after the next deploy. Values never appear on the terminal. A scoped key needs env:write, projects:read where the project is named by its slug, and env:read to be told what is removed.",
  flags: {
    project: flag.project,
    file: flag.text("--file <path>", `The file to read (default: ${defaultFile})`),
    channel: channelFlag,
  },
  examples: [
    "svc env push",
    "svc env push --file .env.production --project shop",
    "svc env push --file .env.preview --channel preview",
  ],
  async run(context, { project, file = defaultFile, channel }) {
    const vars = await readDotenv(context.cwd, file);
    if (vars === null)
      throw new CliError("ENV_FILE_NOT_FOUND", `There is no file ${file}`, {
        hint: "Name it with --file <path>, or get one with `svc env pull`",
      });
    for (const value of Object.values(vars)) context.terminal.hide(value);
    const target = await resolveTarget(context, project);
    const api = await context.api();
    const gone = await lostNames(context, api, envPath(target.id, channel), vars);
    const isAsked = context.terminal.interactive && !context.globals.yes;
    if (gone.length > 0 && isAsked)
      await confirmLoss(context, {
        loss: `${whose(channel)} loses ${listed(gone)}, which ${file} does not name.`,
        name: target.slug ?? target.id,
      });
    const { keys } = await api.put(envPath(target.id, channel), replaceEnvReply, { body: { vars } });
    if (gone.length > 0 && !isAsked) context.warn(`Removed ${listed(gone)}, which ${file} does not name`);
    return { project: targetFacts(target), ...(channel !== undefined && { channel }), keys };
  },
  render: ({ channel, keys }, { paint }) =>
    [
      `${paint("green", "✓")} ${whose(channel)} has ${plural(keys.length, "variable")}${keys.length === 0 ? "" : `: ${keys.join(", ")}`}`,
      "  What already runs sees them after the next `svc deploy`",
    ].join("\n"),
});

/** Names that are set and that `vars` lacks, sorted. None where the key may not read them. */
async function lostNames(
  context: Context,
  api: Api,
  path: string,
  vars: Readonly<Record<string, string>>,
): Promise<string[]> {
  try {
    const held = (await api.get(path, envReply)).vars;
    for (const value of Object.values(held)) context.terminal.hide(value);
    return Object.keys(held)
      .filter((name) => !Object.hasOwn(vars, name))
      .sort();
  } catch (thrown) {
    if (thrown instanceof CliError && thrown.code === "CLOUD_FORBIDDEN_SCOPE") return [];
    throw thrown;
  }
}

const listed = (names: readonly string[]): string =>
  names.length <= namesShownMax
    ? names.join(", ")
    : `${names.slice(0, namesShownMax).join(", ")} and ${names.length - namesShownMax} more`;
