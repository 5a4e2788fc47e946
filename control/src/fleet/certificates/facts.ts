import type { Db } from "../../stores/db/pool.ts";
import type { Validity } from "./rules.ts";
import type { Failure } from "./steps.ts";

/** What people may know of the certificate of a name. */
export interface CertificateFacts {
  name: string;
  /** What edges show; null: nothing yet. */
  held: Validity | null;
  /** Why the last order came to nothing; null: it did not. */
  failure: Pick<Failure, "code" | "text"> | null;
}

/** Of all these names that somebody has worked on, or will. */
export async function loadCertificateFacts(db: Db, names: readonly string[]): Promise<Map<string, CertificateFacts>> {
  const rows = await db
    .selectFrom("certificate")
    .select(["name", "not_before", "not_after", "failure_code", "failure"])
    .where("name", "=", (where) => where.fn.any(where.val([...names])))
    .execute();
  return new Map(
    rows.map(({ name, not_before: notBefore, not_after: notAfter, failure_code: code, failure: text }) => [
      name,
      {
        name,
        held: notBefore === null || notAfter === null ? null : { notBefore, notAfter },
        failure: code === null || text === null ? null : { code, text },
      },
    ]),
  );
}
