// @pure
import type { UserRole } from "@svc/proto";

const administrator = "admin";
const ordinary = "user";

/** The identity library keeps several roles in one text. Null: none was ever given. */
const rolesOf = (stored: string | null): string[] => (stored ?? "").split(",").filter((role) => role !== "");

/** What a stored role amounts to here. */
export const roleOf = (stored: string | null): UserRole =>
  rolesOf(stored).includes(administrator) ? administrator : ordinary;

/** The text to store for somebody who is to have `role`. Roles that mean nothing here stay. */
export function withRole(stored: string | null, role: UserRole): string {
  const others = rolesOf(stored).filter((each) => each !== administrator && each !== ordinary);
  return [role, ...others].join(",");
}

/**
 * An address that no mail reaches and nobody can sign up with: what is left of somebody whose deletion began. Nobody
 * knows it before, because of `random`.
 */
export const formerEmail = (userId: string, random: string): string => `${userId}.${random}@deleted.invalid`;
