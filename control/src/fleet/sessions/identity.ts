import type { NodeAxes } from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";
import type { Node } from "../../stores/db/tables.ts";

/** Null when the certificate's holder is the row's present incarnation. */
export function identityProblem(
  identity: { role: string; incarnation: number },
  row: { role: string; incarnation: number; lifecycle: NodeAxes["lifecycle"] } | null,
): IdentityProblem | null {
  if (row === null || row.role !== identity.role || identity.incarnation > row.incarnation) return "unknown";
  return row.lifecycle !== "active" || identity.incarnation < row.incarnation ? "fenced" : null;
}

export async function findIdentity(db: Db, id: string): Promise<NodeIdentityRow | null> {
  const row = await db.selectFrom("node").select(identityColumns).where("id", "=", id).executeTakeFirst();
  return row ?? null;
}

/** The part of a row that decides whether a certificate still speaks for it. */
export type NodeIdentityRow = Pick<Node, "id" | "name" | "role" | "incarnation" | "lifecycle" | "quarantined_at">;

export const identityColumns = ["id", "name", "role", "incarnation", "lifecycle", "quarantined_at"] as const;

/** Why an identity may not speak for its row. `fenced` is for ever; `unknown` may be a database behind its backup. */
export type IdentityProblem = "fenced" | "unknown";
