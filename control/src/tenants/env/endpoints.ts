import { envQuery, envReply, idParams, replaceEnvInput, replaceEnvReply } from "@svc/proto";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { quotaProblem, withLayer } from "./rules.ts";
import { listEnvNames, readEnv, replaceEnv } from "./store.ts";

const read = endpoint({
  method: "GET",
  path: "/projects/:id/env",
  access: { scope: "env:read" },
  summary: "The project's environment with its values; with a channel, what goes over it there.",
  params: idParams,
  query: envQuery,
  reply: envReply,
  async handle({ db, secrets }, { caller, params, query, address }) {
    const { id } = await getProject(db, caller, params.id);
    const vars = await readEnv(db, secrets, id, query.channel ?? null);
    await recordAudit(db, {
      caller,
      address,
      action: "env.read",
      target: id,
      detail: { ...query, count: Object.keys(vars).length },
    });
    return { vars };
  },
});

const replace = endpoint({
  method: "PUT",
  path: "/projects/:id/env",
  access: { scope: "env:write" },
  summary:
    "Replace the whole environment, or all that a channel has over it. Running containers see it with the next deployment.",
  params: idParams,
  query: envQuery,
  body: replaceEnvInput,
  reply: replaceEnvReply,
  errors: [{ code: "QUOTA_EXCEEDED", status: 422 }],
  handle: ({ db, secrets }, { caller, params, query, body, address }) =>
    db.transaction().execute(async (tx) => {
      const { channel = null } = query;
      // The lock makes writers take turns, so the count is exact and no two sets of variables mix.
      const { id, owner_id: ownerId } = await getProject(tx, caller, params.id, { lock: true });
      const { max_env_vars: max } = await planOfUser(tx, ownerId);
      const keys = Object.keys(body.vars).sort();
      const problem = quotaProblem(withLayer(await listEnvNames(tx, id), channel, keys), max);
      if (problem !== null) throw new ApiError("QUOTA_EXCEEDED", { status: 422, message: problem });
      await replaceEnv(tx, secrets, id, channel, body.vars);
      await recordAudit(tx, {
        caller,
        address,
        action: "env.replace",
        target: id,
        detail: { ...query, count: keys.length },
      });
      return { keys };
    }),
});

export const envEndpoints = [read, replace];
