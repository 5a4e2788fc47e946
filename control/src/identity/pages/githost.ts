import type { FastifyInstance, FastifyReply } from "fastify";
import { recordAudit } from "../../http/audit.ts";
import { lockCaller } from "../accounts/store.ts";
import { invitedKey } from "../auth/entry.ts";
import { relayCookies } from "../auth/mount.ts";
import type { IdentityContext } from "../context.ts";
import { disconnectGithost } from "../githost/account.ts";
import { githostProvider } from "../githost/provider.ts";
import { githostName, grantsOf } from "../githost/settings.ts";
import { hashCode, isCode } from "../invites/code.ts";
import { type Html, html } from "./html.ts";
import { hidden } from "./layout.ts";
import { safeNext } from "./next.ts";
import { type AuthAnswer, callAuth, readForm, redirect, visitor } from "./site.ts";

type Configured = Pick<IdentityContext, "config">;

/** Origin that our forms lead to; null when there is no Git host. */
export const githostOrigin = ({ config: { githost } }: Configured): string | null =>
  githost === undefined ? null : new URL(githost.url).origin;

/** The other way in, below a form with a password; nothing when there is no Git host. */
export const githostButton = (
  { config: { githost } }: Configured,
  { next, invite = "" }: { next: string; invite?: string },
): Html | null =>
  githost === undefined
    ? null
    : html`<p class="or"><span>or</span></p>
<form method="post" action="/sign-in/githost">
${hidden("next", next)}
${invite === "" ? null : hidden("invite", invite)}
<button class="quiet" type="submit">Continue with ${githostName(githost)}</button>
</form>`;

/** On the page of somebody who is signed in. */
export function githostSection({ config: { githost } }: Configured, isConnected: boolean): Html | null {
  if (githost === undefined) return null;
  const name = githostName(githost);
  return isConnected
    ? html`<form class="aside" method="post" action="/account/githost/disconnect">
<p>Your account at ${name} is connected. <button class="link" type="submit">Disconnect it</button></p>
</form>`
    : html`<form class="aside" method="post" action="/account/githost">
<p>Sign in with ${name}, and choose from your repositories: <button class="link" type="submit">Connect your account</button></p>
</form>`;
}

/** What people read about a way that ended at the Git host; null for no error. The codes are the library's and ours. */
export function githostError({ config: { githost } }: Configured, code: unknown): string | null {
  if (githost === undefined || typeof code !== "string" || code === "") return null;
  const name = githostName(githost);
  const texts: Readonly<Record<string, string>> = {
    access_denied: `You did not let ${name} tell us who you are.`,
    state_mismatch: "That took too long, or began in another browser. Try again.",
    account_not_linked: `There is an account here with the address that you have at ${name}. Sign in with its password, then connect ${name} on the home page.`,
    account_already_linked_to_different_user: `That account at ${name} is connected to another account here.`,
    email_not_found: `Your account at ${name} has no email address.`,
    INVALID_EMAIL: `Your account at ${name} has no email address that an account here can have.`,
    BANNED_USER: "This account is blocked. Ask the administrator of this installation.",
    SIGNUP_CLOSED: "There is no account for you here, and nobody can sign up by themselves.",
    INVITE_INVALID: `There is no account for you here. Signing up needs an invitation to the address that you have at ${name}: open the link in its mail.`,
    last_way_in: "Set a password first: without the connection you could not sign in any more.",
    too_many: "Too many attempts. Try again in a minute.",
  };
  return texts[code] ?? `${name} could not be reached, or did not say who you are. Try again.`;
}

export function registerGithost(scope: FastifyInstance, context: IdentityContext): void {
  const { githost } = context.config;
  if (githost === undefined) return;
  const provider = githostProvider;

  scope.post("/sign-in/githost", async (request, reply) => {
    const form = readForm(context, request);
    const invite = form("invite").trim();
    const body = {
      provider,
      callbackURL: safeNext(form("next")),
      errorCallbackURL: "/sign-in",
      disableRedirect: true,
      ...(isCode(invite) && { additionalData: { [invitedKey]: hashCode(invite).toString("base64url") } }),
    };
    return leave(
      reply,
      await callAuth(context, request, { method: "POST", path: "/sign-in/social", body }),
      "/sign-in",
    );
  });

  scope.post("/account/githost", async (request, reply) => {
    readForm(context, request);
    if ((await visitor(context, request)) === null) return redirect(reply, "/sign-in");
    const body = {
      provider,
      callbackURL: "/?githost=connected",
      errorCallbackURL: "/",
      disableRedirect: true,
      scopes: [...grantsOf(githost).connect],
    };
    return leave(reply, await callAuth(context, request, { method: "POST", path: "/link-social", body }), "/");
  });

  scope.post("/account/githost/disconnect", async (request, reply) => {
    readForm(context, request);
    const caller = await visitor(context, request);
    if (caller === null) return redirect(reply, "/sign-in");
    const outcome = await context.db.transaction().execute(async (tx) => {
      await lockCaller(tx, caller);
      const done = await disconnectGithost(tx, caller.userId);
      if (done === "done") {
        const detail = { provider };
        const action = "account.unlink";
        await recordAudit(tx, { caller, address: request.ip, action, target: caller.userId, detail });
      }
      return done;
    });
    return redirect(reply, outcome === "last-way-in" ? "/?error=last_way_in" : "/");
  });
}

/** To the Git host, with the cookie that will prove that it is the same browser that comes back. */
function leave(reply: FastifyReply, answer: AuthAnswer, back: string): FastifyReply {
  const { url } = answer.body;
  if (answer.status === 429) return redirect(reply, `${back}?error=too_many`);
  if (answer.status !== 200 || typeof url !== "string") throw new Error(`the way out answered ${answer.status}`);
  relayCookies(answer.response, reply);
  return redirect(reply, url);
}
