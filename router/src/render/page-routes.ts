// @pure
import {
  htmlType,
  jsonType,
  type Page,
  type PageName,
  pageHeaders,
  pageHtml,
  pageJson,
  pageNames,
  pages,
} from "../pages/page.ts";
import { type CaddyRoute, equals, type JsonObject, lists, matches, not, setVars, subroute, unlogged } from "./json.ts";

const chosen = "{http.vars.svc_page}";
const errorStatus = "{http.error.status_code}";

/**
 * Ends the request with a page of the platform, by way of the routes below. The bodies are part of the
 * configuration: they cost the router nothing, however many ask, and are there when it is not.
 */
export const showPage = (name: PageName): JsonObject[] => [
  setVars({ svc_page: name }),
  { handler: "error", error: pages[name].code, status_code: String(pages[name].status) },
];

const notChosen = not(equals(chosen, ...pageNames));

/**
 * A browser that has a connection of a host whose certificate is for others as well (a wildcard) tries it for those. Caddy
 * sends it away, and it asks again by another one: that counts.
 */
const uncountedIfMisdirected: CaddyRoute = { match: [equals(errorStatus, "421")], handle: [unlogged] };

/** What a visitor sees when a handler failed or asked for a page. The status is the failure's. */
export const errorRoutes = (): CaddyRoute[] => [
  uncountedIfMisdirected,
  {
    match: [notChosen],
    handle: [
      subroute([
        pageFor("unreachable", "502", "503"),
        pageFor("slow", "504"),
        pageFor("missing", "403", "404"),
        { match: [notChosen], handle: [setVars({ svc_page: "failed" })] },
      ]),
    ],
  },
  ...pageNames.map((name): CaddyRoute => ({ match: [equals(chosen, name)], handle: [answer(name)] })),
];

const pageFor = (name: PageName, ...statuses: string[]): CaddyRoute => ({
  match: [equals(errorStatus, ...statuses)],
  handle: [setVars({ svc_page: name })],
});

function answer(name: PageName): JsonObject {
  const page: Page = pages[name];
  const send = (type: string, body: string): JsonObject => ({
    handler: "static_response",
    status_code: errorStatus,
    headers: lists({ ...pageHeaders(page), "Content-Type": type }),
    body,
  });
  return subroute([
    { match: [asksForJson], handle: [send(jsonType, pageJson(page))] },
    ...(page.asks
      ? [{ match: [matches(address, plainAddress)], handle: [send(htmlType, pageHtml(page, address))] }]
      : []),
    { handle: [send(htmlType, pageHtml(page))] },
  ]);
}

const address = "{http.request.uri}";
/**
 * Path and query that may stand in an attribute as they are. With anything else the page does not name where it was
 * asked for, and the browser does.
 */
const plainAddress = "^/[A-Za-z0-9._~/%+,:@=?-]*$";

/** As `wantsJson` decides. */
const asksForJson: JsonObject = {
  header: { Accept: ["*application/json*"] },
  ...not({ header: { Accept: ["*text/html*"] } }),
};
