import { type DatabaseEngine, databaseHost, databasePorts } from "@svc/proto";
import type { Config } from "../../settings/settings.ts";

/** Where people and their tools reach databases of an engine: where the operator said, or the private address. */
export function addressFor(
  engine: DatabaseEngine,
  { public: told }: Config["databases"],
): { host: string; port: number; isPublic: boolean } {
  const at = told[engine];
  return at === null ? { host: databaseHost, port: databasePorts[engine], isPublic: false } : { ...at, isPublic: true };
}
