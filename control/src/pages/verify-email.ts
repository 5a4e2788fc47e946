import type { FastifyInstance } from "fastify";
import type { ApiContext } from "../http/endpoint.ts";
import { html } from "./html.ts";
import { hidden, notice, type Page } from "./layout.ts";
import { callAuth, readForm, redirect, sendPage, tooManyAttempts, visitor } from "./site.ts";

/** A button and not the link itself confirms: mail filters open links, and they own no address. */
const askPage = (token: string): Page => ({
  title: "Confirm your email address",
  body: html`<h1>Confirm your email address</h1>
<p class="lead">One click, and your account can deploy.</p>
<form method="post" action="/verify-email">
${hidden("token", token)}
<button type="submit">Confirm the address</button>
</form>`,
});

const donePage: Page = {
  title: "Address confirmed",
  body: html`<h1>Address confirmed</h1>
${notice("success", "Your account can deploy now.")}
<p><a class="button" href="/">Go on</a></p>`,
};

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

export function registerVerifyEmail(scope: FastifyInstance, context: ApiContext): void {
  scope.get<{ Querystring: { token?: string } }>("/verify-email", async (request, reply) => {
    const { token } = request.query;
    if (typeof token !== "string" || token === "")
      return sendPage(context, reply, failedPage("The link is incomplete."), 400);
    return sendPage(context, reply, askPage(token));
  });

  scope.post("/verify-email", async (request, reply) => {
    const token = readForm(context, request)("token");
    const answer = await callAuth(context, request, {
      method: "GET",
      path: `/verify-email?token=${encodeURIComponent(token)}`,
    });
    if (answer.status === 200) return sendPage(context, reply, donePage);
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
