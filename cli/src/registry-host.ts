import { limits, normaliseRegistry } from "@svc/proto";
import { CliError } from "./errors.ts";

/** A registry's host in the form in which hosts are compared; CLI_INVALID_USAGE for what is none. */
export function registryHostOf(text: string): string {
  const host = text.length <= limits.imageNameLengthMax ? normaliseRegistry(text) : null;
  if (host !== null) return host;
  throw new CliError("CLI_INVALID_USAGE", `"${text}" is not the host of a registry`, {
    hint: "Write only the host, as image references begin with it: `svc registry set ghcr.io --username <name>`",
  });
}
