import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import type { FastifyInstance } from "fastify";
import { sql } from "kysely";
import type { Db } from "../stores/db/pool.ts";
import { ApiError } from "./errors.ts";

const readyTimeoutMs = 3_000;

/** `/healthz`: the process runs. `/readyz`: it can serve, so its database answers. */
export function registerHealth(app: FastifyInstance, clock: Clock, db: Db): void {
  app.get("/healthz", async () => ({ ok: true }));
  app.get("/readyz", async () => {
    try {
      await within(clock, readyTimeoutMs, sql`select 1`.execute(db), () => {
        throw new Error(`no answer within ${readyTimeoutMs} ms`);
      });
    } catch (cause) {
      throw new ApiError("UNAVAILABLE", { cause });
    }
    return { ok: true };
  });
}
