import type { SuspendReason } from "@svc/proto";
import type { Project } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";

/** Why it is suspended decides what its owner can do about it. */
const messages: Readonly<Record<SuspendReason, string>> = {
  admin: "The project is suspended. Ask the administrator of this installation to resume it.",
  quota:
    "The project is suspended: this month's quota is used up. It comes back next month, or at once with a larger plan.",
};

/** Why the project is suspended; null when it is not. */
export const suspensionOf = ({
  suspended_at,
  suspend_reason,
}: Pick<Project, "suspended_at" | "suspend_reason">): SuspendReason | null =>
  suspended_at === null ? null : (suspend_reason ?? "admin");

/** What whoever wants something of a suspended project is told. */
export const suspendedRefusal = (reason: SuspendReason) => ({ code: "SUSPENDED", message: messages[reason] }) as const;

/** Throws SUSPENDED for a project that is. */
export function refuseSuspended(project: Pick<Project, "suspended_at" | "suspend_reason">): void {
  const reason = suspensionOf(project);
  if (reason === null) return;
  const { code, message } = suspendedRefusal(reason);
  throw new Refused(code, message);
}
