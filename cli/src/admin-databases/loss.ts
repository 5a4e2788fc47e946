import { changeDatabaseReply, type RestoreDatabaseInput } from "@svc/proto";
import type { Api } from "../api.ts";
import { CliError } from "../errors.ts";

/** What is lost, in the words of whoever chooses the copy: asked without a confirmation it says so, and does nothing. */
export async function lossOf(api: Pick<Api, "post">, path: string, asked: RestoreDatabaseInput): Promise<string> {
  try {
    await api.post(path, changeDatabaseReply, { body: asked });
  } catch (thrown) {
    if (!(thrown instanceof CliError) || thrown.server?.code !== "DESTRUCTIVE_CONFIRMATION_REQUIRED") throw thrown;
    return thrown.server.message.replace(/ Repeat the call\b.*$/, "");
  }
  throw new CliError("UNEXPECTED", "The platform began the restore before anybody confirmed it");
}
