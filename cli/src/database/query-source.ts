import { resolve } from "node:path";
import { limits } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { readTextFile } from "../files.ts";
import { readStdin } from "../stdin.ts";

const hint = 'Write `svc db query "select 1"`, or `svc db query --file <path>`, or feed it: `svc db query < <path>`';

const wrong = (why: string): CliError => new CliError("CLI_INVALID_USAGE", why, { hint });

/** The SQL to send, from the one place that has it: the argument, a file, or stdin. CLI_INVALID_USAGE otherwise. */
export async function readSql(context: Context, given: string | undefined, file: string | undefined): Promise<string> {
  if (given !== undefined && file !== undefined) throw wrong("There is SQL in the argument and in --file");
  const sql = given ?? (file === undefined ? await readFed(context) : await readFileText(context, file));
  if (sql.trim() === "") throw wrong("There is no SQL to run");
  if (Buffer.byteLength(sql) > limits.sqlBytesMax) throw tooLarge();
  return sql;
}

const tooLarge = (): CliError =>
  new CliError("CLI_INVALID_USAGE", `The SQL has more than ${limits.sqlBytesMax} bytes`, {
    hint: "Put it into a file of .svc/migrations, and run `svc db migrate`",
  });

async function readFileText(context: Context, file: string): Promise<string> {
  const how = { strict: true, tooLarge: tooLarge() };
  const text = await readTextFile(resolve(context.cwd, file), limits.sqlBytesMax, how).catch((thrown: unknown) => {
    if (isFileError(thrown, "EACCES", "EPERM", "EISDIR")) throw wrong(`${file} cannot be read`);
    throw thrown;
  });
  if (text === null) throw wrong(`There is no file ${file}`);
  return text;
}

function readFed(context: Context): Promise<string> {
  if (context.stdin.isTTY === true) throw wrong("There is no SQL to run");
  return readStdin(context, { bytesMax: limits.sqlBytesMax, tooLarge, missing: wrong });
}
