import type { Caller } from "./caller.ts";
import { ApiError } from "./errors.ts";

/**
 * Refuses a key that is limited to projects: `what` concerns the whole account. Such a key may have no scopes and
 * so count as full access within its projects.
 */
export function refuseLimited(caller: Caller, what: string): void {
  if (caller.projectIds === null) return;
  throw new ApiError("FORBIDDEN_SCOPE", { message: `A key that is limited to projects cannot ${what}.` });
}
