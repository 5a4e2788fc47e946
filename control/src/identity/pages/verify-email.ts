import type { FastifyInstance } from "fastify";
import type { IdentityContext } from "../context.ts";
import { html } from "./html.ts";
import { hidden, notice, type Page } from "./layout.ts";
import { safeNext } from "./next.ts";
import { callAuth, readForm, redirect, sendPage, tooManyAttempts, visitor } from "./site.ts";

/** A button and not the link itself confirms: mail filters open links, and they own no address. */
const askPage = (account: string, token: string): Page => ({
  account,
  title: "Confirm your email address",
  body: html`<h1>Confirm your email address</h1>
<p class="lead">One click, and your account can deploy.</p>
<form method="post" action="/verify-email">
${hidden("token", token)}
<button type="submit">Confirm the address</button>
</form>`,
});

/** Only whoever is in the account confirms its address: the mailbox alone does not tell who made it. */
const signInFirstPage = (token: string): Page => ({
  title: "Confirm your email address",
  body: html`<h1>Confirm your email address</h1>
<p class="lead">Sign in to the account first, with the password that was chosen for it.</p>
<p><a class="button" href="/sign-in?next=${encodeURIComponent(safeNext(`/verify-email?token=${token}`))}">Sign in</a></p>
<p class="aside">Did somebody else create it with your address? Do not confirm it. To have the account for yourself, <a href="/forgot-password">choose a new password</a>: nothing that was set up in it lets anybody in after that.</p>`,
});

const otherAccountPage = (account: string): Page => ({
  account,
  title: "Not confirmed",
  body: html`<h1>Not confirmed</h1>
${notice("error", html`The link is for another account than ${account}, with which you are signed in. Sign out, then open it again.`)}`,
});

const donePage = (account: string): Page => ({
  account,
  title: "Address confirmed",
  body: html`<h1>Address confirmed</h1>
${notice("success", "Your account can deploy now.")}
<p><a class="button" href="/">Go on</a></p>`,
});

const failedPage = (why: string): Page => ({
  title: "Not confirmed",
  body: html`<h1>Not confirmed</h1>
${notice("error", why)}
<p>Sign in and ask for a new link on the home page.</p>
<p><a class="button" href="/sign-in">Sign in</a></p>`,
});

const sentPage: Page = {
  title: "Look into your mailbox",
  body: html`<h1>Look into your mailbox</h1>
<p>A new link is on its way. It works for one day.</p>
<p><a href="/">Back</a></p>`,
};

export function registerVerifyEmail(scope: FastifyInstance, context: IdentityContext): void {
  scope.get<{ Querystring: { token?: string } }>("/verify-email", async (request, reply) => {
    const { token } = request.query;
    if (typeof token !== "string" || token === "")
      return sendPage(context, reply, failedPage("The link is incomplete."), 400);
    const caller = await visitor(context, request);
    return sendPage(context, reply, caller === null ? signInFirstPage(token) : askPage(caller.email, token));
  });

  scope.post("/verify-email", async (request, reply) => {
    const token = readForm(context, request)("token");
    const caller = await visitor(context, request);
    if (caller === null) return sendPage(context, reply, signInFirstPage(token), 401);
    const answer = await callAuth(context, request, {
      method: "GET",
      path: `/verify-email?token=${encodeURIComponent(token)}`,
    });
    if (answer.status === 200) return sendPage(context, reply, donePage(caller.email));
    if (answer.code === "OTHER_ACCOUNT") return sendPage(context, reply, otherAccountPage(caller.email), 403);
    if (answer.code === "SIGN_IN_FIRST") return sendPage(context, reply, signInFirstPage(token), 401);
    if (answer.status >= 500) throw new Error(`verification answered ${answer.status}`);
    const why = answer.code === "TOKEN_EXPIRED" ? "The link has expired." : "The link is not valid.";
    return sendPage(
      context,
      reply,
      failedPage(answer.status === 429 ? tooManyAttempts(answer) : why),
      answer.status === 429 ? 429 : 400,
    );
  });

  scope.post("/verify-email/resend", async (request, reply) => {
    readForm(context, request);
    const caller = await visitor(context, request);
    if (caller === null || caller.emailVerified) return redirect(reply, "/");
    const body = { email: caller.email };
    const answer = await callAuth(context, request, { method: "POST", path: "/send-verification-email", body });
    if (answer.status === 429) return sendPage(context, reply, failedPage(tooManyAttempts(answer)), 429);
    return sendPage(context, reply, sentPage);
  });
}
