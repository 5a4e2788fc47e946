import { limits } from "@svc/proto";
import type { FastifyInstance } from "fastify";
import { InvalidAccount } from "../auth/admin.ts";
import { claim, isOpenClaim } from "../auth/claim.ts";
import { relayCookies } from "../auth/mount.ts";
import type { IdentityContext } from "../context.ts";
import { html } from "./html.ts";
import { field, hidden, notice, type Page } from "./layout.ts";
import { newPasswordField } from "./sign-up.ts";
import { callAuth, readForm, redirect, sendPage } from "./site.ts";

const claimPage = (code: string, email = "", error?: string): Page => ({
  title: "Claim this installation",
  body: html`<h1>Claim this installation</h1>
<p class="lead">You become its administrator. The link works once.</p>
${error ? notice("error", error) : null}
<form method="post" action="/claim">
${hidden("code", code)}
${field({
  name: "email",
  label: "Email address",
  type: "email",
  autocomplete: "username",
  value: email,
  maxLength: limits.emailLengthMax,
  first: true,
})}
${newPasswordField("password", "Password")}
<button type="submit">Become the administrator</button>
</form>`,
});

const closedPage: Page = {
  title: "This link does not work",
  body: html`<h1>This link does not work</h1>
${notice("error", "It has expired, was replaced by a newer one, or there already is an administrator.")}
<p>On the machine that runs control, <code>control claim-link</code> prints a new one as long as there is no administrator.</p>
<p><a class="button" href="/sign-in">Sign in</a></p>`,
};

export function registerClaim(scope: FastifyInstance, context: IdentityContext): void {
  scope.get<{ Querystring: { code?: string } }>("/claim", async (request, reply) => {
    const { code } = request.query;
    return typeof code === "string" && (await isOpenClaim(context.db, code))
      ? sendPage(context, reply, claimPage(code))
      : sendPage(context, reply, closedPage, 404);
  });

  scope.post("/claim", async (request, reply) => {
    const form = readForm(context, request);
    const code = form("code");
    const credentials = { email: form("email").trim(), password: form("password") };
    try {
      const outcome = await claim(context, { code, ...credentials, address: request.ip });
      if (outcome === "closed") return sendPage(context, reply, closedPage, 404);
      if (outcome === "taken") {
        const why =
          "There is an account with that address, and this page gives none away. Choose another address, or run control create-admin for that one: only the password that you give there opens the account from then on.";
        return sendPage(context, reply, claimPage(code, credentials.email, why), 422);
      }
    } catch (error) {
      if (!(error instanceof InvalidAccount)) throw error;
      return sendPage(context, reply, claimPage(code, credentials.email, error.message), 422);
    }
    const answer = await callAuth(context, request, { method: "POST", path: "/sign-in/email", body: credentials });
    if (answer.status === 200) relayCookies(answer.response, reply);
    return redirect(reply, answer.status === 200 ? "/" : "/sign-in");
  });
}
