import type { Channel } from "@svc/proto";
import type { FastifyReply } from "fastify";
import { enqueueChecks } from "../../../fleet/databases/checks.ts";
import type { Caller } from "../../../http/caller.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import type { ReadyBranch } from "../ready-branch.ts";
import type { Asked, Given, RequestName } from "../sql/requests.ts";
import { KeptOut, type SqlTarget, type Timed } from "../sql/runner.ts";
import type { Studio } from "./studio.ts";

/** A branch that may be asked, on somebody's behalf. */
export interface AskableBranch extends ReadyBranch {
  target: SqlTarget;
  /** Aborts once the client waits for no answer any more, also since it has one. */
  gone: AbortSignal;
  /** See `SqlRunner`. What waits for its turn is not done any more once the client has gone away. */
  ask<N extends RequestName>(name: N, asked: Asked<N>): Promise<Timed<Given<N>>>;
}

/** Throws as `FindReadyBranch` does. */
export async function getBranch(
  { db, studio }: { db: Db; studio: Studio },
  { caller, reply }: { caller: Pick<Caller, "userId" | "projectIds">; reply: FastifyReply },
  projectId: string,
  channel: Channel,
): Promise<AskableBranch> {
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort(new Refused("QUERY_ERROR", "Nobody waits for the answer any more.")));
  const ready = await studio.findReadyBranch(db, caller, projectId, channel);
  const { branch, address, credentials } = ready;
  const target: SqlTarget = {
    projectId: branch.projectId,
    ownerId: branch.ownerId,
    engine: branch.engine,
    openLine: (signal: AbortSignal) => studio.openLine(address, signal),
    ...credentials,
  };
  return {
    ...ready,
    target,
    gone: gone.signal,
    async ask(name, asked) {
      try {
        return await studio.sql.ask(target, name, asked, gone.signal);
      } catch (error) {
        // Somebody may have changed the password by SQL; who else would tell, where no app logs in?
        if (error instanceof KeptOut) await enqueueChecks(db, [address.databaseId]);
        throw error;
      }
    },
  };
}

/** What every refusal of a server may be called; each endpoint adds its own. */
export const serverErrors = [
  "DATABASE_PROVISIONING",
  "DATABASE_NOT_READY",
  "SUSPENDED",
  "PLAN_FEATURE_UNAVAILABLE",
  "QUERY_ERROR",
  "RATE_LIMITED",
] as const;
