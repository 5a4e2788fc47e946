import { resolve } from "node:path";
import { limits } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { readTextFile } from "../files.ts";

/** How long whatever feeds us may take. */
const stdinMsMax = 5 * 60_000;
const hint = 'Write `svc db query "select 1"`, or `svc db query --file <path>`, or feed it: `svc db query < <path>`';

const wrong = (why: string): CliError => new CliError("CLI_INVALID_USAGE", why, { hint });

/** The SQL to send, from the one place that has it: the argument, a file, or stdin. CLI_INVALID_USAGE otherwise. */
export async function readSql(context: Context, given: string | undefined, file: string | undefined): Promise<string> {
  if (given !== undefined && file !== undefined) throw wrong("There is SQL in the argument and in --file");
  const sql = given ?? (file === undefined ? await readStdin(context) : await readFileText(context, file));
  if (sql.trim() === "") throw wrong("There is no SQL to run");
  if (Buffer.byteLength(sql) > limits.sqlBytesMax) throw tooLarge();
  return sql;
}

const tooLarge = (): CliError =>
  new CliError("CLI_INVALID_USAGE", `The SQL has more than ${limits.sqlBytesMax} bytes`, {
    hint: "Put it into a file of .svc/migrations, and run `svc db migrate`",
  });

async function readFileText(context: Context, file: string): Promise<string> {
  const text = await readTextFile(resolve(context.cwd, file), limits.sqlBytesMax).catch((thrown: unknown) => {
    if (thrown instanceof CliError) throw tooLarge();
    if (isFileError(thrown, "EACCES", "EPERM", "EISDIR")) throw wrong(`${file} cannot be read`);
    throw thrown;
  });
  if (text === null) throw wrong(`There is no file ${file}`);
  return text;
}

async function readStdin({ clock, stdin, signal }: Context): Promise<string> {
  if (stdin.isTTY === true) throw wrong("There is no SQL to run");
  const deadline = clock.abortAfter(stdinMsMax);
  const ended = AbortSignal.any([signal, deadline]);
  const stop = () => stdin.destroy();
  ended.addEventListener("abort", stop, { once: true });
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of stdin as AsyncIterable<Buffer | string>) {
      const bytes = Buffer.from(chunk);
      sizeBytes += bytes.length;
      if (sizeBytes > limits.sqlBytesMax) throw tooLarge();
      chunks.push(bytes);
    }
  } catch (thrown) {
    if (!ended.aborted) throw thrown;
  } finally {
    ended.removeEventListener("abort", stop);
  }
  signal.throwIfAborted();
  if (deadline.aborted) throw wrong("Nothing came on stdin");
  return Buffer.concat(chunks).toString("utf8");
}
