import { logsReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { CliError } from "../errors.ts";

/** Reads a build log on from where it was left. */
export interface LogTail {
  /** Hands over every whole line that is new. */
  read(): Promise<void>;
  /** Hands over what is left of a last line without its end. */
  flush(): void;
}

/**
 * A tail of the log of a deployment, from its first byte. When the key may not read logs, `refused` is told why and
 * nothing is handed over; without `refused` that is an error like any other.
 */
export function createLogTail(
  api: Api,
  deploymentId: string,
  show: (lines: string) => void,
  refused?: (why: string) => void,
): LogTail {
  let after = 0;
  let rest = "";
  let allowed = true;
  return {
    async read() {
      while (allowed) {
        const chunk = await readLog(api, deploymentId, after).catch((thrown: unknown) => {
          if (refused === undefined || !(thrown instanceof CliError) || thrown.code !== "CLOUD_FORBIDDEN_SCOPE")
            throw thrown;
          refused(thrown.message);
          allowed = false;
          return null;
        });
        if (chunk === null || chunk.offset <= after) return;
        after = chunk.offset;
        const text = rest + chunk.log;
        const end = text.lastIndexOf("\n") + 1;
        rest = text.slice(end);
        if (end > 0) show(text.slice(0, end));
      }
    },
    flush() {
      if (rest !== "") show(rest);
      rest = "";
    },
  };
}

const readLog = (api: Api, deploymentId: string, after: number) =>
  api.get(`/deployments/${deploymentId}/logs?after=${after}`, logsReply);

/** The whole build log as it is now. */
export async function readWholeLog(api: Api, deploymentId: string): Promise<string> {
  let log = "";
  for (let after = 0; ; ) {
    const chunk = await readLog(api, deploymentId, after);
    if (chunk.offset <= after) return log;
    after = chunk.offset;
    log += chunk.log;
  }
}
