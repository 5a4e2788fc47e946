import { envReply, idParams, replaceEnvInput, replaceEnvReply } from "@svc/proto";
import { recordAudit } from "../http/audit.ts";
import { endpoint } from "../http/endpoint.ts";
import { ApiError } from "../http/errors.ts";
import { planOfUser } from "../plans/of-user.ts";
import { getProject } from "../projects/store.ts";
import { readEnv, replaceEnv } from "./store.ts";

const read = endpoint({
  method: "GET",
  path: "/projects/:id/env",
  access: { scope: "env:read" },
  summary: "The project's environment with its values.",
  params: idParams,
  reply: envReply,
  async handle({ db, secrets }, { caller, params, address }) {
    const { id } = await getProject(db, caller, params.id);
    const vars = await readEnv(db, secrets, id);
    await recordAudit(db, {
      caller,
      address,
      action: "env.read",
      target: id,
      detail: { count: Object.keys(vars).length },
    });
    return { vars };
  },
});

const replace = endpoint({
  method: "PUT",
  path: "/projects/:id/env",
  access: { scope: "env:write" },
  summary: "Replace the whole environment. Running containers see it with the next deployment.",
  params: idParams,
  body: replaceEnvInput,
  reply: replaceEnvReply,
  handle: ({ db, secrets }, { caller, params, body, address }) =>
    db.transaction().execute(async (tx) => {
      const { id } = await getProject(tx, caller, params.id, { lock: true });
      const { max_env_vars: max } = await planOfUser(tx, caller.userId);
      const keys = Object.keys(body.vars).sort();
      if (keys.length > max) {
        throw new ApiError("QUOTA_EXCEEDED", { status: 422, message: `The plan allows ${max} variables per project.` });
      }
      await replaceEnv(tx, secrets, id, body.vars);
      await recordAudit(tx, { caller, address, action: "env.replace", target: id, detail: { count: keys.length } });
      return { keys };
    }),
});

export const envEndpoints = [read, replace];
