import type { FastifyInstance } from "fastify";
import type { Endpoint } from "../../http/endpoint.ts";
import { accessText } from "../../http/openapi.ts";
import { apiPrefix } from "../../http/paths.ts";
import type { IdentityContext } from "../context.ts";
import { type Html, html } from "./html.ts";
import { sendPage } from "./site.ts";

const row = ({ method, path, summary, access }: Endpoint): Html => html`<section class="call">
<h2><span class="method">${method}</span> <code>${path}</code></h2>
<p>${summary}</p>
<p class="hint">${accessText(access)}</p>
</section>`;

/** What the API offers, for people; programs read the same from openapi.json. */
export function registerDocs(scope: FastifyInstance, context: IdentityContext, endpoints: readonly Endpoint[]): void {
  scope.get(`${apiPrefix}/docs`, async (_request, reply) =>
    sendPage(context, reply, {
      title: "API",
      wide: true,
      body: html`<h1>API</h1>
<p class="lead">Addresses begin with <code>${context.config.apiUrl}${apiPrefix}</code>. Send a key in the header <code>x-api-key</code>. Replies are JSON: <code>ok</code> tells success, <code>error.code</code> and <code>error.message</code> what is wrong. Bodies in full are in <a href="${apiPrefix}/openapi.json">openapi.json</a>.</p>
${endpoints.map(row)}`,
    }),
  );
}
