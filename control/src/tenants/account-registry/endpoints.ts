import { limits, registryLoginReply } from "@svc/proto";
import { accountRepositories } from "@svc/proto/cluster-registry";
import { recordAudit } from "../../http/audit.ts";
import { lookupOf } from "../../http/caller.ts";
import { presentedCredential } from "../../http/credentials.ts";
import { ApiError } from "../../http/errors.ts";
import { signInCookieName } from "../../http/sign-in-cookie.ts";
import { endpoint } from "../endpoint.ts";
import { requireMayPush } from "./access.ts";
import { makePassword } from "./password.ts";

const login = endpoint({
  method: "POST",
  path: "/registry/login",
  access: { scope: "deploy" },
  summary: "A password for some hours, to push images of one's own into the platform's registry.",
  reply: registryLoginReply,
  errors: ["FORBIDDEN_SCOPE", "NOT_FOUND", "EMAIL_NOT_VERIFIED", "PLAN_FEATURE_UNAVAILABLE"],
  async handle({ clock, config, db, secrets }, { caller, address, request }) {
    const host = config.registry.publicHost;
    if (host === null) throw new ApiError("NOT_FOUND", { message: "Images cannot be pushed to this installation." });
    await requireMayPush(db, caller);
    const credential = presentedCredential(request.headers, signInCookieName(config.apiUrl));
    const lookup = typeof credential === "string" ? null : lookupOf(credential, config.authSecret);
    if (lookup === null) throw new ApiError("UNAUTHORIZED");
    const expiresAt = new Date(clock.now().getTime() + limits.registryLoginSeconds * 1000);
    await recordAudit(db, { caller, address, action: "registry.login", target: caller.userId });
    return {
      login: {
        host,
        prefix: accountRepositories(caller.userId),
        username: caller.userId,
        password: makePassword(secrets, lookup, expiresAt),
        expiresAt: expiresAt.toISOString(),
      },
    };
  },
});

export const accountRegistryEndpoints = [login];
