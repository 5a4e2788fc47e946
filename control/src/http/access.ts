// @pure
import { ciDeployScope, type ErrorCode, type Scope, satisfies } from "@svc/proto";

/** By what a caller proved who they are. `session` covers cookie and Bearer. */
export type CredentialKind = "key" | "session";

/** What is known of a caller before any resource is looked up. */
export interface Principal {
  kind: CredentialKind;
  isAdmin: boolean;
  /** Null is full access. */
  scopes: readonly Scope[] | null;
  /** Projects that the key is limited to; null is all of the user's. */
  projectIds: readonly string[] | null;
}

/**
 * Who may use a route:
 * none: everybody, signed in or not. any: every credential but a set-up key for CI.
 * full: sessions and keys without scopes. session: sessions only. admin: administrators with full access.
 * scope: full access, or a key with the scope, and also with `and` where there is one; `orCiKey` also admits a `ci:deploy` key, and then the handler
 * shows it nothing but its own project and what it created.
 */
export type Access = "none" | "any" | "full" | "session" | "admin" | { scope: Scope; and?: Scope; orCiKey?: boolean };

export interface Denial {
  code: ErrorCode;
  message?: string;
}

const fullAccessRequired = "This endpoint requires a session or a full-access token.";

/** Whether the key is one that only sets up deployments from CI. */
export const isCiKey = (principal: Pick<Principal, "scopes">): boolean =>
  principal.scopes?.includes(ciDeployScope) ?? false;

/** Why `principal` may not use a route of class `access`; null when it may. A null principal is nobody. */
export function denial(principal: Principal | null, access: Access): Denial | null {
  if (access === "none") return null;
  if (principal === null) return { code: "UNAUTHORIZED" };
  switch (access) {
    case "any":
      return isCiKey(principal)
        ? { code: "FORBIDDEN_SCOPE", message: "A ci:deploy key can only create and follow deployments." }
        : null;
    case "full":
      return principal.scopes === null ? null : { code: "FORBIDDEN_SCOPE", message: fullAccessRequired };
    case "session":
      return principal.kind === "session" ? null : { code: "SESSION_REQUIRED" };
    case "admin":
      return adminDenial(principal);
    default:
      return (
        scopeDenial(principal, access.scope, access.orCiKey ?? false) ??
        (access.and === undefined ? null : scopeDenial(principal, access.and, false))
      );
  }
}

/** The role comes first: who is no administrator learns nothing about which key would do. */
function adminDenial(principal: Principal): Denial | null {
  if (!principal.isAdmin) return { code: "FORBIDDEN" };
  if (principal.scopes !== null) return { code: "FORBIDDEN_SCOPE", message: fullAccessRequired };
  // Administration reaches every project, so a key that is limited to some cannot have it.
  if (principal.projectIds !== null)
    return { code: "FORBIDDEN_SCOPE", message: "A key that is limited to projects cannot administer." };
  return null;
}

function scopeDenial(principal: Principal, scope: Scope, orCiKey: boolean): Denial | null {
  if (satisfies(principal.scopes, scope) || (orCiKey && isCiKey(principal))) return null;
  return { code: "FORBIDDEN_SCOPE", message: `The API key lacks the scope ${scope}.` };
}
