import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { withLastLines } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { type Address, publicAddress } from "./address.ts";
import { type ClientEnd, runClient } from "./client.ts";
import { engineClients } from "./engines.ts";
import { applyArgs, failureHint, inOrder, listArgs, recordArgs, split, unfitNames } from "./migrations.ts";

const filesMax = 10_000;

/** Names of the migrations in a directory, in their order. CLI_INVALID_USAGE when there is no such directory. */
export async function listMigrations(directory: string, shown: string): Promise<string[]> {
  const names = await readdir(directory).catch((thrown: unknown) => {
    if (!isFileError(thrown, "ENOENT", "ENOTDIR")) throw thrown;
    throw new CliError("CLI_INVALID_USAGE", `There is no directory ${shown}`, {
      hint: `Put migrations there (\`mkdir -p ${shown}\`), or name another one with --dir <path>`,
    });
  });
  const files: string[] = [];
  for (const name of inOrder(names)) if ((await stat(join(directory, name))).isFile()) files.push(name);
  const [unfit] = unfitNames(files);
  if (unfit !== undefined)
    throw new CliError("CLI_INVALID_USAGE", `${JSON.stringify(unfit)} is no name for a migration`, {
      hint: "Leave control characters out, and keep it below 256 characters",
    });
  if (files.length > filesMax)
    throw new CliError("CLI_INVALID_USAGE", `${shown} has more than ${filesMax} migrations`, {
      hint: "Put old ones together",
    });
  return files;
}

/** Applies what is yet to be applied, file by file. DATABASE_NOT_READY with the client's last words at the first that fails. */
export async function applyMigrations(
  context: Context,
  address: Address,
  { directory, files }: { directory: string; files: readonly string[] },
): Promise<{ applied: string[]; skipped: string[] }> {
  const listed = await runClient(context, address, { args: listArgs(address.engine) });
  requireSuccess(address, listed, { what: "The list of migrations cannot be read" });
  const { todo, done } = split(files, listed.stdout);
  if (address.engine === "mariadb" && todo.length > 0)
    context.terminal.step("MariaDB commits each statement by itself: a file is recorded after it ran as a whole");
  for (const name of todo) {
    const activity = context.terminal.activity(`Applying ${name}`);
    try {
      await apply(context, address, name, join(directory, name));
    } finally {
      activity.stop();
    }
    context.terminal.step(`Applied ${name}`, "done");
  }
  return { applied: todo, skipped: done };
}

async function apply(context: Context, address: Address, name: string, path: string): Promise<void> {
  const failure = { what: `${name} failed`, hint: failureHint(address.engine, name) };
  if (address.engine === "postgres") {
    requireSuccess(address, await runClient(context, address, { args: applyArgs(name, path) }), failure);
    return;
  }
  requireSuccess(address, await runClient(context, address, { args: [], input: createReadStream(path) }), failure);
  const recorded = await runClient(context, address, { args: recordArgs(name) });
  requireSuccess(address, recorded, {
    what: `${name} was applied, but that could not be recorded`,
    hint: "Make the file bear being run again before the next `svc db migrate`",
  });
}

/** DATABASE_NOT_READY when a client failed: what did, where, and the last lines of the client. */
export function requireSuccess(
  address: Address,
  { exitCode, errorTail }: ClientEnd,
  { what, hint }: { what: string; hint?: string },
): void {
  if (exitCode === 0) return;
  const { program } = engineClients[address.engine];
  const how = exitCode === null ? `${program} was ended` : `${program} ended with ${exitCode}`;
  const reason = `${what} (${how}, at ${publicAddress(address)})`;
  throw new CliError("DATABASE_NOT_READY", withLastLines(reason, errorTail === "" ? [] : errorTail.split("\n")), {
    hint: hint ?? "See how the database is with `svc db status`, then run the command again",
  });
}
