// @pure
import { errorMessage, splitLastLines } from "@svc/proto";
import type { RuntimeExit } from "../../fleet/agents/runtime-log.ts";
import type { LastContainer } from "./store.ts";

const howToRead = "Ask again with exited=true for its last lines.";

/** The refusal when a container is not running. `exit` is null when it was told to stop, or never was. */
export const notRunning = (exit: RuntimeExit | null): string =>
  exit === null ? errorMessage("RUNTIME_LOGS_UNAVAILABLE") : `No container is running. ${exit.reason} ${howToRead}`;

/** The refusal for a project whose pages are served without one. */
export const noContainerEver = "A static site has no container, and so no output. `svc logs` shows how it was built.";

/** The refusal when nothing is to run: why the last one did not, when that is what happened. */
export function nothingWanted(last: Pick<LastContainer, "status" | "error"> | null): string {
  const reason = last?.status === "failed" || last?.status === "stopped" ? last.error : null;
  if (!reason) return errorMessage("RUNTIME_LOGS_UNAVAILABLE");
  return `No container is running. The last one did not come up: ${splitLastLines(reason).reason} ${howToRead}`;
}
