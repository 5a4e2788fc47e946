import type { FastifyInstance } from "fastify";
import { sql } from "kysely";
import type { Db } from "../db/pool.ts";
import { ApiError } from "./errors.ts";

const readyTimeoutMs = 3_000;

/** `/healthz`: the process runs. `/readyz`: it can serve, so its database answers. */
export function registerHealth(app: FastifyInstance, db: Db): void {
  app.get("/healthz", async () => ({ ok: true }));
  app.get("/readyz", async () => {
    const timeout = AbortSignal.timeout(readyTimeoutMs);
    const late = new Promise<never>((_, reject) => timeout.addEventListener("abort", () => reject(timeout.reason)));
    try {
      await Promise.race([sql`select 1`.execute(db), late]);
    } catch (cause) {
      throw new ApiError("UNAVAILABLE", { cause });
    }
    return { ok: true };
  });
}
