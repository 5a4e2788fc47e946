import { htmlType, jsonType, type PageName, pageHeaders, pageHtml, pageJson, pageNames, pages } from "../pages/page.ts";
import { type CaddyRoute, equals, type JsonObject, lists, not, setVars, subroute } from "./json.ts";

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

/** What a visitor sees when a handler failed or asked for a page. The status is the failure's. */
export const errorRoutes = (): CaddyRoute[] => [
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
  const page = pages[name];
  const send = (type: string, body: string): JsonObject => ({
    handler: "static_response",
    status_code: errorStatus,
    headers: lists({ ...pageHeaders(page), "Content-Type": type }),
    body,
  });
  return subroute([
    { match: [asksForJson], handle: [send(jsonType, pageJson(page))] },
    { handle: [send(htmlType, pageHtml(page))] },
  ]);
}

/** As `wantsJson` decides. */
const asksForJson: JsonObject = {
  header: { Accept: ["*application/json*"] },
  ...not({ header: { Accept: ["*text/html*"] } }),
};
