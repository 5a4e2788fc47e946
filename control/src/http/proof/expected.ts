import { combinableScopes, type ErrorCode, type Scope } from "@svc/proto";
import type { ContractRoute } from "./contract.ts";

/** Projects that a credential reaches, of its user's: all, or those of the key's list. */
export type Reach = "every project" | "this project" | "another project";

/** What a credential proves, in the contract's words. */
export interface Proof {
  kind: "key" | "session";
  /** A cookie proves a session; unless a page of ours sent it, it changes nothing. */
  cookie?: "own page" | "other page";
  admin?: boolean;
  /** Null is full access; a list that could not be read is an empty one. */
  scopes: readonly Scope[] | null;
  reach: Reach;
  /** Whether the user owns what the route is about. */
  owner: boolean;
  /** Whether this very key created the deployment that the route is about. */
  creator?: boolean;
}

/** How a call ends before its handler decides anything: `in` is any answer of the handler itself. */
export type Expected = "in" | { status: number; code: ErrorCode };

const refused = (status: number, code: ErrorCode): Expected => ({ status, code });
const noSuchThing = refused(404, "NOT_FOUND");
const scopeMissing = refused(403, "FORBIDDEN_SCOPE");

/** What the contract says about a call of `route` with a credential that proves `proof`; null proves nothing. */
export function expected(route: ContractRoute, proof: Proof | null): Expected {
  if (route.access === "none") return "in";
  if (proof === null) return refused(401, "UNAUTHORIZED");
  if (proof.cookie === "other page" && route.method !== "GET") return refused(403, "FORBIDDEN");
  const denied = classRefusal(route, proof);
  if (denied !== null) return denied;
  const limited = proof.reach !== "every project";
  if (limited && (route.refusesLimitedKeys || route.access === "admin")) return scopeMissing;
  return sees(route, proof) ? "in" : noSuchThing;
}

const isCiKey = ({ scopes }: Proof): boolean => scopes?.includes("ci:deploy") ?? false;

function classRefusal({ access }: ContractRoute, proof: Proof): Expected | null {
  const { scopes } = proof;
  switch (access) {
    case "none":
      return null;
    case "any":
      return isCiKey(proof) ? scopeMissing : null;
    case "full":
      return scopes === null ? null : scopeMissing;
    case "session":
      return proof.kind === "session" ? null : refused(403, "SESSION_REQUIRED");
    case "admin":
      if (!proof.admin) return refused(403, "FORBIDDEN");
      return scopes === null ? null : scopeMissing;
    default: {
      const covers = scopes === null || access.all.every((group) => group.some((each) => scopes.includes(each)));
      return covers || (access.ci !== undefined && isCiKey(proof)) ? null : scopeMissing;
    }
  }
}

/** Whether what the path names exists for the caller. Administrators see everything, but only below /admin. */
function sees({ path, access }: ContractRoute, proof: Proof): boolean {
  if (access === "admin" || !path.includes("/:")) return true;
  if (!proof.owner || (proof.reach === "another project" && !path.startsWith("/tokens/"))) return false;
  const onlyOwnWork = typeof access === "object" && access.ci === "created" && isCiKey(proof);
  return !onlyOwnWork || proof.creator === true;
}

/** The smallest grant that opens the route; null when no scope does. */
export const smallestGrant = ({ access }: ContractRoute): readonly Scope[] | null =>
  typeof access === "object" ? access.all.flatMap(([first]) => (first === undefined ? [] : [first])) : null;

/** Every combinable scope that does nothing for the route. */
export const allOtherScopes = ({ access }: ContractRoute): readonly Scope[] =>
  combinableScopes.filter((each) => typeof access !== "object" || !access.all.some((group) => group.includes(each)));
