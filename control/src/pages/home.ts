import type { FastifyInstance } from "fastify";
import type { Caller } from "../auth/caller.ts";
import { apiPrefix } from "../http/api.ts";
import type { ApiContext } from "../http/endpoint.ts";
import { type Html, html } from "./html.ts";
import { notice } from "./layout.ts";
import { sendPage, siteOf, visitor } from "./site.ts";

const signedOut = (instance: string, canSignUp: boolean): Html => html`<h1>Web apps on machines of your own</h1>
<p class="lead"><strong>${instance}</strong> is an installation of svc. It builds, runs and serves the sites and apps of the people who have an account here.</p>
<p><a class="button" href="/sign-in">Sign in</a></p>
${canSignUp ? html`<p class="aside">New here? <a href="/sign-up">Create an account</a></p>` : null}`;

const verifyFirst = html`<form method="post" action="/verify-email/resend">
${notice("info", html`Confirm your email address before the first deploy. <button class="link" type="submit">Send the link again</button>`)}
</form>`;

const signedIn = (caller: Caller, apiUrl: string): Html => html`<h1>Hello, ${caller.name}</h1>
${caller.emailVerified ? null : verifyFirst}
<p class="lead">Everything here is done from the command line. Sign it in once on each of your machines:</p>
<pre><code>svc login --api-url ${apiUrl}</code></pre>
<p>Then, in the folder of an app:</p>
<pre><code>svc init
svc deploy</code></pre>
<p class="aside"><a href="${apiPrefix}/docs">Description of the API</a></p>`;

export function registerHome(scope: FastifyInstance, context: ApiContext, canSignUp: boolean): void {
  scope.get("/", async (request, reply) => {
    const caller = await visitor(context, request);
    return sendPage(context, reply, {
      title: "Home",
      body: caller === null ? signedOut(siteOf(context).instance, canSignUp) : signedIn(caller, context.config.apiUrl),
      account: caller?.email ?? null,
    });
  });
}
