import type { FastifyInstance } from "fastify";
import type { Caller } from "../../http/caller.ts";
import { apiPrefix } from "../../http/paths.ts";
import type { IdentityContext } from "../context.ts";
import { findLinkedAccount } from "../githost/account.ts";
import { githostError, githostOrigin, githostSection } from "./githost.ts";
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

const signedIn = (
  caller: Caller,
  apiUrl: string,
  notices: Html | null,
  githost: Html | null,
): Html => html`<h1>Hello, ${caller.name}</h1>
${notices}
${caller.emailVerified ? null : verifyFirst}
<p class="lead">Everything here is done from the command line. Sign it in once on each of your machines:</p>
<pre><code>svc login --api-url ${apiUrl}</code></pre>
<p>Then, in the folder of an app:</p>
<pre><code>svc init
svc deploy</code></pre>
${githost}
<p class="aside"><a href="${apiPrefix}/docs">Description of the API</a></p>`;

export function registerHome(scope: FastifyInstance, context: IdentityContext, canSignUp: boolean): void {
  scope.get<{ Querystring: { error?: string; githost?: string } }>("/", async (request, reply) => {
    const caller = await visitor(context, request);
    if (caller === null)
      return sendPage(context, reply, { title: "Home", body: signedOut(siteOf(context).instance, canSignUp) });
    const { githost, apiUrl } = context.config;
    const linked = githost === undefined ? null : await findLinkedAccount(context.db, githost, caller.userId);
    return sendPage(context, reply, {
      title: "Home",
      body: signedIn(
        caller,
        apiUrl,
        outcome(githostError(context, request.query.error), request.query.githost, linked !== null),
        githostSection(context, linked !== null),
      ),
      account: caller.email,
      leadsTo: githostOrigin(context),
    });
  });
}

/** What became of connecting the Git host, which people come back from to this page. */
function outcome(error: string | null, said: string | undefined, isConnected: boolean): Html | null {
  if (error !== null) return notice("error", error);
  return said === "connected" && isConnected ? notice("success", "Your Git host account is connected.") : null;
}
