import type { FastifyInstance } from "fastify";
import { relayCookies } from "../auth/mount.ts";
import type { IdentityContext } from "../context.ts";
import { html } from "./html.ts";
import { field, hidden, notice, type Page } from "./layout.ts";
import { newPasswordField, passwordError } from "./sign-up.ts";
import { callAuth, readForm, sendPage, tooManyAttempts } from "./site.ts";

const askPage = (error?: string): Page => ({
  title: "Forgot your password?",
  body: html`<h1>Forgot your password?</h1>
<p class="lead">We send a link with which you can choose a new one.</p>
${error ? notice("error", error) : null}
<form method="post" action="/forgot-password">
${field({ name: "email", label: "Email address", type: "email", autocomplete: "username", first: true })}
<button type="submit">Send the link</button>
</form>
<p class="aside"><a href="/sign-in">Back to sign in</a></p>`,
});

/** The same whether or not there is such an account. */
const sentPage: Page = {
  title: "Look into your mailbox",
  body: html`<h1>Look into your mailbox</h1>
<p>If there is an account with that address, a link is on its way. It works once, within an hour.</p>
<p><a href="/sign-in">Back to sign in</a></p>`,
};

const choosePage = (token: string, error?: string): Page => ({
  title: "Choose a new password",
  body: html`<h1>Choose a new password</h1>
${error ? notice("error", error) : null}
<form method="post" action="/reset-password">
${hidden("token", token)}
${newPasswordField("password", "New password")}
<button type="submit">Set the password</button>
</form>`,
});

const donePage: Page = {
  title: "Password changed",
  body: html`<h1>Password changed</h1>
${notice("success", "Everybody who was signed in to your account has been signed out, and logins of command lines that were under way are void.")}
<p>API keys, and an account at the Git host that was connected, are other ways in. If your address was confirmed before, they still work. Did somebody else know your password? Then sign in, look at the keys with <code>svc tokens list</code> and take back with <code>svc tokens revoke</code> what is not yours; the home page shows whether a Git host account is connected, and disconnects it.</p>
<p><a class="button" href="/sign-in">Sign in</a></p>`,
};

export function registerResetPassword(scope: FastifyInstance, context: IdentityContext): void {
  scope.get("/forgot-password", async (_request, reply) => sendPage(context, reply, askPage()));

  scope.post("/forgot-password", async (request, reply) => {
    const body = { email: readForm(context, request)("email").trim() };
    const answer = await callAuth(context, request, { method: "POST", path: "/request-password-reset", body });
    if (answer.status >= 500) throw new Error(`password reset answered ${answer.status}`);
    if (answer.status === 429) return sendPage(context, reply, askPage(tooManyAttempts(answer)), 429);
    if (answer.status !== 200) return sendPage(context, reply, askPage("That is not an email address."), 422);
    return sendPage(context, reply, sentPage);
  });

  scope.get<{ Querystring: { token?: string } }>("/reset-password", async (request, reply) => {
    const { token } = request.query;
    if (typeof token !== "string" || token === "")
      return sendPage(context, reply, askPage("The link is incomplete. Ask for a new one."), 400);
    return sendPage(context, reply, choosePage(token));
  });

  scope.post("/reset-password", async (request, reply) => {
    const form = readForm(context, request);
    const token = form("token");
    const body = { token, newPassword: form("password") };
    const answer = await callAuth(context, request, { method: "POST", path: "/reset-password", body });
    if (answer.status === 200) {
      relayCookies(answer.response, reply);
      return sendPage(context, reply, donePage);
    }
    if (answer.status >= 500) throw new Error(`password reset answered ${answer.status}`);
    if (answer.status === 429) return sendPage(context, reply, choosePage(token, tooManyAttempts(answer)), 429);
    const wrongPassword = passwordError(answer);
    if (wrongPassword !== null) return sendPage(context, reply, choosePage(token, wrongPassword), 422);
    return sendPage(context, reply, askPage("The link has expired or was used already. Ask for a new one."), 400);
  });
}
