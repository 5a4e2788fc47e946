import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { type Channel, channels, parseDotenv } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import { flag } from "../../command.ts";
import { CliError } from "../../errors.ts";

export const defaultFile = ".env";
const fileBytesMax = 4 * 1024 * 1024;
const decoder = new TextDecoder("utf-8", { fatal: true });

export const channelFlag = flag.choice(
  "--channel <channel>",
  "The variables of this channel alone, which go over the project's own there",
  channels,
);

/** Where the API keeps the variables: all channels' for undefined. */
export const envPath = (projectId: string, channel: Channel | undefined): string =>
  `/projects/${projectId}/env${channel === undefined ? "" : `?channel=${channel}`}`;

/** What a person calls them. */
export const whose = (channel: Channel | undefined): string =>
  channel === undefined ? "The project" : `Its ${channel} channel`;

/**
 * The variables of a dotenv file; of a name that is there twice the last one counts. Null when there is no such file.
 * What is wrong is told by its line and never by what stands there: CLI_INVALID_USAGE.
 */
export async function readDotenv(cwd: string, file: string): Promise<Record<string, string> | null> {
  const bytes = await readBytes(resolve(cwd, file), file);
  if (bytes === null) return null;
  const found = parseDotenv(textOf(bytes, file));
  // A line that is passed over would silently remove its variable.
  if ("badLines" in found)
    throw new CliError(
      "CLI_INVALID_USAGE",
      `${file} has no NAME=value in line ${found.badLines.slice(0, 5).join(", ")}`,
      { hint: "Close every quote, and put values with a # or a line break in quotes" },
    );
  return Object.fromEntries(found.variables.map(({ name, value }) => [name, value]));
}

/** Whatever can be read counts as a file, a pipe of the shell's too; but not without end. */
async function readBytes(path: string, file: string): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    await using handle = await open(path, "r");
    for await (const chunk of handle.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      if (sizeBytes > fileBytesMax)
        throw wrong(file, `is larger than ${fileBytesMax} bytes`, "Take out what is no variable");
      chunks.push(chunk);
    }
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR")) return null;
    if (isFileError(thrown, "EACCES", "EPERM", "EISDIR"))
      throw wrong(file, "cannot be read", "Name a file of yours with --file <path>");
    throw thrown;
  }
  return Buffer.concat(chunks);
}

function textOf(bytes: Buffer, file: string): string {
  try {
    return decoder.decode(bytes);
  } catch {
    // Reading on would put other characters in the place of what nobody can read.
    throw wrong(file, "is not text in UTF-8", "Save it as UTF-8, and put what is no text in base64");
  }
}

const wrong = (file: string, what: string, hint: string) =>
  new CliError("CLI_INVALID_USAGE", `${file} ${what}`, { hint });
