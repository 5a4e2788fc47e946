import { randomBytes } from "node:crypto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import type { Db } from "../../stores/db/pool.ts";
import type { Domain, NewDomain } from "../../stores/db/tables.ts";
import { insertDomain, placeHosts } from "./store.ts";

/** A domain of a project, pending unless said otherwise, with the hosts that it has by that. */
export async function newDomain(
  db: Db,
  projectId: string,
  domain: string,
  changes: Partial<NewDomain> = {},
): Promise<Domain> {
  const id = systemRandom.uuid();
  const now = systemClock.now();
  const claim = {
    id,
    project_id: projectId,
    domain,
    txt_token: randomBytes(16).toString("base64url"),
    created_at: now,
  };
  const row = await insertDomain(db, { ...claim, status: "pending", routing_target: "production", ...changes });
  await placeHosts(db, domain);
  return row;
}
